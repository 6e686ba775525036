//! The results as a picture: a bar per candidate, with a line from its slowest to its fastest round.

use std::fmt::Write as _;

use crate::report::Line;

const ROW: f64 = 26.0;
const TOP: f64 = 34.0;
const LEFT: f64 = 220.0;
const WIDTH: f64 = 860.0;
/// Room behind the longest bar for its figure.
const RIGHT: f64 = 90.0;

/// An SVG of the candidates that write to a database; Kafka alone would make all others dots.
pub(crate) fn drawn(lines: &[Line]) -> String {
    let lines: Vec<&Line> = lines.iter().filter(|line| line.candidate != "kafka").collect();
    let most = lines.iter().map(|line| line.events_per_s.max).fold(1.0, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / most;
    let height = lines.iter().fold(TOP + 10.0, |height, _| height + ROW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let rounds = lines.first().map_or(0, |line| line.rounds);
    add(
        &mut svg,
        &format!(
            "<text x=\"10\" y=\"20\" fill=\"#222222\">events/s, median of {rounds} rounds, the line from the \
             slowest to the fastest</text>"
        ),
    );
    let mut y = TOP;
    for line in lines {
        add(&mut svg, &bar(line, scale, y));
        y += ROW;
    }
    svg + "</svg>\n"
}

fn bar(line: &Line, scale: f64, y: f64) -> String {
    let rate = line.events_per_s;
    let [min, median, max] = [rate.min, rate.median, rate.max].map(|rate| rate * scale);
    let (text, middle) = (y + 15.0, y + 10.0);
    format!(
        "<text x=\"{:.0}\" y=\"{text}\" text-anchor=\"end\" fill=\"#222222\">{}</text>\n\
         <rect x=\"{LEFT}\" y=\"{y}\" width=\"{median:.1}\" height=\"20\" fill=\"{}\"/>\n\
         <path d=\"M{:.1} {middle}H{:.1}\" stroke=\"#222222\"/>\n\
         <text x=\"{:.1}\" y=\"{text}\" fill=\"#222222\">{:.0}</text>",
        LEFT - 8.0,
        named(line),
        colour(&line.candidate),
        LEFT + min,
        LEFT + max,
        LEFT + max + 6.0,
        rate.median,
    )
}

/// Candidate and scenario; the plain one goes without saying.
fn named(line: &Line) -> String {
    if line.scenario == "drain" {
        return line.candidate.clone();
    }
    format!("{} {}", line.scenario, line.candidate)
}

/// Loops, limits, ours.
fn colour(candidate: &str) -> &'static str {
    if candidate.starts_with("loop") {
        "#c9a27c"
    } else if candidate.starts_with("limit") {
        "#b8bec6"
    } else {
        "#3d7ea6"
    }
}

fn add(svg: &mut String, element: &str) {
    // A text takes whatever is written to it.
    _ = writeln!(svg, "{element}");
}
