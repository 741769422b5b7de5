//! Drawing: states of a parser in rows, statements as an outline, and many such pictures on one sheet of bounded width.
//!
//! In rows, every edge that is not part of a loop leads downwards. The steps are Sugiyama's: rows by the longest path from the
//! top, none wider than the sheet; a long edge gets a place in every row that it passes; rows are ordered by the places of
//! their neighbours; places are moved towards these. The time depends only on the size of the graph, not on its shape.

use std::fmt::Write;

const CHAR_WIDTH: f64 = 6.6;
const LINE_HEIGHT: f64 = 15.0;
const GAP_X: f64 = 24.0;
const GAP_Y: f64 = 46.0;
const MARGIN: f64 = 8.0;
/// Distance between edges that pass a row.
const GAP_EDGE: f64 = 8.0;
/// Maximum width of rows of boxes.
const WIDTH_MAX: f64 = 1500.0;
/// Indentation of a branch.
const INDENT: f64 = 44.0;
/// Maximum number of indentations; deeper branches are not indented further.
const INDENTS_MAX: usize = 16;
/// Maximum height of an outline, which then continues in the next column.
const COLUMN_HEIGHT_MAX: f64 = 1200.0;
/// Distance between boxes of an outline.
const GAP_OUTLINE: f64 = 16.0;
/// Number of sweeps down and up that improve order and places.
const SWEEPS: usize = 12;

/// Something drawn as one box.
pub(super) struct Node {
    pub lines: Vec<String>,
    pub colour: &'static str,
    /// Number of enclosing branches.
    pub depth: usize,
    /// The decision that leads here, and its outcome; `None` in the outermost list of statements.
    pub parent: Option<(usize, String)>,
}

/// Something with a place: a node, or the point where an edge passes a row.
struct Item {
    row: usize,
    width: f64,
    /// True for the point where an edge passes.
    passes: bool,
    /// Left end.
    x: f64,
    above: Vec<usize>,
    below: Vec<usize>,
}

/// A graph to draw.
pub(super) struct Picture<'a> {
    nodes: Vec<(&'a [String], &'a str)>,
    edges: Vec<(usize, usize)>,
}

/// A drawn picture with its size; its upper left corner is at (0, 0).
pub(super) struct Drawn {
    svg: String,
    width: f64,
    height: f64,
}

/// Pictures in rows.
pub(super) struct Sheet {
    svg: String,
    width: f64,
    /// Position of the next picture, if it has room there.
    x: f64,
    y: f64,
    /// Height of the current row.
    height: f64,
}

impl Sheet {
    pub fn new() -> Sheet {
        Sheet { svg: String::new(), width: 0.0, x: GAP_X, y: GAP_X, height: 0.0 }
    }

    /// Adds a picture in a separate row.
    pub fn add_row(&mut self, title: &str, drawn: Drawn) {
        self.end_row();
        self.add(title, drawn);
        self.end_row();
    }

    /// Adds a picture next to the last one, if there is room.
    pub fn add(&mut self, title: &str, drawn: Drawn) {
        let width = drawn.width.max(width_of(title)) + 2.0 * MARGIN;
        if self.x + width > WIDTH_MAX {
            self.end_row();
        }
        let height = drawn.height + 2.0 * LINE_HEIGHT + MARGIN;
        let (x, y) = (self.x, self.y);
        writeln!(
            self.svg,
            "<g transform=\"translate({x:.1} {y:.1})\"><rect width=\"{width:.1}\" height=\"{height:.1}\" rx=\"5\" \
             fill=\"#f6f6f6\" stroke=\"#bbb\"/>"
        )
        .expect("a String takes everything");
        text(&mut self.svg, MARGIN, LINE_HEIGHT + 2.0, title, "black\" font-weight=\"bold");
        writeln!(
            self.svg,
            "<g transform=\"translate({MARGIN} {:.1})\">\n{}</g></g>",
            2.0 * LINE_HEIGHT,
            drawn.svg
        )
        .expect("a String takes everything");
        self.x += width + GAP_X;
        self.width = self.width.max(self.x);
        self.height = self.height.max(height);
    }

    /// Places the next item below everything so far.
    pub fn end_row(&mut self) {
        if self.x > GAP_X {
            self.y += self.height + GAP_X;
            (self.x, self.height) = (GAP_X, 0.0);
        }
    }

    /// Returns the whole sheet.
    pub fn svg(mut self) -> String {
        self.end_row();
        let (width, height) = (self.width.max(2.0 * GAP_X), self.y);
        format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}"
 viewBox="0 0 {width:.0} {height:.0}" font-family="monospace" font-size="11">
<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0L8 4L0 8z"/></marker></defs>
<rect width="100%" height="100%" fill="white"/>
{}</svg>
"#,
            self.svg
        )
    }
}

fn width_of(line: &str) -> f64 {
    line.chars().count() as f64 * CHAR_WIDTH
}

/// Returns the size of a box with these lines.
fn size_of(lines: &[String]) -> (f64, f64) {
    let longest = lines.iter().map(|line| width_of(line)).fold(0.0, f64::max);
    (longest + 2.0 * MARGIN, lines.len().max(1) as f64 * LINE_HEIGHT + 2.0 * MARGIN)
}

fn boxed(svg: &mut String, (x, y): (f64, f64), lines: &[String], colour: &str) {
    let (width, height) = size_of(lines);
    writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\" \
         fill=\"{colour}\" stroke=\"black\"/>"
    )
    .expect("a String takes everything");
    for (n, line) in lines.iter().enumerate() {
        text(svg, x + MARGIN, y + MARGIN + (n as f64 + 0.75) * LINE_HEIGHT, line, "black");
    }
}

/// Draws statements from top to bottom. A branch is indented below its decision, with the outcome that leads to it; the
/// statements after the decision are below it again. Long outlines continue in columns, from left to right.
pub(super) fn outline(nodes: &[Node]) -> Drawn {
    let mut drawn = Drawn { svg: String::new(), width: 0.0, height: 0.0 };
    let mut boxes = String::new();
    // The last box in each open list of statements, and the places of all boxes.
    let mut last: Vec<Option<usize>> = Vec::new();
    let mut places: Vec<(f64, f64, f64)> = Vec::new();
    // The current column: its left edge, its width, the position of its next box. Columns next to each other start at `band`.
    let (mut left, mut width, mut y, mut band) = (0.0, 0.0, 0.0, 0.0);
    for (i, node) in nodes.iter().enumerate() {
        let mut turned = false;
        if node.depth == 0 && y > band {
            // The boxes below this one, up to the next one of the outermost list, stay with it.
            let inside = nodes[i + 1..].iter().take_while(|node| node.depth > 0);
            let sizes = std::iter::once(node).chain(inside).map(|node| {
                let (width, height) = size_of(&node.lines);
                (node.depth.min(INDENTS_MAX) as f64 * INDENT + width, height + GAP_OUTLINE)
            });
            let (wide, high) =
                sizes.fold((0.0, 0.0), |(w, h), (width, height)| (f64::max(w, width), h + height));
            if y + high > band + COLUMN_HEIGHT_MAX {
                turned = true;
                left += width + 2.0 * GAP_X;
                if left + wide > WIDTH_MAX - 4.0 * GAP_X {
                    (left, band) = (0.0, drawn.height + GAP_X);
                }
                (width, y) = (0.0, band + GAP_OUTLINE);
            }
        }
        let x = left + node.depth.min(INDENTS_MAX) as f64 * INDENT;
        let (box_width, height) = size_of(&node.lines);
        boxed(&mut boxes, (x, y), &node.lines, node.colour);
        last.resize(node.depth + 1, None);
        let before = last[node.depth].replace(i);
        let enters = |(parent, _): &&(usize, String)| {
            nodes[*parent].depth < node.depth
                && before.is_none_or(|before| branch_of(nodes, before) != node.parent.as_ref())
        };
        if let Some((parent, answer)) = node.parent.as_ref().filter(enters) {
            // The first box of a branch: drawn from its decision. Beyond the maximum indentation it is directly below.
            let (px, _, bottom) = places[*parent];
            let (from, middle) = (px + INDENT / 4.0, y + LINE_HEIGHT / 2.0 + MARGIN);
            if x > px {
                arrow(&mut drawn.svg, &format!("M{from:.1} {bottom:.1}V{middle:.1}H{x:.1}"));
            }
            text(&mut drawn.svg, from + 2.0, y - 3.0, answer, "#a00");
        } else if let Some(before) = before {
            let (from, bottom) = (x + INDENT / 8.0, places[before].2);
            let answer = node.parent.as_ref().filter(|(parent, _)| *parent == before);
            let answer = answer.map_or("", |(_, answer)| answer.as_str());
            match turned {
                true => text(&mut drawn.svg, from + 4.0, y - 3.0, "then", "#a00"),
                false => {
                    arrow(&mut drawn.svg, &format!("M{from:.1} {bottom:.1}V{y:.1}"));
                    text(&mut drawn.svg, from + 4.0, y - 3.0, answer, "#a00");
                }
            }
        }
        places.push((x, y, y + height));
        width = f64::max(width, x - left + box_width);
        y += height + GAP_OUTLINE;
        drawn.width = drawn.width.max(x + box_width);
        drawn.height = drawn.height.max(y);
    }
    drawn.svg += &boxes;
    drawn
}

/// Returns the decision and outcome that lead to the list of statements of a box; `else if`s are beside their `if`.
fn branch_of(nodes: &[Node], at: usize) -> Option<&(usize, String)> {
    let mut at = at;
    while let Some((parent, _)) =
        nodes[at].parent.as_ref().filter(|(parent, _)| nodes[*parent].depth == nodes[at].depth)
    {
        at = *parent;
    }
    nodes[at].parent.as_ref()
}

fn arrow(svg: &mut String, path: &str) {
    writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"#555\" marker-end=\"url(#arrow)\"/>")
        .expect("a String takes everything");
}

impl<'a> Picture<'a> {
    /// Creates a graph: lines and colours of nodes, and edges between nodes by index.
    pub fn new(nodes: Vec<(&'a [String], &'a str)>, edges: Vec<(usize, usize)>) -> Picture<'a> {
        Picture { nodes, edges }
    }

    /// Returns the edges that close a loop, as found by a search from the top.
    fn back_edges(&self) -> Vec<bool> {
        let mut out = vec![Vec::new(); self.nodes.len()];
        for (i, (from, _)) in self.edges.iter().enumerate() {
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

    /// Assigns rows by the longest path from above; boxes that do not fit a full row go to the next.
    fn rows(&self, back: &[bool]) -> Vec<usize> {
        let mut missing = vec![0; self.nodes.len()];
        let mut out = vec![Vec::new(); self.nodes.len()];
        for ((from, to), _) in self.edges.iter().zip(back).filter(|(_, back)| !**back) {
            missing[*to] += 1;
            out[*from].push(*to);
        }
        let mut rows = vec![0; self.nodes.len()];
        let mut widths: Vec<f64> = Vec::new();
        let mut full = 0;
        let mut work: std::collections::VecDeque<usize> =
            (0..self.nodes.len()).filter(|node| missing[*node] == 0).collect();
        while let Some(at) = work.pop_front() {
            let width = size_of(self.nodes[at].0).0 + GAP_X;
            rows[at] = rows[at].max(full);
            loop {
                widths.resize(widths.len().max(rows[at] + 1), 0.0);
                if widths[rows[at]] == 0.0 || widths[rows[at]] + width <= WIDTH_MAX {
                    break;
                }
                // The first full row gets no more boxes, so that a box does not try all rows.
                full += usize::from(rows[at] == full);
                rows[at] += 1;
            }
            widths[rows[at]] += width;
            for &to in &out[at] {
                rows[to] = rows[to].max(rows[at] + 1);
                missing[to] -= 1;
                if missing[to] == 0 {
                    work.push_back(to);
                }
            }
        }
        rows
    }

    /// The picture.
    pub fn draw(&self) -> Drawn {
        let back = self.back_edges();
        let node_rows = self.rows(&back);
        let mut items: Vec<Item> = self
            .nodes
            .iter()
            .zip(&node_rows)
            .map(|((lines, _), &row)| {
                let width = size_of(lines).0;
                Item { row, width, passes: false, x: 0.0, above: vec![], below: vec![] }
            })
            .collect();
        // The items on each edge, from top to bottom.
        let mut ways = Vec::new();
        for ((from, to), back) in self.edges.iter().zip(&back) {
            let (top, bottom) = if *back { (*to, *from) } else { (*from, *to) };
            let mut way = vec![top];
            for row in node_rows[top] + 1..node_rows[bottom] {
                items.push(Item { row, width: 0.0, passes: true, x: 0.0, above: vec![], below: vec![] });
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

        let height_of = |i: usize| self.nodes.get(i).map_or(0.0, |(lines, _)| size_of(lines).1);
        let mut tops = Vec::new();
        let mut y = 0.0;
        for row in &rows {
            let height = row.iter().map(|&i| height_of(i)).fold(0.0, f64::max);
            tops.push((y, y + height));
            y += height + GAP_Y;
        }
        let right = items.iter().map(|item| item.x + item.width).fold(0.0, f64::max);
        let mut drawn = Drawn { svg: String::new(), width: right, height: (y - GAP_Y + MARGIN).max(0.0) };
        let centre = |i: usize| items[i].x + items[i].width / 2.0;
        let bottom_of = |i: usize| match self.nodes.get(i) {
            Some(_) => tops[items[i].row].0 + height_of(i),
            None => tops[items[i].row].1,
        };
        for (back, way) in back.iter().zip(&ways) {
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
            if way.len() == 1 {
                // A loop back to the same state.
                let (x, y) = (items[first].x + items[first].width, tops[items[first].row].0);
                path = format!("M{x:.1} {:.1}c22 0 22 -12 0 -12", y + 20.0);
            }
            let marker = if *back && way.len() > 1 { "marker-start" } else { "marker-end" };
            let dashes = if *back { " stroke-dasharray=\"4 3\"" } else { "" };
            writeln!(
                drawn.svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"#555\"{dashes} {marker}=\"url(#arrow)\"/>"
            )
            .expect("a String takes everything");
        }
        for (i, (lines, colour)) in self.nodes.iter().enumerate() {
            boxed(&mut drawn.svg, (items[i].x, tops[items[i].row].0), lines, colour);
        }
        drawn
    }
}

/// Escapes characters with a meaning in XML, and replaces those that it forbids. The length of the text is that for which its box
/// has room, whatever font the viewer has.
fn text(svg: &mut String, x: f64, y: f64, content: &str, colour: &str) {
    let known = |c: char| if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') { '\u{fffd}' } else { c };
    if content.is_empty() {
        return;
    }
    let length = width_of(content);
    let content: String = content.chars().map(known).collect();
    let content = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\" \
         fill=\"{colour}\" xml:space=\"preserve\">{content}</text>"
    )
    .expect("a String takes everything");
}

/// Orders rows and finds places, so that connected items are near each other.
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
    items.iter_mut().for_each(|item| item.x -= left);
    rows.iter().for_each(|row| fit(items, row));
}

/// Moves a row's items to the left, so that they end at [`WIDTH_MAX`] if all fit.
fn fit(items: &mut [Item], row: &[usize]) {
    let gap = |item: &Item| if item.passes { GAP_EDGE } else { GAP_X };
    let mut end = WIDTH_MAX - 4.0 * MARGIN;
    for &i in row.iter().rev() {
        items[i].x = items[i].x.min(end - items[i].width);
        end = items[i].x - gap(&items[i]);
    }
    let mut begin = 0.0;
    for &i in row {
        items[i].x = items[i].x.max(begin);
        begin = items[i].x + items[i].width + gap(&items[i]);
    }
}

/// Places a row's items next to each other, each as near to its preferred centre as the previous ones allow.
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
        x = middle + width / 2.0 + if items[i].passes { GAP_EDGE } else { GAP_X };
    }
    // The shift to the right is shared by all.
    if !row.is_empty() {
        let shift = shift / row.len() as f64;
        row.iter().for_each(|&i| items[i].x += shift);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: usize, edges: &[(usize, usize)]) {
        let lines = ["a <b> & \"c\"".to_string(), "d\u{1}".to_string()];
        let picture = Picture::new(vec![(&lines[..], "white"); nodes], edges.to_vec());
        let mut sheet = Sheet::new();
        sheet.add_row("<title>", picture.draw());
        let svg = sheet.svg();
        assert_eq!(svg.matches("<rect x").count(), picture.nodes.len());
        assert_eq!(svg.matches("stroke=\"#555\"").count(), picture.edges.len());
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        // The first line has 11 characters.
        assert_eq!(svg.matches("textLength=\"72.6\" lengthAdjust=\"spacingAndGlyphs\"").count(), nodes);
        assert!(!svg.contains("<b>") && svg.contains("&lt;b&gt; &amp;") && !svg.contains('\u{1}'), "{svg}");
    }

    #[test]
    fn graphs_of_all_shapes() {
        check(1, &[]);
        check(1, &[(0, 0)]);
        check(3, &[(0, 1), (1, 2), (2, 0), (0, 2), (0, 2)]);
        check(4, &[(3, 2), (2, 1), (1, 0)]);
        // All possible edges, in both directions.
        let all: Vec<_> = (0..40).flat_map(|a| (0..40).map(move |b| (a, b))).collect();
        check(40, &all);
        let chain: Vec<_> = (0..3000).map(|a| (a, a + 1)).collect();
        check(3001, &chain);
        check(30_000, &[]);
    }

    #[test]
    fn edges_lead_down() {
        let lines = [String::new()];
        let edges = vec![(0, 1), (1, 2), (0, 2), (2, 1), (2, 3)];
        let picture = Picture::new(vec![(&lines[..], ""); 5], edges);
        let back = picture.back_edges();
        assert_eq!(back, [false, false, false, true, false]);
        assert_eq!(picture.rows(&back), [0, 1, 2, 3, 0]);
    }

    #[test]
    fn no_row_is_wider_than_the_sheet() {
        let lines = ["x".repeat(super::super::graph::LINE_CHARS_MAX)];
        let picture = Picture::new(vec![(&lines[..], "white"); 50], Vec::new());
        assert!(picture.draw().width <= WIDTH_MAX);
        let mut sheet = Sheet::new();
        for _ in 0..20 {
            sheet.add("action a()", Picture::new(vec![(&lines[..], "white")], Vec::new()).draw());
        }
        assert!(sheet.width <= WIDTH_MAX + GAP_X, "{}", sheet.width);
    }
}
