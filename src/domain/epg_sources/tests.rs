//! EPG sources on a timer, with a scripted fetch port.

use std::collections::{HashMap, VecDeque};
use std::io::{Cursor, Read};
use std::sync::Arc;

use parking_lot::Mutex;

use super::*;
use crate::catalog::{self, Catalog, Unrated};
use crate::schedule::import::xmltv::Xmltv;
use crate::schedule::ratings::Ratings;
use crate::schedule::{
    Broadcast, BroadcastRights, ChannelFacts, ImportOutcome, Rights, Schedule, ScheduleSettings,
    tables,
};
use playgate_ports::fetch::{Fetch, Fetched};
use playgate_ports::http_client::BadAddress;
use playgate_ports::{FetchError, FetchOptions, SeededEntropy, Validators};
use playgate_store::{Schema, Store};
use playgate_types::time::HOUR;
use playgate_types::{LivestreamId, UnixSeconds, Zone};

/// 2026-08-22 00:00 UTC.
const MIDNIGHT: i64 = 1_787_356_800;

struct Catalogue(Mutex<Vec<&'static str>>);

impl Rights for Catalogue {
    fn livestreams(&self) -> Vec<LivestreamId> {
        let ids = self.0.lock();
        ids.iter()
            .map(|id| LivestreamId::parse(id).unwrap())
            .collect()
    }

    fn channel(&self, livestream: &LivestreamId) -> Option<ChannelFacts> {
        let known = self.0.lock().contains(&livestream.as_str());
        known.then_some(ChannelFacts { zone: Zone::utc() })
    }

    fn rights(&self, _: &LivestreamId, _: &Broadcast) -> BroadcastRights {
        BroadcastRights::default()
    }

    fn is_taken(&self, _: &str) -> bool {
        false
    }
}

/// Answers by location: a guide with its `ETag`, or a failure.
type Answers = HashMap<&'static str, (String, &'static str)>;

#[derive(Clone, Default)]
struct Web {
    answers: Arc<Mutex<Answers>>,
    /// Fetched locations, each with the `ETag` of the request.
    asked: Arc<Mutex<VecDeque<(String, Option<String>)>>>,
}

impl Web {
    fn serve(&self, place: &'static str, guide: String, tag: &'static str) {
        self.answers.lock().insert(place, (guide, tag));
    }

    fn requests(&self) -> Vec<(String, Option<String>)> {
        self.asked.lock().drain(..).collect()
    }
}

impl Fetch for Web {
    fn fetch(
        &self,
        place: &str,
        _: &FetchOptions,
        known: &Validators,
    ) -> Result<Fetched, FetchError> {
        let asked = (place.to_owned(), known.etag.clone());
        self.asked.lock().push_back(asked);
        let answers = self.answers.lock();
        let (guide, tag) = answers.get(place).ok_or(BadAddress("is gone"))?;
        if known.etag.as_deref() == Some(tag) {
            return Ok(Fetched::Unchanged);
        }
        Ok(Fetched::Guide {
            validators: Validators {
                etag: Some((*tag).to_owned()),
                modified: None,
            },
            body: Box::new(Cursor::new(guide.clone().into_bytes())) as Box<dyn Read + Send>,
        })
    }
}

/// Builds a guide from rows of livestream, title, start and end, in hours after midnight.
fn xmltv(rows: &[(&str, &str, i64, i64)]) -> String {
    let time = |hours: i64| {
        let at = chrono::DateTime::from_timestamp(MIDNIGHT + hours * HOUR, 0).unwrap();
        at.format("%Y%m%d%H%M%S").to_string()
    };
    let rows = rows.iter().map(|(channel, title, from, to)| {
        format!(
            "<programme channel=\"{channel}\" start=\"{}\" stop=\"{}\"><title>{title}</title></programme>",
            time(*from),
            time(*to)
        )
    });
    format!("<tv>{}</tv>", rows.collect::<String>())
}

fn feed(name: &str, place: &str, priority: u32) -> EpgSource {
    EpgSource {
        name: name.to_owned(),
        location: place.to_owned(),
        interval: HOUR,
        priority,
        options: GuideOptions::default(),
        create_livestreams: false,
        request: FetchOptions::default(),
    }
}

struct Lab {
    store: Store,
    catalogue: Arc<Catalogue>,
    schedule: Arc<Schedule>,
    web: Web,
    feeds: EpgSources,
}

impl Lab {
    fn of(list: Vec<EpgSource>) -> Self {
        let store = Schema::default();
        let store = Store::in_memory(catalog::schema(schema(tables::schema(store))));
        let catalogue = Arc::new(Catalogue(Mutex::new(vec!["news", "film"])));
        Self::on(store, catalogue, Web::default(), list)
    }

    fn on(store: Store, catalogue: Arc<Catalogue>, web: Web, list: Vec<EpgSource>) -> Self {
        let rights = Arc::clone(&catalogue);
        let rights = Box::new(move || Arc::clone(&rights) as Arc<dyn Rights>);
        let schedule = Schedule::open(store.clone(), rights, ScheduleSettings::default()).unwrap();
        let schedule = Arc::new(schedule);
        let settings = EpgSettings {
            sources: list,
            ratings: Arc::new(Ratings::built_in()),
            retention_days: 30,
            spool: std::env::temp_dir(),
        };
        let entropy = Arc::new(SeededEntropy::new(1));
        let zone = catalog::CatalogSettings { zone: Zone::utc() };
        let made = Catalog::open(store.clone(), entropy, &[7; 32], zone).unwrap();
        let feeds = EpgSources::open(
            store.clone(),
            (Arc::clone(&schedule), made),
            settings,
            Box::new(web.clone()),
            Arc::new(SeededEntropy::new(1)),
            |guide, options| Ok(Box::new(Xmltv::new(guide, options))),
        );
        Self {
            feeds: feeds.unwrap(),
            store,
            catalogue,
            schedule,
            web,
        }
    }

    /// Reopens the store with other settings, as after a restart.
    fn reopen(self, list: Vec<EpgSource>) -> Self {
        let (store, catalogue, web) =
            (self.store.clone(), self.catalogue.clone(), self.web.clone());
        drop(self);
        Self::on(store, catalogue, web, list)
    }

    fn run(&self, hours: i64) -> usize {
        self.feeds
            .run_due(UnixSeconds(MIDNIGHT + hours * HOUR))
            .unwrap()
    }

    fn state(&self, name: &str) -> EpgSourceState {
        self.feeds.show(name).unwrap().state
    }

    /// Formats the broadcasts of a livestream as `title from-to`, in hours.
    fn shown(&self, livestream: &str) -> String {
        let livestream = LivestreamId::parse(livestream).unwrap();
        let hours = |at: UnixSeconds| (at.0 - MIDNIGHT) / HOUR;
        let list = self.schedule.broadcasts(&livestream).unwrap();
        let one =
            |b: &Broadcast| format!("{} {}-{}", b.metadata.title, hours(b.start), hours(b.stop));
        list.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

#[test]
fn a_due_source_is_fetched_conditionally_and_imported_once() {
    let lab = Lab::of(vec![feed("main", "a", 0)]);
    lab.web.serve(
        "a",
        xmltv(&[("news", "A", 0, 6), ("other", "O", 0, 6)]),
        "1",
    );
    assert_eq!(lab.run(0), 1);
    assert_eq!(lab.shown("news"), "A 0-6");
    let state = lab.state("main");
    let last = state.last.as_ref().unwrap();
    assert_eq!(last.unmapped_ids, ["other"]);
    assert_eq!(
        (last.new, last.new_ids.join(" ")),
        (2, "news other".to_owned())
    );
    let due = state.due.0 - MIDNIGHT;
    assert!((HOUR..=HOUR + HOUR / 10).contains(&due), "{due}");
    assert_eq!(lab.web.requests(), [("a".to_owned(), None)]);
    assert_eq!(lab.run(0), 0);
    assert!(lab.web.requests().is_empty(), "it is not due");

    // The validators survive a restart.
    let lab = lab.reopen(vec![feed("main", "a", 0)]);
    assert_eq!(lab.run(2), 0);
    assert_eq!(lab.web.requests(), [("a".to_owned(), Some("1".to_owned()))]);
    assert_eq!(lab.state("main").last, state.last);

    // Changed settings or livestreams make the request unconditional.
    let mut mapped = feed("main", "a", 0);
    mapped.options.channels = [("other".to_owned(), "film".into())].into();
    let lab = lab.reopen(vec![mapped.clone()]);
    assert_eq!(lab.run(4), 1);
    assert_eq!(lab.web.requests(), [("a".to_owned(), None)]);
    assert_eq!(lab.shown("film"), "O 0-6");
    lab.catalogue.0.lock().push("sport");
    lab.schedule.refresh().unwrap();
    assert_eq!(lab.run(6), 1);
    assert_eq!(lab.web.requests(), [("a".to_owned(), None)]);
    // The clock was set back.
    lab.run(-200);
    assert_eq!(lab.web.requests().len(), 1);
}

#[test]
fn a_failing_source_is_retried_with_growing_pauses() {
    let lab = Lab::of(vec![feed("main", "a", 0)]);
    let mut now = UnixSeconds(MIDNIGHT);
    for wait in [60, 120, 240, 480, 960, 1_920, 3_600, 3_600] {
        assert_eq!(lab.feeds.run_due(now).unwrap(), 0);
        let state = lab.state("main");
        let waits = state.due.since(now);
        assert!(
            (wait..=wait + wait / 10).contains(&waits),
            "{wait}: {waits}"
        );
        assert!(state.error.unwrap().contains("is gone"));
        now = state.due;
    }
    assert_eq!(lab.state("main").failures, 8);
    // A malformed guide counts as a failure and changes nothing.
    let whole = xmltv(&[("news", "A", 0, 6)]);
    lab.web.serve("a", whole[..whole.len() - 3].to_owned(), "1");
    lab.feeds.run_due(now).unwrap();
    assert_eq!(
        (lab.state("main").failures, lab.shown("news")),
        (9, String::new())
    );
    lab.web.serve("a", whole, "2");
    assert_eq!(lab.feeds.run_due(lab.state("main").due).unwrap(), 1);
    let state = lab.state("main");
    assert_eq!((state.failures, state.error), (0, None));
    assert_eq!(lab.shown("news"), "A 0-6");
}

#[test]
fn a_held_guide_is_fetched_again_until_it_is_accepted() {
    let lab = Lab::of(vec![feed("main", "a", 0)]);
    let rows = |count: i64| -> Vec<(&str, &str, i64, i64)> {
        (0..count)
            .map(|n| ("news", "A", n * 24 / count, (n + 1) * 24 / count))
            .collect()
    };
    lab.web.serve("a", xmltv(&rows(12)), "1");
    lab.run(0);
    lab.web.serve("a", xmltv(&rows(2)), "2");
    assert_eq!(lab.run(2), 1);
    let last = lab.state("main").last.unwrap();
    assert_eq!((last.standstill, last.issues.len()), (HoldReason::Held, 1));
    lab.web.requests();
    lab.run(4);
    assert_eq!(lab.web.requests(), [("a".to_owned(), None)]);

    let now = UnixSeconds(MIDNIGHT + 5 * HOUR);
    let dry = Refresh {
        dry_run: true,
        accept: true,
        ..Refresh::default()
    };
    let before = lab.state("main");
    let report = lab.feeds.refresh("main", dry, now).unwrap();
    assert_eq!(report.outcome, ImportOutcome::DryRun);
    assert_eq!(report.edits.len(), 1);
    assert_eq!(lab.state("main"), before);
    let accept = Refresh {
        accept: true,
        ..Refresh::default()
    };
    let report = lab.feeds.refresh("main", accept, now).unwrap();
    assert_eq!(report.outcome, ImportOutcome::Applied);
    assert_eq!(lab.state("main").last.unwrap().standstill, HoldReason::None);
    assert_eq!(lab.shown("news"), "A 0-12, A 12-24");
    lab.run(8);
    assert_eq!(lab.state("main").last.unwrap().standstill, HoldReason::None);
    assert!(matches!(
        lab.feeds.refresh("other", accept, now),
        Err(EpgSourceError::NotFound)
    ));
}

#[test]
fn a_source_of_higher_priority_keeps_what_it_covers() {
    let both = || vec![feed("wide", "w", 1), feed("good", "g", 2)];
    let lab = Lab::of(both());
    let wide = xmltv(&[
        ("news", "W1", 0, 6),
        ("news", "W2", 6, 14),
        ("news", "W3", 14, 40),
        ("news", "W4", 40, 80),
        ("film", "F", 0, 80),
    ]);
    lab.web.serve("w", wide.clone(), "1");
    lab.run(0);
    assert_eq!(lab.shown("news"), "W1 0-6, W2 6-14, W3 14-40, W4 40-80");
    // The guide is shorter than the schedule, which is plausible: the rest is from another source.
    lab.web.serve(
        "g",
        xmltv(&[("news", "G1", 8, 12), ("news", "G2", 12, 20)]),
        "1",
    );
    assert_eq!(
        lab.feeds
            .refresh("good", Refresh::default(), UnixSeconds(MIDNIGHT))
            .unwrap()
            .issues,
        []
    );
    let joined = "W1 0-6, W2 6-8, G1 8-12, G2 12-20, W4 40-80";
    assert_eq!(lab.shown("news"), joined);
    // A new import of the wide source, even after a restart, leaves the spans of the other one unchanged.
    let lab = lab.reopen(both());
    lab.web.serve("w", wide.replace("W4", "W5"), "2");
    lab.run(2);
    assert_eq!(lab.shown("news"), joined.replace("W4", "W5"));
    assert_eq!(lab.shown("film"), "F 0-80");
    let skipped = lab.state("wide").last.unwrap();
    assert_eq!((skipped.skipped, skipped.issues.len()), (1, 0));
    // A span that the source with priority does not cover any more becomes free.
    lab.web.serve("g", xmltv(&[("news", "G1", 8, 12)]), "2");
    let accept = Refresh {
        accept: true,
        ..Refresh::default()
    };
    lab.feeds
        .refresh("good", accept, UnixSeconds(MIDNIGHT + 3 * HOUR))
        .unwrap();
    lab.feeds
        .refresh("wide", Refresh::default(), UnixSeconds(MIDNIGHT + 3 * HOUR))
        .unwrap();
    assert_eq!(
        lab.shown("news"),
        "W1 0-6, W2 6-8, G1 8-12, W3 14-40, W5 40-80"
    );
    // A sole source fills everything.
    let lab = lab.reopen(vec![feed("wide", "w", 1)]);
    lab.run(6);
    assert_eq!(lab.shown("news"), "W1 0-6, W2 6-14, W3 14-40, W5 40-80");
}

#[test]
fn a_source_rates_programmes_that_its_guide_does_not() {
    let ages = |unrated: Option<Unrated>| {
        let mut source = feed("main", "a", 0);
        source.options.unrated = unrated;
        let lab = Lab::of(vec![source]);
        lab.web
            .serve("a", xmltv(&[("news", "A", 0, 6), ("news", "B", 6, 9)]), "1");
        let report = lab
            .feeds
            .refresh("main", Refresh::default(), UnixSeconds(MIDNIGHT));
        assert_eq!(report.unwrap().unrated, 2);
        let news = LivestreamId::parse("news").unwrap();
        let list = lab.schedule.broadcasts(&news).unwrap();
        let ages: Vec<_> = list.iter().map(|one| one.metadata.pg_age).collect();
        (ages, lab.schedule.snapshot().unrated())
    };
    assert_eq!(ages(None), (vec![None; 2], 2));
    assert_eq!(ages(Some(Unrated::Allow)), (vec![Some(0); 2], 0));
    assert_eq!(ages(Some(Unrated::Age(12))), (vec![Some(12); 2], 0));
    // No user can have a limit above this.
    assert_eq!(ages(Some(Unrated::Pin)), (vec![Some(99); 2], 0));
}

#[test]
fn an_uploaded_guide_is_recorded_as_the_last_one_of_its_source() {
    let lab = Lab::of(vec![feed("main", "a", 0)]);
    lab.web.serve(
        "a",
        xmltv(&[("news", "A", 0, 6), ("other", "O", 0, 6)]),
        "1",
    );
    lab.run(0);
    assert_eq!(lab.state("main").last.unwrap().unmapped, 1);
    let now = UnixSeconds(MIDNIGHT + 60);
    let brought = xmltv(&[("news", "B", 0, 6)]);
    let draft = lab.feeds.read("main", brought.as_bytes()).unwrap();
    let options = lab.feeds.options("main", Refresh::default(), now);
    let report = lab.feeds.import(draft, &options, false).unwrap();
    lab.feeds.record("main", &report, now).unwrap();
    let state = lab.state("main");
    let last = state.last.unwrap();
    let counts = (last.unmapped, last.added, last.removed);
    assert_eq!((last.at, counts), (now, (0, 1, 1)));
    // The next fetch is unconditional, although the source has not changed.
    assert_eq!(state.etag, None);
    lab.run(2);
    assert_eq!(lab.shown("news"), "A 0-6");
    lab.feeds.record("a label", &report, now).unwrap();
}
