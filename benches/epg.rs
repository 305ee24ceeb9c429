//! The rows "import", "start" and "memory" of `docs/performance.md`, queries without HTTP, and how an import slows down
//! readers and writers. The guide has 228,000 programmes on 500 channels, 143 MB of XMLTV.
//!
//! `cargo bench --bench epg`

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]
#![allow(clippy::cast_precision_loss, clippy::disallowed_methods)]

#[path = "yardstick/record.rs"]
mod record;
#[path = "../tests/it/support/stop_on_drop.rs"]
mod stop_on_drop;
#[path = "../tests/it/support/synthetic_guide.rs"]
mod synthetic_guide;

use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use playgate_domain::schedule::source_spans::ImportPriority;
use stop_on_drop::StopOnDrop;
use synthetic_guide::SyntheticGuide;

use playgate_domain::schedule::import::decompress::unpack;
use playgate_domain::schedule::import::parsed_guide::{ChannelMap, ParsedGuide};
use playgate_domain::schedule::import::xmltv::{Xmltv, XmltvOptions};
use playgate_domain::schedule::ratings::Ratings;
use playgate_domain::schedule::{
    Broadcast, BroadcastRights, ChannelFacts, ImportOptions, ImportReport, Rights, Schedule,
    ScheduleSettings, tables,
};
use playgate_store::{Durability, Options, Schema, Store};
use playgate_types::time::DAY;
use playgate_types::{LiveOffset, LivestreamId, UnixSeconds};
use record::{BenchRecord, BenchTable};

const CHANNELS: usize = 500;
const PROGRAMMES: usize = 456;
/// 2026-08-22 00:00 UTC.
const FIRST: i64 = 1_787_356_800;
/// How often an import is measured, with a quiet time before and after it.
const ROUNDS: usize = 3;

struct Catalogue(Vec<LivestreamId>);

impl Rights for Catalogue {
    fn livestreams(&self) -> Vec<LivestreamId> {
        self.0.clone()
    }

    fn channel(&self, _: &LivestreamId) -> Option<ChannelFacts> {
        let zone = playgate_types::Zone::stored("Europe/Stockholm");
        Some(ChannelFacts { zone })
    }

    fn rights(&self, _: &LivestreamId, broadcast: &Broadcast) -> BroadcastRights {
        BroadcastRights {
            live: true,
            catchup: Some((broadcast.stop, broadcast.stop + 7 * DAY)),
            start_over: false,
            pause: true,
            rewind: true,
            fast_forward: false,
        }
    }

    fn is_taken(&self, _: &str) -> bool {
        false
    }
}

fn import(schedule: &Schedule, path: &Path) -> ImportReport {
    let options = XmltvOptions {
        zone: playgate_types::Zone::utc(),
        ignore_offsets: false,
        languages: vec!["en".to_owned()],
        ratings: Arc::new(Ratings::built_in()),
        rating_system: None,
    };
    let (began, worked) = (Instant::now(), processor_time());
    let file = File::open(path).expect("it was just written");
    let mut source = Xmltv::new(unpack(file).expect("readable"), options);
    let draft = ParsedGuide::read(&mut source, &ChannelMap::new()).expect("well-formed");
    let read = began.elapsed();
    let options = ImportOptions {
        priority: ImportPriority::default(),
        dry_run: false,
        accept: true,
        now: UnixSeconds(FIRST),
        retention_days: 30,
    };
    let report = schedule.import(draft, &options).expect("a store");
    println!(
        "  {:.2} s, of which reading {:.2} s (goal: 2.5 s); {:.2} s of all cores; {:?}",
        began.elapsed().as_secs_f64(),
        read.as_secs_f64(),
        processor_time() - worked,
        report.difference
    );
    report
}

/// Returns the processor time of this process in seconds, which on a busy machine is more meaningful than the elapsed
/// time.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    // User and system time, in hundredths of a second.
    fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

/// Returns the resident memory of this process in MiB: now, and the peak since the last call.
fn memory() -> (f64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        number.unwrap_or(0.0) / 1_024.0
    };
    let found = (value("VmRSS:"), value("VmHWM:"));
    // Resets the peak; where that is not allowed the figures are upper bounds.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    found
}

/// The 99th percentiles of schedule reads and of commits.
#[derive(Clone, Copy)]
struct Latencies {
    read: Duration,
    commit: Duration,
}

/// Measures reads and commits at a steady pace while `run` runs.
fn measure_latencies(
    schedule: &Schedule,
    store: &Store,
    livestreams: &[LivestreamId],
    run: impl FnOnce(),
) -> Latencies {
    let stop = AtomicBool::new(false);
    let p99 = |mut all: Vec<Duration>| {
        all.sort_unstable();
        all[all.len() * 99 / 100]
    };
    let now = UnixSeconds(FIRST + 5 * DAY);
    thread::scope(|scope| {
        let reads = scope.spawn(|| {
            let mut took = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                for n in took.len()..took.len() + 20 {
                    let at = (n * 7_919) % livestreams.len();
                    let began = Instant::now();
                    let snapshot = schedule.snapshot();
                    black_box(
                        snapshot
                            .live(&livestreams[at..=at], LiveOffset::LIVE, now)
                            .ok(),
                    );
                    took.push(began.elapsed());
                }
                thread::sleep(Duration::from_millis(1));
            }
            p99(took)
        });
        let commits = scope.spawn(|| {
            let mut took = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let key = took.len() as u64 % 1_000;
                let began = Instant::now();
                let done = store.write(Durability::Durable, move |txn| {
                    txn.put::<BenchTable>(&key, &BenchRecord(vec![7; 390]))
                });
                done.wait().expect("a store");
                took.push(began.elapsed());
                thread::sleep(Duration::from_millis(2));
            }
            p99(took)
        });
        let stop = StopOnDrop(&stop);
        run();
        drop(stop);
        let (read, commit) = (reads.join(), commits.join());
        Latencies {
            read: read.expect("it ran"),
            commit: commit.expect("it ran"),
        }
    })
}

/// Prints by how much an import slows down reads and commits, compared with the quiet times before and after it.
fn while_importing(
    schedule: &Schedule,
    store: &Store,
    livestreams: &[LivestreamId],
    guides: [&Path; 2],
) {
    let quiet = || {
        measure_latencies(schedule, store, livestreams, || {
            thread::sleep(Duration::from_secs(2))
        })
    };
    let mut reads = Vec::new();
    let mut commits = Vec::new();
    let mut before = quiet();
    for round in 0..ROUNDS {
        let guide = guides[round % 2];
        let busy = measure_latencies(schedule, store, livestreams, || {
            import(schedule, guide);
        });
        let after = quiet();
        let ratio = |busy: Duration, a: Duration, b: Duration| {
            busy.as_secs_f64() / ((a + b).as_secs_f64() / 2.0)
        };
        reads.push(ratio(busy.read, before.read, after.read));
        commits.push(ratio(busy.commit, before.commit, after.commit));
        println!(
            "  p99 of a read {:?} -> {:?} -> {:?}, of a durable commit {:?} -> {:?} -> {:?}",
            before.read, busy.read, after.read, before.commit, busy.commit, after.commit
        );
        before = after;
    }
    for (name, ratios, goal) in [("reads", &mut reads, 2), ("commits", &mut commits, 5)] {
        ratios.sort_by(f64::total_cmp);
        println!(
            "  {name}: p99 {:.2} x quiet (goal: {goal})",
            ratios[ROUNDS / 2]
        );
    }
}

fn measure(name: &str, goal: u32, mut run: impl FnMut(usize)) {
    const RUNS: usize = 200_000;
    let mut rounds: Vec<f64> = (0..9)
        .map(|_| {
            let began = Instant::now();
            (0..RUNS).for_each(&mut run);
            began.elapsed().as_nanos() as f64 / RUNS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("  {name}: {:.0} ns (goal: {goal} ns)", rounds[4]);
}

fn queries(schedule: &Schedule, livestreams: &[LivestreamId]) {
    let now = UnixSeconds(FIRST + 5 * DAY);
    let spread = |n: usize| (n * 7_919) % livestreams.len();
    let ids: Vec<_> = (0..4_096)
        .filter_map(|n| {
            let at = now - i64::try_from(n * 97).unwrap_or(0);
            schedule
                .snapshot()
                .program_at(&livestreams[spread(n)], at)?
                .id()
        })
        .collect();
    let offsets: Vec<_> = (0..4_096)
        .filter_map(|n| LiveOffset::parse(&format!("-{}", 1 + n * 20)).ok())
        .collect();
    measure("live, one livestream, the same one", 300, |_| {
        black_box(
            schedule
                .snapshot()
                .live(&livestreams[..1], LiveOffset::LIVE, now)
                .ok(),
        );
    });
    measure("live, one livestream, any one", 300, |n| {
        let one = &livestreams[spread(n)..=spread(n)];
        black_box(schedule.snapshot().live(one, LiveOffset::LIVE, now).ok());
    });
    measure("live, one livestream, random offsets", 1_000, |n| {
        let one = &livestreams[spread(n)..=spread(n)];
        black_box(schedule.snapshot().live(one, offsets[n % 4_096], now).ok());
    });
    measure("program at an instant", 300, |n| {
        let at = offsets[n % 4_096].before(now);
        black_box(schedule.snapshot().program_at(&livestreams[spread(n)], at));
    });
    measure("broadcast by id", 300, |n| {
        black_box(schedule.snapshot().by_id(&ids[n % ids.len()]).ok());
    });
}

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("guide.xml");
    let guide = SyntheticGuide {
        channels: CHANNELS,
        programmes: PROGRAMMES,
        shift: 0,
        word: "Programme",
        first: FIRST,
    };
    guide.write(&path);
    let moved = folder.path().join("moved.xml");
    SyntheticGuide {
        shift: 300,
        ..guide
    }
    .write(&moved);
    let bytes = std::fs::metadata(&path).map_or(0, |data| data.len());
    println!(
        "{} programmes, {} MB",
        CHANNELS * PROGRAMMES,
        bytes / 1_000_000
    );

    let data = folder.path().join("data");
    let open = || {
        let schema = tables::schema(Schema::default()).with::<BenchTable>();
        Store::open(&data, schema, Options::default()).expect("a new store")
    };
    let livestreams: Vec<_> = (0..CHANNELS)
        .filter_map(|n| LivestreamId::parse(&format!("channel-{n}")).ok())
        .collect();
    let catalogue = Arc::new(Catalogue(livestreams.clone()));
    let serve = |store| {
        let catalogue = Arc::clone(&catalogue);
        Schedule::open(
            store,
            Box::new(move || catalogue.clone()),
            ScheduleSettings::default(),
        )
    };
    let store = open();
    let schedule = serve(store.clone()).expect("an empty store");
    let (idle, _) = memory();
    for (name, path) in [
        ("first", &path),
        ("same again", &path),
        ("moved", &moved),
        ("moved back", &path),
    ] {
        let (before, _) = memory();
        println!("{name} import:");
        import(&schedule, path);
        let (after, most) = memory();
        println!("  memory {before:.0} -> {after:.0} MiB, at most {most:.0}");
    }
    let (all, json) = schedule.snapshot().memory();
    println!(
        "schedule in memory: {:.2} x its JSON of {} MB (goal: 1.5)",
        all as f64 / json as f64,
        json / 1_000_000
    );
    println!("process: {idle:.0} MiB empty");
    queries(&schedule, &livestreams);
    println!("while a guide is imported that changes every livestream:");
    while_importing(&schedule, &store, &livestreams, [&path, &moved]);

    drop((schedule, store));
    let began = Instant::now();
    let store = open();
    let opened = began.elapsed();
    let schedule = serve(store).expect("it was closed");
    println!(
        "start: {:.2} s, of which the store {:.2} s (goal: 0.6 s); {} broadcasts",
        began.elapsed().as_secs_f64(),
        opened.as_secs_f64(),
        schedule.snapshot().broadcasts()
    );
}
