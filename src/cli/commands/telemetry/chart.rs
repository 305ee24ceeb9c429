//! Charts of a quality series as SVG: one below the other, with axes, units and the time zone.

use std::fmt::Write as _;

use serde_json::Value;

use crate::output;
use crate::output::members::elements;
use playgate_types::UnixSeconds;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 120.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 30.0;
const CHART: f64 = HEIGHT + 70.0;
const COLORS: [&str; 3] = ["#1f6feb", "#d1242f", "#9a6700"];

/// Title, unit, factor, and the members that are drawn with their names.
type Chart = (
    &'static str,
    &'static str,
    f64,
    &'static [(&'static str, &'static str)],
);

const CHARTS: [Chart; 5] = [
    (
        "Starts",
        "views",
        1.0,
        &[
            ("attempts", "attempts"),
            ("startFailures", "failures"),
            ("exitsBeforeStart", "exits"),
        ],
    ),
    (
        "Start-up time",
        "s",
        0.001,
        &[
            ("startupP50Millis", "median"),
            ("startupP95Millis", "95th percentile"),
        ],
    ),
    (
        "Rebuffering",
        "%",
        100.0,
        &[("rebufferRatio", "of playing time")],
    ),
    (
        "Mean bitrate",
        "Mbit/s",
        1e-6,
        &[("meanBitrate", "weighted by playing time")],
    ),
    (
        "Concurrent sessions",
        "sessions",
        1.0,
        &[("maxConcurrent", "most at one instant")],
    ),
];

pub(crate) fn draw(series: &Value) -> String {
    let number = |name| series.get(name).and_then(Value::as_f64).unwrap_or_default();
    let span = (number("from"), number("to").max(number("from") + 1.0));
    let points = elements(series, "points");
    let (width, height) = (LEFT + WIDTH + 20.0, CHART * CHARTS.len() as f64);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (place, chart) in CHARTS.iter().enumerate() {
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            out,
            "<g transform=\"translate(0 {})\">",
            CHART * place as f64
        );
        draw_chart(&mut out, chart, points, span, number("step"));
        out.push_str("</g>\n");
    }
    out.push_str("</svg>");
    out
}

fn draw_chart(
    out: &mut String,
    chart: &Chart,
    points: &[Value],
    (from, to): (f64, f64),
    step: f64,
) {
    let (title, unit, factor, lines) = chart;
    let values = |member: &str| -> Vec<(f64, f64)> {
        let value = |point: &Value| {
            Some((
                point.get("at")?.as_f64()?,
                point.get(member)?.as_f64()? * factor,
            ))
        };
        points.iter().filter_map(value).collect()
    };
    let all = lines.iter().flat_map(|(member, _)| values(member));
    let top = ceiling(all.map(|(_, value)| value).fold(0.0, f64::max));
    let x = |at: f64| LEFT + (at - from) / (to - from) * WIDTH;
    let y = |value: f64| TOP + HEIGHT * (1.0 - value / top);
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"18\" font-weight=\"bold\">{title}, {unit}</text>"
    );
    for part in [0.0, 0.5, 1.0] {
        let (value, at) = (top * part, y(top * part));
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {at:.1}h{WIDTH}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            label(value)
        );
    }
    for part in 0..=4_u8 {
        let at = from + (to - from) * f64::from(part) / 4.0;
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(at),
            TOP + HEIGHT + 18.0,
            clock(at, to - from)
        );
    }
    for ((member, name), color) in lines.iter().zip(COLORS) {
        let mut path = String::new();
        let mut before = f64::NEG_INFINITY;
        for (at, value) in values(member) {
            // A point without the figure is a gap and not a zero.
            let verb = if at - before > step * 1.5 { 'M' } else { 'L' };
            let _ = write!(path, "{verb}{:.1} {:.1}", x(at + step / 2.0), y(value));
            before = at;
        }
        // The round cap shows a point without neighbours.
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" \
             stroke-linecap=\"round\"><title>{name}</title></path>"
        );
    }
    let mut at = LEFT + WIDTH;
    for ((_, name), color) in lines.iter().zip(COLORS).rev() {
        let _ = writeln!(
            out,
            "<text x=\"{at:.0}\" y=\"18\" text-anchor=\"end\" fill=\"{color}\">{name}</text>"
        );
        at -= name.len() as f64 * 7.0 + 16.0;
    }
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn ceiling(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let step = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|step| value <= step * power);
    step.unwrap_or(10.0) * power
}

fn label(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
fn clock(at: f64, length: f64) -> String {
    let time = chrono::DateTime::from_timestamp(at as i64, 0).unwrap_or_default();
    let form = if length > 2.0 * 86_400.0 {
        "%e %b"
    } else {
        "%H:%M %Z"
    };
    let zone = output::zone();
    let form = form.replace("%Z", &zone.abbreviation(UnixSeconds(time.timestamp())));
    time.with_timezone(&zone).format(&form).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, end) in [
            (0.0, 1.0),
            (0.013, 0.02),
            (3.0, 5.0),
            (5.0, 5.0),
            (51.0, 100.0),
        ] {
            assert!((ceiling(value) - end).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn a_missing_figure_is_a_gap() {
        let point = |at: i64, ratio: Option<f64>| match ratio {
            Some(ratio) => json!({"at": at, "attempts": 3, "rebufferRatio": ratio}),
            None => json!({"at": at, "attempts": 3}),
        };
        let points = [point(0, Some(0.1)), point(60, None), point(120, Some(0.2))];
        let svg = draw(&json!({"from": 0, "to": 180, "step": 60, "points": points}));
        let line = svg.split("<title>of playing time").next().unwrap();
        let path = line.rsplit("<path d=\"").next().unwrap();
        assert_eq!(
            path.split('"').next().unwrap().matches('M').count(),
            2,
            "{path}"
        );
        assert!(svg.contains("UTC") && svg.contains("Mbit/s"));
    }
}
