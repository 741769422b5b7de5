//! Drawing a directed graph in rows: every edge that is not part of a loop leads downwards.
//!
//! The steps are Sugiyama's: rows by the longest way from the top; a long edge gets a place in every row that
//! it passes; rows are put in order by where their neighbours are; places are shifted towards these. Time
//! grows with the size of the graph only, whatever its shape.

use std::fmt::Write;

const CHAR_WIDTH: f64 = 6.6;
const LINE_HEIGHT: f64 = 15.0;
const GAP_X: f64 = 24.0;
const GAP_Y: f64 = 46.0;
const MARGIN: f64 = 8.0;
/// Sweeps down and up that improve the order and the places.
const SWEEPS: usize = 12;

/// Something with a place: a node, or where an edge passes a row.
struct Item {
    row: usize,
    width: f64,
    /// Left end.
    x: f64,
    above: Vec<usize>,
    below: Vec<usize>,
}

/// A graph to draw.
pub(super) struct Picture<'a> {
    nodes: Vec<(&'a str, &'a str)>,
    edges: Vec<(usize, usize, &'a str)>,
}

impl<'a> Picture<'a> {
    /// Labels and colours of nodes; edges from and to nodes by number, with labels.
    pub fn new(nodes: Vec<(&'a str, &'a str)>, edges: Vec<(usize, usize, &'a str)>) -> Picture<'a> {
        Picture { nodes, edges }
    }

    /// Edges that close a loop, as a search from the top finds them.
    fn back_edges(&self) -> Vec<bool> {
        let mut out = vec![Vec::new(); self.nodes.len()];
        for (i, (from, ..)) in self.edges.iter().enumerate() {
            out[*from].push(i);
        }
        let mut back = vec![false; self.edges.len()];
        let (mut seen, mut open) = (vec![false; self.nodes.len()], vec![false; self.nodes.len()]);
        for root in 0..self.nodes.len() {
            let mut work = vec![(root, 0)];
            while let Some((at, next)) = work.pop() {
                if next == 0 && std::mem::replace(&mut seen[at], true) {
                    continue;
                }
                open[at] = true;
                match out[at].get(next) {
                    None => open[at] = false,
                    Some(&edge) => {
                        work.push((at, next + 1));
                        let to = self.edges[edge].1;
                        if open[to] {
                            back[edge] = true;
                        } else if !seen[to] {
                            work.push((to, 0));
                        }
                    }
                }
            }
        }
        back
    }

    /// Rows by the longest way from above.
    fn rows(&self, back: &[bool]) -> Vec<usize> {
        let mut missing = vec![0; self.nodes.len()];
        let mut out = vec![Vec::new(); self.nodes.len()];
        for ((from, to, _), _) in self.edges.iter().zip(back).filter(|(_, back)| !**back) {
            missing[*to] += 1;
            out[*from].push(*to);
        }
        let mut rows = vec![0; self.nodes.len()];
        let mut work: Vec<usize> = (0..self.nodes.len()).filter(|node| missing[*node] == 0).collect();
        while let Some(at) = work.pop() {
            for &to in &out[at] {
                rows[to] = rows[to].max(rows[at] + 1);
                missing[to] -= 1;
                if missing[to] == 0 {
                    work.push(to);
                }
            }
        }
        rows
    }

    /// The picture.
    pub fn svg(&self) -> String {
        let back = self.back_edges();
        let node_rows = self.rows(&back);
        let lines = |label: &str| label.lines().count().max(1);
        let width = |label: &str| {
            let longest = label.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            longest as f64 * CHAR_WIDTH + 2.0 * MARGIN
        };
        let mut items: Vec<Item> = self
            .nodes
            .iter()
            .zip(&node_rows)
            .map(|((label, _), &row)| Item { row, width: width(label), x: 0.0, above: vec![], below: vec![] })
            .collect();
        // The items that each edge goes through, from top to bottom.
        let mut ways = Vec::new();
        for ((from, to, label), back) in self.edges.iter().zip(&back) {
            let (top, bottom) = if *back { (*to, *from) } else { (*from, *to) };
            let mut way = vec![top];
            for row in node_rows[top] + 1..node_rows[bottom] {
                let wide = if row == node_rows[top] + 1 { width(label) / 2.0 } else { 0.0 };
                items.push(Item { row, width: wide, x: 0.0, above: vec![], below: vec![] });
                way.push(items.len() - 1);
            }
            if top != bottom {
                way.push(bottom);
            }
            for pair in way.windows(2) {
                items[pair[0]].below.push(pair[1]);
                items[pair[1]].above.push(pair[0]);
            }
            ways.push(way);
        }
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); node_rows.iter().max().map_or(0, |row| row + 1)];
        for (i, item) in items.iter().enumerate() {
            rows[item.row].push(i);
        }
        place(&mut items, &mut rows);

        let height = |row: &[usize]| {
            let most = row.iter().filter_map(|&i| self.nodes.get(i)).map(|(label, _)| lines(label)).max();
            most.unwrap_or(1) as f64 * LINE_HEIGHT + 2.0 * MARGIN
        };
        let mut tops = Vec::new();
        let mut y = GAP_X;
        for row in &rows {
            tops.push((y, y + height(row)));
            y += height(row) + GAP_Y;
        }
        let right = items.iter().map(|item| item.x + item.width).fold(0.0, f64::max) + GAP_X;
        let mut svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{right:.0}" height="{y:.0}"
 viewBox="0 0 {right:.0} {y:.0}" font-family="monospace" font-size="11">
<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0L8 4L0 8z"/></marker></defs>
<rect width="100%" height="100%" fill="white"/>
"#
        );
        let centre = |i: usize| items[i].x + items[i].width / 2.0;
        let bottom_of = |i: usize| match self.nodes.get(i) {
            Some((label, _)) => tops[items[i].row].0 + lines(label) as f64 * LINE_HEIGHT + 2.0 * MARGIN,
            None => tops[items[i].row].1,
        };
        for (((_, _, label), back), way) in self.edges.iter().zip(&back).zip(&ways) {
            let (Some(&first), Some(&last)) = (way.first(), way.last()) else { continue };
            let mut path = format!("M{:.1} {:.1}", centre(first), bottom_of(first));
            let mut from = (centre(first), bottom_of(first));
            for &at in &way[1..] {
                let to = (centre(at), tops[items[at].row].0);
                let middle = (from.1 + to.1) / 2.0;
                write!(path, "C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {:.1}", from.0, to.0, to.0, to.1)
                    .expect("a String takes everything");
                from = (to.0, bottom_of(at));
                if at != last {
                    write!(path, "L{:.1} {:.1}", from.0, from.1).expect("a String takes everything");
                }
            }
            let marker = if *back { "marker-start" } else { "marker-end" };
            let dashes = if *back { " stroke-dasharray=\"4 3\"" } else { "" };
            writeln!(
                svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"#555\"{dashes} {marker}=\"url(#arrow)\"/>"
            )
            .expect("a String takes everything");
            if let (false, Some(&second)) = (label.is_empty(), way.get(1)) {
                let x = centre(first) * 0.6 + centre(second) * 0.4;
                let y = (bottom_of(first) + tops[items[second].row].0) / 2.0;
                text(&mut svg, x, y, label, "#a00");
            }
        }
        for (i, (label, colour)) in self.nodes.iter().enumerate() {
            let (x, top, width) = (items[i].x, tops[items[i].row].0, items[i].width);
            let high = lines(label) as f64 * LINE_HEIGHT + 2.0 * MARGIN;
            writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{high:.1}\" rx=\"3\" \
                 fill=\"{colour}\" stroke=\"black\"/>"
            )
            .expect("a String takes everything");
            for (n, line) in label.lines().enumerate() {
                text(
                    &mut svg,
                    x + width / 2.0,
                    top + MARGIN + (n as f64 + 0.75) * LINE_HEIGHT,
                    line,
                    "black",
                );
            }
        }
        svg + "</svg>\n"
    }
}

fn text(svg: &mut String, x: f64, y: f64, content: &str, colour: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"{colour}\">{content}</text>"
    )
    .expect("a String takes everything");
}

/// Puts rows in order and finds places, so that what belongs together is near.
fn place(items: &mut [Item], rows: &mut [Vec<usize>]) {
    for row in rows.iter() {
        pack(items, row, |_, x| x);
    }
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        for step in 0..rows.len() {
            let row = if down { step } else { rows.len() - 1 - step };
            let wish = |items: &[Item], i: usize| {
                let near = if down { &items[i].above } else { &items[i].below };
                let sum: f64 = near.iter().map(|&n| items[n].x + items[n].width / 2.0).sum();
                match near.len() {
                    0 => items[i].x + items[i].width / 2.0,
                    n => sum / n as f64,
                }
            };
            let mut wishes: Vec<(f64, usize)> = rows[row].iter().map(|&i| (wish(items, i), i)).collect();
            wishes.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[row] = wishes.iter().map(|(_, i)| *i).collect();
            pack(items, &rows[row], |k, _| wishes[k].0);
        }
    }
    let left = items.iter().map(|item| item.x).fold(f64::INFINITY, f64::min);
    items.iter_mut().for_each(|item| item.x += GAP_X - left);
}

/// Puts a row's items next to each other, each as near to where it wants its middle as those before leave
/// room.
fn pack(items: &mut [Item], row: &[usize], wish: impl Fn(usize, f64) -> f64) {
    let mut x = f64::NEG_INFINITY;
    let mut shift = 0.0;
    for (k, &i) in row.iter().enumerate() {
        let width = items[i].width;
        let free = if x == f64::NEG_INFINITY { 0.0 } else { x + width / 2.0 };
        let wanted = wish(k, free);
        let middle = if x == f64::NEG_INFINITY { wanted } else { wanted.max(x + width / 2.0) };
        shift += wanted - middle;
        items[i].x = middle - width / 2.0;
        x = middle + width / 2.0 + GAP_X;
    }
    // What was pushed to the right is shared by all.
    if !row.is_empty() {
        let shift = shift / row.len() as f64;
        row.iter().for_each(|&i| items[i].x += shift);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: usize, edges: &[(usize, usize)]) {
        let nodes: Vec<_> = (0..nodes).map(|_| ("a <b> & \"c\"\nd", "white")).collect();
        let edges: Vec<_> = edges.iter().map(|(from, to)| (*from, *to, "x<y")).collect();
        let picture = Picture::new(nodes, edges);
        let svg = picture.svg();
        assert_eq!(svg.matches("<rect x").count(), picture.nodes.len());
        assert_eq!(svg.matches("stroke=\"#555\"").count(), picture.edges.len());
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!svg.contains("<b>") && svg.contains("&lt;b&gt; &amp;"), "{svg}");
    }

    #[test]
    fn graphs_of_all_shapes() {
        check(1, &[]);
        check(1, &[(0, 0)]);
        check(3, &[(0, 1), (1, 2), (2, 0), (0, 2), (0, 2)]);
        check(4, &[(3, 2), (2, 1), (1, 0)]);
        // As many edges as there can be, both ways.
        let all: Vec<_> = (0..40).flat_map(|a| (0..40).map(move |b| (a, b))).collect();
        check(40, &all);
        let chain: Vec<_> = (0..3000).map(|a| (a, a + 1)).collect();
        check(3001, &chain);
    }

    #[test]
    fn edges_lead_down() {
        let picture =
            Picture::new(vec![("", ""); 5], vec![(0, 1, ""), (1, 2, ""), (0, 2, ""), (2, 1, ""), (2, 3, "")]);
        let back = picture.back_edges();
        assert_eq!(back, [false, false, false, true, false]);
        assert_eq!(picture.rows(&back), [0, 1, 2, 3, 0]);
    }
}
