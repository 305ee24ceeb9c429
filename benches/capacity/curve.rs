//! The curve as SVG: processor time of the server and p99 of heartbeats over the number of viewers.

use std::fmt::Write as _;

use crate::audience::Route;
use crate::offered::Step;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 60.0;
/// The highest value of each axis: percent of a core, and milliseconds.
const PERCENT: f64 = 100.0;
const MILLIS: f64 = 100.0;

pub fn draw(steps: &[Step]) -> String {
    let most = steps.iter().map(|step| step.viewers).fold(1.0, f64::max);
    let x = |viewers: f64| MARGIN + viewers / most * (WIDTH - 2.0 * MARGIN);
    let y = |part: f64| HEIGHT - MARGIN - part.min(1.0) * (HEIGHT - 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for fifth in 0..=5 {
        let part = f64::from(fifth) / 5.0;
        let (at, level) = (x(most * part), y(part));
        let _ = write!(
            svg,
            "<line x1=\"{MARGIN}\" x2=\"{}\" y1=\"{level}\" y2=\"{level}\" stroke=\"#ddd\"/>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#0b5\">{:.0} %</text>\n\
             <text x=\"{}\" y=\"{}\" fill=\"#b40\">{:.0} ms</text>\n\
             <text x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{:.0}</text>\n",
            WIDTH - MARGIN,
            MARGIN - 6.0,
            level + 4.0,
            part * PERCENT,
            WIDTH - MARGIN + 6.0,
            level + 4.0,
            part * MILLIS,
            HEIGHT - MARGIN + 18.0,
            most * part
        );
    }
    let mut line = |colour: &str, value: &dyn Fn(&Step) -> f64| {
        let points: Vec<_> = steps
            .iter()
            .map(|step| format!("{:.1},{:.1}", x(step.viewers), y(value(step))))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
    };
    line("#0b5", &|step| step.server_cpu * 100.0 / PERCENT);
    line("#b40", &|step| {
        step.percentile(Route::Heartbeat, 0.99).unwrap_or(0.0) / MILLIS
    });
    let _ = write!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">viewers</text>\n\
         <text x=\"{MARGIN}\" y=\"24\" fill=\"#0b5\">processor time of the server, of one core</text>\n\
         <text x=\"{}\" y=\"24\" text-anchor=\"end\" fill=\"#b40\">p99 of heartbeats</text>\n</svg>\n",
        WIDTH / 2.0,
        HEIGHT - 12.0,
        WIDTH - MARGIN
    );
    svg
}
