//! Heat maps as a picture.

use super::{Cell, Study};
use std::fmt::Write;

const CELL_WIDTH: usize = 40;
const CELL_HEIGHT: usize = 16;
const LEFT: usize = 70;
const TOP: usize = 44;
const GAP: usize = 24;

/// A column of maps: its name, and the function for its values.
type Statistic = (&'static str, fn(&Cell) -> f64);

const STATISTICS: [Statistic; 4] =
    [("min", |c| c.min), ("max", |c| c.max), ("mean", |c| c.mean), ("95th percentile", |c| c.p95)];

/// Colours from small to large: dark to light, readable without colours.
const SCALE: [[f64; 3]; 4] =
    [[68.0, 1.0, 84.0], [49.0, 104.0, 142.0], [53.0, 183.0, 121.0], [253.0, 231.0, 37.0]];

pub(super) fn svg(study: &Study) -> String {
    let map_width = LEFT + study.servers.len() * CELL_WIDTH + GAP;
    let map_height = TOP + study.hosts.len() * CELL_HEIGHT + GAP;
    let (width, height) = (map_width * STATISTICS.len(), map_height * study.hashes.len());
    let largest = study.cells.iter().flatten().flatten().flatten().map(|cell| cell.max).fold(0.0, f64::max);
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
 viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="9">
<rect width="100%" height="100%" fill="white"/>
"#
    );
    let mut put = |text: std::fmt::Arguments| svg.write_fmt(text).expect("a String takes everything");
    for (i, (name, rows)) in study.hashes.iter().zip(&study.cells).enumerate() {
        for (k, (what, value)) in STATISTICS.iter().enumerate() {
            let (x, y) = (k * map_width, i * map_height);
            let name = name.replace('&', "&amp;").replace('<', "&lt;");
            put(format_args!(
                "<text x=\"{}\" y=\"{}\" font-size=\"12\">{name}, {what}: hosts by servers</text>\n",
                x + LEFT,
                y + 16
            ));
            for (column, servers) in study.servers.iter().enumerate() {
                let x = x + LEFT + column * CELL_WIDTH + CELL_WIDTH / 2;
                put(format_args!(
                    "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{servers}</text>\n",
                    y + TOP - 6
                ));
            }
            for (line, (hosts, cells)) in study.hosts.iter().zip(rows).enumerate() {
                let y = y + TOP + line * CELL_HEIGHT;
                put(format_args!(
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{hosts}</text>\n",
                    x + LEFT - 6,
                    y + 11
                ));
                for (column, cell) in cells.iter().enumerate() {
                    let Some(cell) = cell else { continue };
                    let value = value(cell);
                    // Errors grow with the root of the number of hosts: a linear scale would show only the largest.
                    let share = if largest > 0.0 { (value / largest).sqrt() } else { 0.0 };
                    let x = x + LEFT + column * CELL_WIDTH;
                    let ink = if share > 0.6 { "black" } else { "white" };
                    let (middle, base, colour) = (x + CELL_WIDTH / 2, y + 11, colour(share));
                    put(format_args!(
                        r#"<rect class="cell" x="{x}" y="{y}" width="{CELL_WIDTH}" height="{CELL_HEIGHT}"
 fill="{colour}"/><text x="{middle}" y="{base}" text-anchor="middle" fill="{ink}">{value:.2}</text>
"#
                    ));
                }
            }
        }
    }
    svg + "</svg>\n"
}

/// Returns the colour for a number from 0 to 1.
fn colour(share: f64) -> String {
    let place = share.clamp(0.0, 1.0) * (SCALE.len() - 1) as f64;
    let low = (place as usize).min(SCALE.len() - 2);
    let part = place - low as f64;
    let [r, g, b] =
        [0, 1, 2].map(|c| (SCALE[low][c] * (1.0 - part) + SCALE[low + 1][c] * part).round() as u8);
    format!("#{r:02x}{g:02x}{b:02x}")
}
