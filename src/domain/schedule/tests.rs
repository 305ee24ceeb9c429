//! Behaviour of the schedule as a whole: imports, restarts, and answers compared with a naive model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::diff::DiffCounts;
use super::import::parsed_guide::{ChannelMap, ParsedGuide};
use super::import::repairs::{Repair, Repairs};
use super::import::{GuideError, GuideEvent, GuideEvents, GuideProgramme, RepeatedHour, Skip};
use super::source_spans::ImportPriority;
use super::tables::{ByDay, Chunk, ChunkKey, Chunks};
use super::*;
use playgate_store::{All, Durability, Options, Schema, Store, StoreError, Table, TreeName};
use playgate_types::time::{DAY, HOUR};
use playgate_types::{BroadcastId, LiveOffset, LivestreamId, TvDay, UnixSeconds, Zone};

#[path = "model_tests.rs"]
mod model_tests;

/// 2026-08-22 00:00 UTC.
const MIDNIGHT: i64 = 1_787_356_800;
const NOW: UnixSeconds = UnixSeconds(MIDNIGHT + 12 * HOUR);

/// A catalogue with a few livestreams. Broadcasts have live rights unless the title says otherwise.
struct Catalogue {
    zones: Mutex<BTreeMap<LivestreamId, Zone>>,
    no_live: Mutex<BTreeSet<String>>,
}

impl Catalogue {
    fn of(livestreams: &[(&str, Zone)]) -> Arc<Self> {
        let zones = livestreams.iter().map(|(id, zone)| (livestream(id), *zone));
        Arc::new(Self {
            zones: Mutex::new(zones.collect()),
            no_live: Mutex::default(),
        })
    }
}

impl Rights for Catalogue {
    fn livestreams(&self) -> Vec<LivestreamId> {
        self.zones.lock().unwrap().keys().cloned().collect()
    }

    fn channel(&self, livestream: &LivestreamId) -> Option<ChannelFacts> {
        let zone = self.zones.lock().unwrap().get(livestream).copied();
        zone.map(|zone| ChannelFacts { zone })
    }

    fn rights(&self, _: &LivestreamId, broadcast: &Broadcast) -> BroadcastRights {
        let title = &*broadcast.metadata.title;
        BroadcastRights {
            live: !self.no_live.lock().unwrap().contains(title),
            catchup: Some((broadcast.stop, broadcast.stop + 7 * DAY)),
            ..BroadcastRights::default()
        }
    }

    fn is_taken(&self, id: &str) -> bool {
        id == "vod" || self.zones.lock().unwrap().contains_key(id)
    }
}

fn livestream(id: &str) -> LivestreamId {
    LivestreamId::parse(id).unwrap()
}

fn in_memory() -> Store {
    Store::in_memory(tables::schema(Schema::default()))
}

fn open(store: Store, catalogue: &Arc<Catalogue>) -> Schedule {
    open_with(store, catalogue, ScheduleSettings::default())
}

fn open_with(store: Store, catalogue: &Arc<Catalogue>, view: ScheduleSettings) -> Schedule {
    let catalogue = Arc::clone(catalogue);
    Schedule::open(store, Box::new(move || catalogue.clone()), view).unwrap()
}

/// Creates livestreams in the test catalogue.
struct Making(Arc<Catalogue>);

impl MakeLivestreams for Making {
    type Error = ScheduleError;

    fn make(&self, channels: &[Unmapped]) -> Result<(), ScheduleError> {
        let mut zones = self.0.zones.lock().unwrap();
        zones.extend(channels.iter().map(|c| (c.id.clone(), Zone::utc())));
        Ok(())
    }
}

/// A guide decoder over a list.
struct Listed(std::vec::IntoIter<GuideProgramme>);

impl GuideEvents for Listed {
    fn next_event(&mut self) -> Result<Option<GuideEvent>, GuideError> {
        Ok(self.0.next().map(Box::new).map(GuideEvent::Programme))
    }

    fn repairs(&self) -> Repairs {
        Repairs::default()
    }
}

/// Builds a guide from rows of channel, title, start, stop and optional id; times in minutes after [`MIDNIGHT`].
fn guide(rows: &[(&str, &str, i64, i64)]) -> ParsedGuide {
    let rows = rows
        .iter()
        .zip(1..)
        .map(|((channel, title, start, stop), line)| {
            let (title, id) = title
                .split_once('#')
                .map_or((*title, None), |(t, i)| (t, Some(i)));
            GuideProgramme {
                line,
                channel: (*channel).to_owned(),
                id: id.map(str::to_owned),
                start: UnixSeconds(MIDNIGHT + start * 60),
                stop: Some(UnixSeconds(MIDNIGHT + stop * 60)),
                repeated: RepeatedHour::default(),
                metadata: Metadata {
                    title: title.into(),
                    ..Metadata::default()
                },
            }
        });
    let rows: Vec<_> = rows.collect();
    ParsedGuide::read(&mut Listed(rows.into_iter()), &ChannelMap::new()).unwrap()
}

fn options() -> ImportOptions {
    ImportOptions {
        priority: ImportPriority::default(),
        dry_run: false,
        accept: false,
        now: NOW,
        retention_days: 30,
    }
}

fn json(answer: &ScheduleResponse) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

fn live(schedule: &Schedule, id: &str, now: UnixSeconds) -> Value {
    let answer = schedule
        .snapshot()
        .live(&[livestream(id)], LiveOffset::LIVE, now);
    json(&answer.unwrap())
}

const DAY_OF_NEWS: [(&str, &str, i64, i64); 5] = [
    ("news", "Night", 0, 360),
    ("news", "Morning", 360, 660),
    ("news", "Noon", 700, 800),
    ("news", "Evening", 800, 1_300),
    ("film", "Feature", 0, 1_440),
];

fn two_channels() -> Arc<Catalogue> {
    Catalogue::of(&[
        ("news", Zone::utc()),
        ("film", Zone::utc()),
        ("empty", Zone::utc()),
    ])
}

#[test]
fn an_import_is_served_and_repeating_it_changes_nothing() {
    let catalogue = two_channels();
    let schedule = open(in_memory(), &catalogue);
    let first = schedule.import(guide(&DAY_OF_NEWS), &options()).unwrap();
    assert_eq!(first.outcome, ImportOutcome::Applied);
    assert_eq!(
        (first.channels, first.programmes, first.difference.added),
        (2, 5, 5)
    );
    assert_eq!(first.newly_seen, [livestream("film"), livestream("news")]);
    let stored = schedule.broadcasts(&livestream("news")).unwrap();
    assert_eq!(stored.len(), 4);
    let before = live(&schedule, "news", NOW);
    let titles = |view: &str| before["news"][view]["title"].clone();
    assert_eq!(titles("current"), "Noon");
    assert_eq!(titles("previous"), "Morning");
    assert_eq!(titles("next"), "Evening");

    let snapshot = schedule.snapshot.load_full();
    let again = schedule.import(guide(&DAY_OF_NEWS), &options()).unwrap();
    assert_eq!(again.difference.unchanged, 5);
    assert_eq!(
        again.difference.added + again.difference.changed + again.difference.removed,
        0
    );
    assert!(again.newly_seen.is_empty());
    assert!(Arc::ptr_eq(&snapshot, &schedule.snapshot.load_full()));
}

#[test]
fn a_new_channel_is_reported_once_by_each_source() {
    let store = in_memory();
    let schedule = open(store.clone(), &two_channels());
    let row = |channel| (channel, "A", 0, 60);
    let import =
        |schedule: &Schedule, channels: &[&'static str], change: &dyn Fn(&mut ImportOptions)| {
            let rows: Vec<_> = channels.iter().map(|channel| row(*channel)).collect();
            let mut options = options();
            change(&mut options);
            let report = schedule.import(guide(&rows), &options).unwrap();
            let new: Vec<_> = report
                .newly_seen
                .iter()
                .map(LivestreamId::to_string)
                .collect();
            new.join(" ")
        };
    let taken = |_: &mut ImportOptions| ();
    let of_other = |options: &mut ImportOptions| options.priority.source = "other".to_owned();
    let both = ["news", "unmapped"];
    assert_eq!(
        import(&schedule, &both, &|options| options.dry_run = true),
        "news unmapped"
    );
    assert_eq!(import(&schedule, &both, &taken), "news unmapped");
    assert_eq!(import(&schedule, &both, &taken), "");
    assert_eq!(import(&schedule, &["news"], &of_other), "news");
    let all = ["film", "news", "unmapped"];
    assert_eq!(import(&schedule, &all, &taken), "film");
    drop(schedule);
    let schedule = open(store.clone(), &two_channels());
    assert_eq!(import(&schedule, &all, &taken), "");
    assert_eq!(import(&schedule, &["news"], &of_other), "");
    // A held guide is not recorded: its new channels are reported again.
    let late = |options: &mut ImportOptions| options.now = UnixSeconds(NOW.0 + 90 * DAY);
    let more = ["empty", "film", "news", "unmapped"];
    assert_eq!(import(&schedule, &more, &late), "empty");
    assert_eq!(import(&schedule, &more, &taken), "empty");
    // A channel that the last guide did not contain is new when it returns.
    assert_eq!(import(&schedule, &["film", "news"], &taken), "");
    assert_eq!(import(&schedule, &all, &taken), "unmapped");
    assert_sound(&store);
}

#[test]
fn a_gap_and_an_unknown_livestream_give_different_errors() {
    let catalogue = two_channels();
    let schedule = open(in_memory(), &catalogue);
    schedule.import(guide(&DAY_OF_NEWS), &options()).unwrap();
    let gap = UnixSeconds(MIDNIGHT + 680 * 60);
    let snapshot = schedule.snapshot();
    let one = |id: &str| snapshot.live_one(&livestream(id), LiveOffset::LIVE, gap);
    assert_eq!(live(&schedule, "news", gap), json!({}));
    assert_eq!(live(&schedule, "empty", gap), json!({}));
    assert_eq!(one("news").unwrap_err(), QueryError::Current);
    assert_eq!(one("empty").unwrap_err(), QueryError::Current);
    assert_eq!(one("other").unwrap_err(), QueryError::Livestream);
    assert_eq!(json(&one("film").unwrap())["current"]["title"], "Feature");
    let several = [livestream("other"), livestream("news"), livestream("film")];
    let answer = snapshot.live(&several, LiveOffset::LIVE, gap).unwrap();
    assert_eq!(json(&answer).as_object().unwrap().len(), 1);
    // The gap ends before the film does.
    assert_eq!(answer.valid_until, Some(UnixSeconds(MIDNIGHT + 700 * 60)));
    let unknown = snapshot.live(&several[..1], LiveOffset::LIVE, gap);
    assert_eq!(unknown.unwrap_err(), QueryError::Livestream);
}

#[test]
fn an_implausible_import_is_held_until_accepted_and_a_dry_run_changes_nothing() {
    let catalogue = two_channels();
    let schedule = open(in_memory(), &catalogue);
    schedule.import(guide(&DAY_OF_NEWS), &options()).unwrap();
    let before = schedule.snapshot.load_full();
    let poor = || guide(&[("news", "All day", 0, 1_300)]);
    let held = schedule.import(poor(), &options()).unwrap();
    assert_eq!((held.outcome, held.issues.len()), (ImportOutcome::Held, 1));
    assert_eq!((held.difference.changed, held.difference.removed), (0, 4));
    let nothing = schedule.import(guide(&[]), &options()).unwrap();
    assert_eq!(nothing.outcome, ImportOutcome::Held);
    let mut dry = options();
    (dry.dry_run, dry.accept) = (true, true);
    let dry = schedule.import(poor(), &dry).unwrap();
    assert_eq!(
        (dry.outcome, dry.difference),
        (ImportOutcome::DryRun, held.difference)
    );
    assert!(Arc::ptr_eq(&before, &schedule.snapshot.load_full()));
    let mut accept = options();
    accept.accept = true;
    let done = schedule.import(poor(), &accept).unwrap();
    assert_eq!(
        (done.outcome, done.difference),
        (ImportOutcome::Applied, held.difference)
    );
    assert_eq!(
        live(&schedule, "news", NOW)["news"]["current"]["title"],
        "All day"
    );
}

#[test]
fn an_accepted_guide_may_be_imported_again() {
    let schedule = open(in_memory(), &two_channels());
    let days = |count: i64| -> Vec<(&str, &str, i64, i64)> {
        (0..count)
            .map(|day| ("news", "A day", day * 1_440, (day + 1) * 1_440))
            .collect()
    };
    schedule.import(guide(&days(10)), &options()).unwrap();
    let short = |days: &[(&str, &str, i64, i64)], accept| {
        let options = ImportOptions {
            accept,
            ..options()
        };
        schedule.import(guide(days), &options).unwrap()
    };
    // It changes broadcasts, and ends days before the schedule does.
    let mut other = days(3);
    other[1].1 = "Another day";
    assert_eq!(short(&other, false).outcome, ImportOutcome::Held);
    assert_eq!(short(&other, true).outcome, ImportOutcome::Applied);
    // The same guide again, and the next one of that length.
    let again = short(&other, false);
    assert_eq!(again.outcome, ImportOutcome::Applied);
    assert!(again.difference.is_none());
    other[2].1 = "A third day";
    assert_eq!(short(&other, false).outcome, ImportOutcome::Applied);
    other[0].1 = "A first day";
    assert_eq!(short(&other[..1], false).outcome, ImportOutcome::Held);
    // The broadcasts further ahead are still stored.
    assert_eq!(schedule.broadcasts(&livestream("news")).unwrap().len(), 10);
}

#[test]
fn a_report_shows_what_would_change() {
    let schedule = open(in_memory(), &two_channels());
    schedule.import(guide(&DAY_OF_NEWS), &options()).unwrap();
    let mut rows = DAY_OF_NEWS.to_vec();
    rows[1].1 = "Dawn";
    (rows[2].2, rows[2].3) = (710, 810);
    rows.remove(3);
    rows.push(("news", "Night", 1_300, 1_440));
    let dry = ImportOptions {
        dry_run: true,
        ..options()
    };
    let report = schedule.import(guide(&rows), &dry).unwrap();
    let [news] = &report.edits[..] else {
        panic!("{:?}", report.edits);
    };
    assert_eq!(news.livestream.as_str(), "news");
    let DiffCounts {
        added,
        changed,
        removed,
        ..
    } = news.difference;
    assert_eq!((added, changed, removed), (2, 1, 2));
    let shown = |airing: &Option<import_preview::BroadcastSummary>| {
        airing.as_ref().map_or("-".to_owned(), |a| {
            format!("{} {}", a.title, (a.start.0 - MIDNIGHT) / 60)
        })
    };
    let lines: Vec<_> = (news.edits.iter())
        .map(|edit| format!("{} > {}", shown(&edit.before), shown(&edit.after)))
        .collect();
    assert_eq!(
        lines,
        [
            "Morning 360 > -",
            "- > Dawn 360",
            "Noon 700 > Noon 710",
            "Evening 800 > -",
            "- > Night 1300"
        ]
    );
}

#[test]
fn a_mistaken_date_does_not_extend_a_programme() {
    let schedule = open(in_memory(), &two_channels());
    let far = 4 * 366 * 24 * 60;
    let mut rows = guide(&[("news", "Last", 0, 60), ("news", "Far", far, far + 60)]);
    let news = rows.channels.values_mut().next().unwrap();
    news.rows[0].stop = None;
    let report = schedule.import(rows, &options()).unwrap();
    assert_eq!(report.skipped.count(Skip::TooFar), 1);
    // The end of the last row is estimated, and not taken from the mistake.
    assert_eq!(report.repairs.count(Repair::LastStop), 1);
}

#[test]
fn a_mistaken_stop_neither_covers_the_schedule_nor_holds_later_guides() {
    let schedule = open(in_memory(), &two_channels());
    let far = 900 * 366 * 24 * 60;
    let rows = guide(&[("news", "First", 0, 60), ("news", "Last", 60, far)]);
    let report = schedule.import(rows, &options()).unwrap();
    assert_eq!(report.skipped.count(Skip::TooFar), 1);
    assert_eq!(report.difference.added, 1);
    let next = guide(&[("news", "First", 0, 60), ("news", "Last", 60, 120)]);
    assert_eq!(
        schedule.import(next, &options()).unwrap().difference.added,
        1
    );
}

#[test]
fn a_guide_whose_channels_are_all_unknown_is_held_for_that_reason() {
    let schedule = open(in_memory(), &two_channels());
    let held = |rows: &[(&str, &str, i64, i64)]| -> Vec<String> {
        let report = schedule.import(guide(rows), &options()).unwrap();
        report.issues.iter().map(ToString::to_string).collect()
    };
    let channels = ["c1", "c2", "c3", "c4", "c5", "c6", "c7"];
    let rows = channels.map(|id| (id, "A", 0, 60));
    assert_eq!(
        held(&rows),
        [
            "the catalogue has none of the guide's channels: c1, c2, c3, c4, c5 and 2 more. Map them with `channels` \
          of the EPG source, or create livestreams for them"
        ]
    );
    // A channel that is known and has only old programmes is another cause.
    let old = ("news", "Old", -40 * 1_440, -40 * 1_440 + 60);
    assert_eq!(held(&[rows[0], old]), ["the guide has no usable programme"]);
}

#[test]
fn unmapped_old_far_and_conflicting_rows_are_reported() {
    let catalogue = two_channels();
    let schedule = open(in_memory(), &catalogue);
    let far = 4 * 366 * 24 * 60;
    let draft = guide(&[
        ("sport", "A", 0, 60),
        ("sport", "B", 60, 120),
        ("news", "Old", -40 * 1_440, -40 * 1_440 + 60),
        ("news", "New", 0, 60),
        ("news", "Far", far, far + 60),
        ("news", "Vod#vod", 60, 120),
        ("news", "Own#own", 120, 180),
        ("film", "Not own#own", 120, 180),
        ("film", "Bad#a,b", 180, 240),
        ("film", "Name of a livestream#news", 240, 300),
    ]);
    let report = schedule.import(draft, &options()).unwrap();
    assert_eq!(report.unmapped[0].id, livestream("sport"));
    assert_eq!(report.unmapped[0].programmes, 2);
    for (kind, count) in [
        (Skip::Unmapped, 2),
        (Skip::TooOld, 1),
        (Skip::TooFar, 1),
        (Skip::IdTaken, 3),
        (Skip::BadId, 1),
    ] {
        assert_eq!(
            report.skipped.count(kind),
            count,
            "{kind:?} {:?}",
            report.skipped
        );
    }
    assert_eq!(
        report.difference.added + report.skipped.total(),
        report.programmes
    );
}

#[test]
fn an_applied_import_creates_livestreams() {
    let catalogue = two_channels();
    let schedule = open(in_memory(), &catalogue);
    let making = Making(Arc::clone(&catalogue));
    let draft = || {
        guide(&[
            ("sport", "A", 0, 60),
            ("sport", "B", 60, 120),
            ("vod", "C", 0, 60),
        ])
    };
    let mut dry = options();
    dry.dry_run = true;
    let would = schedule.import_making(draft(), &dry, &making).unwrap();
    assert_eq!((would.difference.added, would.created.len()), (2, 1));
    assert!(catalogue.channel(&livestream("sport")).is_none());
    let mut late = options();
    late.now = UnixSeconds(NOW.0 + 90 * DAY);
    let held = schedule.import_making(draft(), &late, &making).unwrap();
    assert_eq!(held.outcome, ImportOutcome::Held);
    assert!(catalogue.channel(&livestream("sport")).is_none());
    let done = schedule
        .import_making(draft(), &options(), &making)
        .unwrap();
    assert_eq!(done.outcome, ImportOutcome::Applied);
    assert_eq!((done.difference.added, done.created.len()), (2, 1));
    assert_eq!(done.created[0].id, livestream("sport"));
    // An id that is in use for something else is not changed.
    assert_eq!(done.unmapped[0].id, livestream("vod"));
    let on = live(&schedule, "sport", UnixSeconds(MIDNIGHT));
    assert_eq!(on["sport"]["current"]["title"], "A");
    let again = schedule
        .import_making(draft(), &options(), &making)
        .unwrap();
    assert_eq!((again.difference.unchanged, again.created.len()), (2, 0));
}

#[test]
fn answers_are_rendered_again_when_the_catalogue_changes() {
    let catalogue = two_channels();
    let schedule = open(in_memory(), &catalogue);
    schedule.import(guide(&DAY_OF_NEWS), &options()).unwrap();
    let program = |schedule: &Schedule| schedule.snapshot().program_at(&livestream("news"), NOW);
    let noon = program(&schedule).unwrap();
    assert_eq!((noon.title().as_str(), noon.live()), ("Noon", true));
    assert_eq!(noon.start(), UnixSeconds(MIDNIGHT + 700 * 60));
    assert_eq!(noon.catchup(), Some((noon.stop(), noon.stop() + 7 * DAY)));
    let tag = |schedule: &Schedule| {
        let snapshot = schedule.snapshot();
        snapshot.by_id(&noon.id().unwrap()).unwrap().tag
    };
    let before = tag(&schedule);
    catalogue.no_live.lock().unwrap().insert("Noon".to_owned());
    catalogue.zones.lock().unwrap().remove("film");
    schedule.refresh().unwrap();
    assert!(!program(&schedule).unwrap().live());
    assert_ne!(tag(&schedule), before);
    let snapshot = schedule.snapshot();
    assert!(snapshot.channel("film").is_none());
    assert!(snapshot.channel("empty").is_some());
    // Nothing of it is deleted: the livestream may come back.
    catalogue
        .zones
        .lock()
        .unwrap()
        .insert(livestream("film"), Zone::utc());
    schedule.refresh().unwrap();
    assert_eq!(
        live(&schedule, "film", NOW)["film"]["current"]["title"],
        "Feature"
    );
}

#[test]
fn old_days_are_dropped_from_memory_and_from_the_store() {
    let catalogue = two_channels();
    let store = in_memory();
    let schedule = open(store.clone(), &catalogue);
    let rows: Vec<_> = (0..40)
        .map(|day| ("news", "Show", day * 1_440, day * 1_440 + 1_440))
        .collect();
    schedule.import(guide(&rows), &options()).unwrap();
    let later = UnixSeconds(MIDNIGHT + 35 * DAY);
    schedule.retain(later, 30).unwrap();
    assert_eq!(schedule.snapshot().broadcasts(), 35);
    let day = |at: i64| {
        let date = chrono::DateTime::from_timestamp(MIDNIGHT + at * DAY, 0).unwrap();
        let day = TvDay::from_date(date.date_naive());
        let snapshot = schedule.snapshot();
        let answer = snapshot.day_one(&livestream("news"), day, schedule.view());
        json(&answer.unwrap()).as_array().unwrap().len()
    };
    // The previous TV day contains the hours from midnight to six of the first retained day.
    assert_eq!((day(3), day(4), day(5), day(38), day(39)), (0, 1, 1, 1, 0));
    let noon = later + 12 * HOUR;
    let again = open(store, &catalogue);
    assert_eq!(again.snapshot().broadcasts(), 35);
    assert_eq!(live(&again, "news", noon), live(&schedule, "news", noon));
}

/// Two schedules over one store stand for two processes: the second sees only the commits of the first.
#[test]
fn schedule_follows_commits_that_another_process_planned() {
    let (store, catalogue) = (in_memory(), two_channels());
    let owner = open(store.clone(), &catalogue);
    let follower = open(store.clone(), &catalogue);
    owner.import(guide(&DAY_OF_NEWS), &options()).unwrap();
    let served = |schedule: &Schedule| live(schedule, "news", NOW);
    // The owner's own commit published its schedule.
    assert!(!owner.catch_up().unwrap());
    assert_ne!(served(&follower), served(&owner));
    assert!(follower.catch_up().unwrap());
    assert_eq!(served(&follower), served(&owner));
    // An import compares with what the other process has committed, so it finds nothing to change.
    let mut changed = DAY_OF_NEWS;
    changed[2].1 = "High noon";
    owner.import(guide(&changed), &options()).unwrap();
    let report = follower.import(guide(&changed), &options()).unwrap();
    assert_eq!(report.difference.changed, 0, "{report:?}");
    assert_eq!(served(&follower), served(&owner));
    assert_eq!(served(&open(store, &catalogue)), served(&owner));
}

#[test]
fn a_restart_serves_the_same_and_deletes_the_chunks_of_a_failed_import() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = two_channels();
    let disk = || {
        let schema = tables::schema(Schema::default());
        Store::open(folder.path(), schema, Options::default()).unwrap()
    };
    let schedule = open(disk(), &catalogue);
    schedule.import(guide(&DAY_OF_NEWS), &options()).unwrap();
    let mut changed = DAY_OF_NEWS;
    changed[2].1 = "High noon";
    schedule.import(guide(&changed), &options()).unwrap();
    let before = live(&schedule, "news", NOW);
    let chunks = |schedule: &Schedule| {
        let all = |txn: &playgate_store::Txn<'_>| txn.scan_from::<Chunks>(None, 1_000);
        schedule.store.read(all).unwrap()
    };
    let whole = chunks(&schedule);
    // The changed day was written again, and its older generation is deleted.
    assert_eq!(whole.len(), 2);
    // Simulate a third import that was killed before its commit.
    let day = MIDNIGHT / DAY;
    let stray = (livestream("news"), day, 3, 0);
    let empty = Chunk {
        broadcasts: Vec::new(),
    };
    let written: Result<(), StoreError> = schedule
        .store
        .write(Durability::Logged, move |txn| {
            txn.put::<Chunks>(&stray, &empty)
        })
        .wait();
    written.unwrap();
    drop(schedule);

    let schedule = open(disk(), &catalogue);
    assert_eq!(live(&schedule, "news", NOW), before);
    assert_eq!(before["news"]["current"]["title"], "High noon");
    schedule.begin();
    assert_eq!(chunks(&schedule), whole);
    let third = schedule.import(guide(&DAY_OF_NEWS), &options()).unwrap();
    assert_eq!(
        (third.difference.changed, third.difference.unchanged),
        (1, 4)
    );
    drop(schedule);
    let schedule = open(disk(), &catalogue);
    assert_eq!(
        live(&schedule, "news", NOW)["news"]["current"]["title"],
        "Noon"
    );
}

#[test]
fn bulk_lookup_adds_the_stream_window_and_omits_unknown_ids() {
    let catalogue = two_channels();
    let view = ScheduleSettings {
        pad_before: 60,
        pad_after: 120,
        ..ScheduleSettings::default()
    };
    let schedule = open_with(in_memory(), &catalogue, view);
    let rows = [("news", "A#a", 0, 60), ("film", "B#b\"", 0, 60)];
    schedule.import(guide(&rows), &options()).unwrap();
    let id = |id: &str| BroadcastId::parse(id).unwrap();
    let snapshot = schedule.snapshot();
    let answer = json(&snapshot.by_ids(&[id("b\""), id("none"), id("a")], &view));
    assert_eq!(answer.as_object().unwrap().len(), 2);
    assert_eq!(answer["b\""]["streamId"], "film");
    assert_eq!(answer["a"]["streamStart"], MIDNIGHT - 60);
    assert_eq!(answer["a"]["streamStop"], MIDNIGHT + 3_600 + 120);
    assert_eq!(json(&snapshot.by_ids(&[id("none")], &view)), json!({}));
    let one = json(&snapshot.by_id(&id("a")).unwrap());
    assert!(one.get("streamId").is_none());
    assert_eq!(one["id"], "a");
    assert_eq!(
        snapshot.by_id(&id("none")).unwrap_err(),
        QueryError::Broadcast
    );
}

fn assert_sound(store: &Store) {
    for report in store.verify().unwrap().tables {
        assert!(report.is_sound(), "{report:?}");
    }
}

fn by_day(store: &Store) -> Vec<((i64, LivestreamId), ChunkKey)> {
    store
        .read(|txn| txn.scan_index::<ByDay>(&All, 1_000))
        .unwrap()
}

#[test]
fn the_index_by_day_follows_imports_and_retention() {
    let catalogue = two_channels();
    let store = in_memory();
    let schedule = open(store.clone(), &catalogue);
    let first = MIDNIGHT / DAY;
    let rows: Vec<_> = (0..4)
        .flat_map(|day| {
            let (from, to) = (day * 1_440, day * 1_440 + 1_440);
            [("news", "A", from, to), ("film", "B", from, to)]
        })
        .collect();
    schedule.import(guide(&rows), &options()).unwrap();
    assert_sound(&store);
    let days = |store: &Store| by_day(store).into_iter().map(|((day, _), _)| day - first);
    assert_eq!(days(&store).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2, 3, 3]);
    assert!(
        by_day(&store).iter().all(|((day, livestream), key)| {
            (key.1, &key.0) == (*day, livestream) && key.2 == 1
        })
    );
    // A rewritten day occurs once, under its new generation.
    let mut changed = rows.clone();
    changed[2].1 = "C";
    schedule.import(guide(&changed), &options()).unwrap();
    assert_sound(&store);
    assert_eq!(days(&store).count(), 8);
    schedule.retain(UnixSeconds(MIDNIGHT + 2 * DAY), 0).unwrap();
    assert_sound(&store);
    assert_eq!(days(&store).collect::<Vec<_>>(), [2, 2, 3, 3]);
    schedule.retain(UnixSeconds(MIDNIGHT + 9 * DAY), 0).unwrap();
    assert_sound(&store);
    assert_eq!(days(&store).count(), 0);
    assert!(schedule.broadcasts(&livestream("news")).unwrap().is_empty());
    let again = schedule.import(guide(&rows), &options()).unwrap();
    assert_eq!(again.difference.added, 8);
    assert_sound(&store);
}

/// The table without its index, to damage the index.
struct Unindexed;

impl Table for Unindexed {
    const NAME: TreeName = Chunks::NAME;
    type Key = ChunkKey;
    type Record = Chunk;
}

#[test]
fn verification_finds_missing_index_entries_and_a_rebuild_repairs_them() {
    let catalogue = two_channels();
    let store = in_memory();
    let schedule = open(store.clone(), &catalogue);
    schedule.import(guide(&DAY_OF_NEWS), &options()).unwrap();
    let whole = by_day(&store);
    let (gone, stray) = (whole[0].1.clone(), (livestream("news"), 1, 1, 0));
    let harmed: Result<(), StoreError> = store
        .write(Durability::Logged, move |txn| {
            let chunk = txn.get::<Chunks>(&gone)?.unwrap();
            txn.delete::<Unindexed>(&gone)?;
            txn.put::<Unindexed>(&stray, &chunk)
        })
        .wait();
    harmed.unwrap();
    let found = |reports: Vec<playgate_store::TableReport>| {
        let chunks = reports.into_iter().find(|r| r.table == Chunks::NAME);
        let chunks = chunks.unwrap();
        (chunks.missing.count, chunks.stale.count)
    };
    assert_eq!(found(store.verify().unwrap().tables), (1, 1));
    assert_eq!(found(store.rebuild().unwrap()), (1, 1));
    assert_sound(&store);
    let days: Vec<_> = by_day(&store)
        .into_iter()
        .map(|((day, _), _)| day)
        .collect();
    assert_eq!(days, [1, MIDNIGHT / DAY]);
}

/// Generates a random week: gaps and lengths in minutes, for each of some channels.
fn any_week() -> impl Strategy<Value = Vec<(i64, i64)>> {
    prop::collection::vec(
        (prop_oneof![3 => Just(0i64), 1 => 1i64..200], 5i64..300),
        0..60,
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Compares every answer with a naive reading of the rules, row by row.
    #[test]
    fn answers_are_those_of_a_naive_reading(
        weeks in prop::collection::vec(any_week(), 1..4),
        minutes in prop::collection::vec(-100i64..11_000, 20),
        offset in -86_400i32..=0,
    ) {
        let zones = [Zone::stored("Europe/Stockholm"), Zone::stored("Pacific/Auckland"), Zone::stored("America/St_Johns")];
        let names = ["a", "b", "c"];
        let known: Vec<_> = names.iter().zip(zones).map(|(n, z)| (*n, z)).collect();
        let catalogue = Catalogue::of(&known);
        let schedule = open(in_memory(), &catalogue);
        let mut rows = Vec::new();
        for (name, week) in names.iter().zip(&weeks) {
            let mut at = 0;
            for (gap, length) in week {
                rows.push((*name, "T", at + gap, at + gap + length));
                at += gap + length;
            }
        }
        let mut all = options();
        all.accept = true;
        schedule.import(guide(&rows), &all).unwrap();
        let ids = names.map(livestream);
        let snapshot = schedule.snapshot();
        let seconds = |minutes: i64| MIDNIGHT + minutes * 60;
        for minute in minutes {
            let point = UnixSeconds(seconds(minute) + 7);
            let offset = LiveOffset::parse(&offset.to_string()).unwrap();
            let now = point - i64::from(offset.seconds());
            let answer = snapshot.live(&ids, offset, now).unwrap();
            let body = json(&answer);
            for id in &ids {
                let mine: Vec<_> = rows.iter().filter(|row| row.0 == id.as_str()).collect();
                let on = |row: &&&(&str, &str, i64, i64)| {
                    seconds(row.2) <= point.0 && point.0 < seconds(row.3)
                };
                let current = mine.iter().filter(on).max_by_key(|row| row.2);
                let view = body.get(id.as_str());
                prop_assert_eq!(view.is_some(), current.is_some());
                let single = snapshot.live(std::slice::from_ref(id), offset, now).unwrap();
                prop_assert_eq!(json(&single).get(id.as_str()).cloned(), view.cloned());
                let one = snapshot.live_one(id, offset, now).ok();
                prop_assert_eq!(one.map(|one| json(&one)), view.cloned());
                let fresh = LiveOffset::LIVE;
                let prepared = snapshot.live(std::slice::from_ref(id), fresh, point).unwrap();
                prop_assert_eq!(json(&prepared).get(id.as_str()).cloned(), view.cloned());
                prop_assert_eq!(prepared.tag, single.tag);
                let Some((current, view)) = current.zip(view) else { continue };
                let previous = mine.iter().filter(|row| row.3 <= current.2).max_by_key(|r| r.3);
                let next = mine.iter().filter(|row| row.2 >= current.3).min_by_key(|r| r.2);
                let start = |row: Option<&&(&str, &str, i64, i64)>| {
                    row.map_or(Value::Null, |row| json!(seconds(row.2)))
                };
                prop_assert_eq!(&view["current"]["start"], &json!(seconds(current.2)));
                prop_assert_eq!(&view["previous"]["start"], &start(previous));
                prop_assert_eq!(&view["next"]["start"], &start(next));
                let program = snapshot.program_at(id, point).unwrap();
                prop_assert_eq!(program.start().0, seconds(current.2));
                prop_assert!(snapshot.program(&program.id().unwrap()).is_some());
            }
            // The answer is valid until the stated instant, and no longer.
            if let Some(until) = answer.valid_until {
                prop_assert!(until > now);
                let last = snapshot.live(&ids, offset, until - 1).unwrap();
                prop_assert_eq!(json(&last), body.clone());
                prop_assert_eq!(last.tag, answer.tag);
                prop_assert_ne!(json(&snapshot.live(&ids, offset, until).unwrap()), body);
            }
        }
        // Every broadcast is in exactly one TV day.
        let mut seen = BTreeMap::<String, Vec<i64>>::new();
        for day in -2..12 {
            let date = chrono::DateTime::from_timestamp(MIDNIGHT + day * DAY, 0).unwrap();
            let day = TvDay::from_date(date.date_naive());
            let body = json(&snapshot.day(&ids, day, schedule.view()).unwrap());
            prop_assert_eq!(body.as_object().unwrap().len(), 3);
            for id in &ids {
                let one = snapshot.day_one(id, day, schedule.view()).unwrap();
                prop_assert_eq!(&json(&one), &body[id.as_str()]);
                for broadcast in body[id.as_str()].as_array().unwrap() {
                    let start = broadcast["start"].as_i64().unwrap();
                    seen.entry(id.as_str().to_owned()).or_default().push(start);
                }
            }
        }
        for id in &ids {
            let mine = rows.iter().filter(|row| row.0 == id.as_str() && row.2 < 11 * 1_440);
            let starts: Vec<_> = mine.map(|row| seconds(row.2)).collect();
            let seen = seen.remove(id.as_str()).unwrap_or_default();
            prop_assert!(starts.iter().all(|start| seen.contains(start)));
            prop_assert!(seen.is_sorted_by(|a, b| a < b));
        }
        assert_sound(&schedule.store);
        // A reopened schedule serves the same.
        let again = open(schedule.store.clone(), &catalogue);
        for id in snapshot.channels().flat_map(|c| (0..c.entries.len()).map(|at| c.id(at))) {
            let id = BroadcastId::parse(&id).unwrap();
            let (a, b) = (snapshot.by_id(&id).unwrap(), again.snapshot().by_id(&id).unwrap());
            prop_assert_eq!((json(&a), a.tag), (json(&b), b.tag));
        }
    }
}
