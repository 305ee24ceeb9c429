//! Reports over many days of many views.

use std::time::Instant;

use super::super::figures::Cell;
use super::super::files::Files;
use super::super::rollup::HourTable;
use super::audience::{PLATFORMS, seed_and_size};
use super::*;

/// Numbers of distinct values. Values with a low number are the most frequent.
const MODELS: i64 = 40;
const ASSETS: i64 = 300;
const VERSIONS: i64 = 12;
const COUNTRIES: i64 = 8;

/// Draws a number below `bound`; low numbers are more frequent.
fn ranked(chance: &mut Chance, bound: i64) -> i64 {
    chance.below(bound) * chance.below(bound) / bound
}

fn labels(chance: &mut Chance) -> Labels {
    let platform = PLATFORMS[usize::try_from(chance.below(4)).unwrap()];
    let model = format!("{platform}-{}", ranked(chance, MODELS));
    let drm = if platform == "ios" {
        "fairplay"
    } else {
        "widevine"
    };
    Labels::default()
        .with(Dimension::Platform, platform)
        .with(Dimension::DeviceModel, &model)
        .with(Dimension::Drm, drm)
        .with(
            Dimension::Asset,
            &format!("asset-{}", ranked(chance, ASSETS)),
        )
        .with(
            Dimension::AppVersion,
            &format!("3.{}", ranked(chance, VERSIONS)),
        )
        .with(
            Dimension::Country,
            &format!("C{}", ranked(chance, COUNTRIES)),
        )
}

/// Writes the roll-ups of a day, as closing its views would.
fn write_day(files: &Files, chance: &mut Chance, day: i64, views: u64) {
    for hour in 0..24 {
        let mut table = HourTable::default();
        for _ in 0..views / 24 {
            let (minute, labels) = (u8::try_from(chance.below(60)).unwrap(), labels(chance));
            let second = u16::from(minute) * 60;
            let failed = chance.percent(1);
            let mut begin = Cell {
                attempts: 1,
                plays: u32::from(!failed),
                start_failures: u32::from(failed),
                waits: 1,
                waited_millis: 2_000,
                played_millis: 600_000,
                rated_millis: 600_000,
                bits: 1_500_000_000,
                changes: vec![(second, 1)],
                ..Cell::default()
            };
            begin
                .startups
                .record((300 + chance.below(60) * chance.below(60)) as f64);
            let end = Cell {
                changes: vec![((second + 600).min(3_599), -1)],
                ..Cell::default()
            };
            table.add(minute, &labels, &begin);
            table.add((minute + 10).min(59), &labels, &end);
        }
        table.fold();
        files
            .write_hour(NOON.0 / HOUR - 12 + day * 24 + hour, &table, 0)
            .unwrap();
    }
}

/// The long form: `PLAYGATE_QUALITY_DAYS=31 PLAYGATE_QUALITY_VIEWS=1000000 cargo test --release --lib
/// a_report_over_a_month -- --nocapture`.
#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the long form is asked for by the environment, as in all tests"
)]
fn a_report_over_a_month_has_every_view() {
    let (seed, views) = seed_and_size(5, 2_400);
    let days = std::env::var("PLAYGATE_QUALITY_DAYS").map_or(3, |days| days.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let files = Files::open(directory.path(), false);
    let mut chance = Chance(seed);
    for day in 0..days {
        write_day(&files, &mut chance, day, views);
    }
    let quality = open(directory.path());
    println!("{days} days, {} bytes of files", quality.bytes().unwrap());
    let whole = QualityQuery {
        from: NOON - DAY / 2,
        to: NOON + (days * DAY - DAY / 2),
        ..all()
    };
    let by = |dimension| vec![GroupBy::Dimension(dimension)];
    for (name, query) in [
        ("total", whole.clone()),
        (
            "by platform",
            QualityQuery {
                by: by(Dimension::Platform),
                ..whole.clone()
            },
        ),
        (
            "by asset",
            QualityQuery {
                by: by(Dimension::Asset),
                ..whole.clone()
            },
        ),
        (
            "by hour",
            QualityQuery {
                by: vec![GroupBy::Hour],
                ..whole.clone()
            },
        ),
        (
            "series of a day",
            QualityQuery {
                step: Some(DAY),
                ..whole.clone()
            },
        ),
    ] {
        let began = Instant::now();
        let report = quality.report(&query, whole.to).unwrap();
        println!("{name}: {:?}, {} rows", began.elapsed(), report.rows.len());
        let expected = u64::try_from(days).unwrap() * (views / 24) * 24;
        assert_eq!(u64::from(report.total.figures.attempts), expected);
        let rows: u32 = report.rows.iter().map(|row| row.figures.attempts).sum();
        assert_eq!(u64::from(rows), expected);
    }
}
