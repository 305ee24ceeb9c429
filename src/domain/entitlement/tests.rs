//! Entitlement decisions over a real catalogue, schedule and grants: every denial and every PIN rule.

use chrono::DateTime;
use data_encoding::HEXLOWER;

use super::grants::GRANTS_MAX;
use super::model::{Revocation, TAG_ANY_COUNTRY};
use super::test_catalogue::catalogue;
use super::*;
use crate::accounts::{ParentalControl, User};
use crate::catalog::{self, Catalog, Hours, Livestream, Mode, Unrated};
use crate::decision::DecisionTrace;
use crate::schedule::import::parsed_guide::{ChannelMap, ParsedGuide};
use crate::schedule::import::repairs::Repairs;
use crate::schedule::import::{GuideError, GuideEvent, GuideEvents, GuideProgramme, RepeatedHour};
use crate::schedule::source_spans::ImportPriority;
use crate::schedule::{ImportOptions, Metadata, Schedule, ScheduleSettings};
use playgate_ports::SeededEntropy;
use playgate_store::{Schema, Store, read_record};
use playgate_types::time::{DAY, HOUR};
use playgate_types::{
    AssetId, Country, Email, LiveOffset, LivestreamId, OfferId, OperatorId, PartnerId, UnixSeconds,
    UserId,
};
use std::sync::Arc;

/// 10 January 2026, 18:00 in Stockholm.
const EVENING: i64 = 1_768_064_400;
const NOW: UnixSeconds = UnixSeconds(EVENING + HOUR / 2);

struct Listed(std::vec::IntoIter<GuideProgramme>);

impl GuideEvents for Listed {
    fn next_event(&mut self) -> Result<Option<GuideEvent>, GuideError> {
        Ok(self
            .0
            .next()
            .map(|row| GuideEvent::Programme(Box::new(row))))
    }

    fn repairs(&self) -> Repairs {
        Repairs::default()
    }
}

struct Fixture {
    store: Store,
    grants: Grants,
    rights: EntitlementService,
}

fn fixture(settings: EntitlementSettings) -> Fixture {
    let schema = catalog::schema(schema(Schema::default()));
    let store = Store::in_memory(crate::schedule::tables::schema(schema));
    let zone = playgate_types::Zone::utc();
    let entropy = Arc::new(SeededEntropy::new(1));
    let catalog = Catalog::open(
        store.clone(),
        entropy,
        &[0; 32],
        catalog::CatalogSettings { zone },
    );
    let catalog = catalog.unwrap();
    let difference = catalog.import(catalogue(), Mode::Replace, false, &|_| false);
    assert!(!difference.unwrap().changes.is_empty());
    let source = catalog.clone();
    let source = Box::new(move || source.snapshot() as _);
    let schedule = Schedule::open(store.clone(), source, ScheduleSettings::default()).unwrap();
    let draft = ParsedGuide::read(&mut Listed(guide().into_iter()), &ChannelMap::new()).unwrap();
    let options = ImportOptions {
        priority: ImportPriority::default(),
        dry_run: false,
        accept: true,
        now: NOW,
        retention_days: 30,
    };
    schedule.import(draft, &options).unwrap();
    let grants = Grants::open(store.clone(), catalog.clone(), |_, _| Ok(true)).unwrap();
    let rights = EntitlementService::new(catalog, Arc::new(schedule), grants.clone(), settings);
    Fixture {
        store,
        grants,
        rights,
    }
}

/// `channel id title start stop rating`; hours after [`EVENING`].
fn guide() -> Vec<GuideProgramme> {
    let rows: [(&str, &str, &str, i64, i64, Option<u8>); 13] = [
        ("news", "old", "Old", -200, -199, Some(0)),
        ("news", "past", "Past", -2, -1, Some(0)),
        ("news", "before", "Before", -1, 0, Some(16)),
        ("news", "now", "Now", 0, 1, Some(0)),
        ("news", "next", "Next", 1, 2, None),
        ("strict", "s-past", "Past", -2, -1, Some(0)),
        ("strict", "s-gone", "Gone", -1, 0, Some(0)),
        ("strict", "s-now", "Blackout", 0, 1, Some(0)),
        ("strict", "s-20", "At 20", 2, 3, Some(18)),
        ("strict", "s-unrated", "At 21", 3, 4, None),
        ("strict", "s-22", "At 22", 4, 5, Some(0)),
        ("strict", "s-05", "Till six", 11, 12, Some(0)),
        ("strict", "s-06", "At six", 12, 13, Some(0)),
    ];
    let row = |(channel, id, title, start, stop, pg_age): (&str, &str, &str, i64, i64, _)| {
        GuideProgramme {
            line: 1,
            channel: channel.to_owned(),
            id: Some(id.to_owned()),
            start: UnixSeconds(EVENING + start * HOUR),
            stop: Some(UnixSeconds(EVENING + stop * HOUR)),
            repeated: RepeatedHour::default(),
            metadata: Metadata {
                title: title.into(),
                pg_age,
                ..Metadata::default()
            },
        }
    };
    rows.map(row).into()
}

fn user() -> User {
    User {
        id: UserId::from_bytes([1; 16]),
        partner: PartnerId::from_bytes([2; 16]),
        email: Email::parse("a@example.com").unwrap(),
        name: None,
        country: Country::parse("SE").ok(),
        locale: None,
        birth_date: None,
        created: UnixSeconds(0),
        tags: Vec::new(),
        parental: ParentalControl {
            enabled: false,
            limit: 16,
        },
        has_pin: true,
        disabled: false,
    }
}

fn offer(id: &str) -> OfferId {
    OfferId::parse(id).unwrap()
}

impl Fixture {
    fn decide_at(
        &self,
        user: &User,
        asset: &str,
        offset: i32,
        now: UnixSeconds,
    ) -> Result<Decision, Denied> {
        let asset = AssetId::parse(asset).unwrap();
        let offset = LiveOffset::parse(&offset.to_string()).unwrap();
        let decision = self
            .rights
            .decide(user, &asset, offset, None, &DecisionTrace::off(), now);
        let explained = self.rights.explain(user, &asset, offset, None, now);
        assert_eq!(explained.denied, decision.as_ref().err().copied());
        let pin = decision.as_ref().ok().map(|granted| granted.pin_needed);
        assert_eq!(explained.pin_needed, pin);
        decision
    }

    fn denied(&self, user: &User, asset: &str, offset: i32) -> Option<Denied> {
        self.decide_at(user, asset, offset, NOW).err()
    }

    fn give(&self, id: &str, expiry: Option<i64>, now: i64) -> Result<Grant, GrantError> {
        let now = UnixSeconds(now);
        let grant = self
            .grants
            .grant(user().id, offer(id), expiry.map(UnixSeconds), None, now);
        grant.wait()
    }

    fn take(&self, id: &str, now: UnixSeconds) -> Result<(), GrantError> {
        let by = Some(OperatorId::from_bytes([5; 16]));
        self.grants.revoke(user().id, offer(id), by, now).wait()
    }
}

#[test]
fn every_denial_has_its_reason() {
    use Denied::{AssetNotFound, NoLiveRights, NotAvailable, NotEntitled};
    let fixture = fixture(EntitlementSettings::default());
    for (asset, offset, expected) in [
        ("free", 0, None),
        ("none", 0, Some(AssetNotFound)),
        ("nordic", 0, Some(NotEntitled)),
        ("premium", 0, Some(NotEntitled)),
        ("unoffered", 0, Some(NotEntitled)),
        ("pay", 0, Some(NotEntitled)),
        ("later", 0, Some(NotAvailable)),
        // Live at the live point and back in time.
        ("news", 0, None),
        ("news", -3_600, None),
        ("audio", 0, Some(NoLiveRights)),
        ("strict", 0, Some(NoLiveRights)),
        // What has ended and has no catch-up window cannot be watched any more.
        ("strict", -3_600, Some(NotAvailable)),
        ("strict", -7_200, None),
        // Broadcasts by id.
        ("now", 0, None),
        ("past", 0, None),
        ("old", 0, Some(NotAvailable)),
        ("next", 0, Some(NotAvailable)),
        ("s-now", 0, Some(NoLiveRights)),
        ("s-gone", 0, Some(NotAvailable)),
        ("s-past", 0, None),
    ] {
        assert_eq!(
            fixture.denied(&user(), asset, offset),
            expected,
            "{asset} {offset}"
        );
    }
}

#[test]
fn the_country_comes_first_after_the_asset() {
    let fixture = fixture(EntitlementSettings::default());
    let from = |country: Option<&str>| User {
        country: country.map(|country| Country::parse(country).unwrap()),
        ..user()
    };
    // No offer that includes it covers that country.
    assert_eq!(
        fixture.denied(&from(Some("US")), "nordic", 0),
        Some(Denied::GeoBlocked)
    );
    assert_eq!(
        fixture.denied(&from(None), "nordic", 0),
        Some(Denied::GeoBlocked)
    );
    // An offer that covers that country is on sale.
    assert_eq!(
        fixture.denied(&from(Some("IT")), "nordic", 0),
        Some(Denied::NotEntitled)
    );
    fixture.give("north", None, EVENING).unwrap();
    assert_eq!(fixture.denied(&from(Some("SE")), "nordic", 0), None);
    // The user's own offer does not cover that country.
    assert_eq!(
        fixture.denied(&from(Some("IT")), "nordic", 0),
        Some(Denied::GeoBlocked)
    );
    let mut tagged = from(Some("IT"));
    tagged.tags = vec![TAG_ANY_COUNTRY.to_owned()];
    let granted = fixture.decide_at(&tagged, "nordic", 0, NOW).ok().unwrap();
    assert!(granted.countries.is_empty());
    // The address takes precedence over the account.
    let asset = AssetId::parse("nordic").unwrap();
    let at = |address| {
        let address = Country::parse(address).ok();
        let decision = fixture.rights.decide(
            &from(Some("SE")),
            &asset,
            LiveOffset::LIVE,
            address,
            &DecisionTrace::off(),
            NOW,
        );
        decision.map(|granted| granted.countries)
    };
    assert_eq!(at("DE").err(), Some(Denied::GeoBlocked));
    let countries = at("NO").unwrap();
    let countries: Vec<_> = countries.iter().map(Country::as_str).collect();
    assert_eq!(countries, ["NO", "SE"]);
}

#[test]
fn a_grant_opens_its_offer_until_it_ends() {
    let fixture = fixture(EntitlementSettings::default());
    assert_eq!(
        fixture.give("none", None, EVENING),
        Err(GrantError::OfferNotFound)
    );
    let past = fixture.give("month", Some(EVENING), EVENING);
    assert_eq!(past, Err(GrantError::ExpiryPast));
    let grant = fixture.give("month", None, EVENING - 10 * DAY).unwrap();
    assert_eq!(grant.expiry, Some(UnixSeconds(EVENING + 20 * DAY)));
    // The asset's own window ends first.
    let granted = fixture.decide_at(&user(), "premium", 0, NOW).ok().unwrap();
    assert_eq!(granted.valid_until, Some(UnixSeconds(1_768_089_600)));
    let granted = fixture.decide_at(&user(), "pay", 0, NOW).ok().unwrap();
    assert_eq!(granted.valid_until, grant.expiry);
    let last = UnixSeconds(EVENING + 20 * DAY - 1);
    assert!(fixture.decide_at(&user(), "pay", 0, last).is_ok());
    assert_eq!(
        fixture.decide_at(&user(), "pay", 0, last + 1).err(),
        Some(Denied::NotEntitled)
    );
    // A renewal counts from now and is not a second grant.
    let renewed = fixture.give("month", None, EVENING).unwrap();
    assert_eq!(renewed.expiry, Some(UnixSeconds(EVENING + 30 * DAY)));
    assert_eq!(
        fixture.give("month", None, EVENING - DAY).unwrap(),
        renewed,
        "never shortened"
    );
    assert_eq!(fixture.grants.for_user(&user().id).len(), 1);
    fixture.take("month", NOW).unwrap();
    assert_eq!(fixture.denied(&user(), "pay", 0), Some(Denied::NotEntitled));
    assert_eq!(fixture.take("month", NOW), Err(GrantError::NotGranted));
    // The history is kept, also across a restart.
    fixture.give("month", None, EVENING).unwrap();
    let reopened = Grants::open(
        fixture.store.clone(),
        fixture.rights.catalog().clone(),
        |_, _| Ok(true),
    )
    .unwrap();
    let history = reopened.for_user(&user().id);
    assert_eq!(history.len(), 2);
    assert_eq!(history[0].revoked.map(|revoked| revoked.at), Some(NOW));
    let erase = fixture
        .store
        .write(playgate_store::Durability::Durable, |txn| {
            erase_user(txn, &user().id)
        });
    erase.wait().unwrap();
    assert!(fixture.grants.for_user(&user().id).is_empty());
}

#[test]
fn grants_of_one_user_are_bounded() {
    let fixture = fixture(EntitlementSettings::default());
    for round in 0..=i64::try_from(GRANTS_MAX).unwrap() {
        fixture.give("month", None, EVENING + round).unwrap();
        fixture.take("month", UnixSeconds(EVENING + round)).unwrap();
    }
    let history = fixture.grants.for_user(&user().id);
    assert_eq!(history.len(), GRANTS_MAX);
    assert_eq!(history[0].purchased_at, UnixSeconds(EVENING + 1));
}

#[test]
fn a_default_offer_holds_for_every_user_during_its_sale() {
    let fixture = fixture(EntitlementSettings::default());
    let at = |text: &str| UnixSeconds(DateTime::parse_from_rfc3339(text).unwrap().timestamp());
    let pay = |now| fixture.decide_at(&user(), "pay", 0, now);
    assert_eq!(
        pay(at("2026-02-28T23:59:59Z")).err(),
        Some(Denied::NotEntitled)
    );
    let end = at("2026-04-01T00:00:00Z");
    assert_eq!(
        pay(at("2026-03-01T00:00:00Z")).ok().unwrap().valid_until,
        Some(end)
    );
    assert_eq!(pay(end).err(), Some(Denied::NotEntitled));
}

#[test]
fn a_right_ends_with_the_catchup() {
    let fixture = fixture(EntitlementSettings::default());
    let end_of = |asset, now| {
        fixture
            .decide_at(&user(), asset, 0, now)
            .map(|granted| granted.valid_until)
    };
    let end = UnixSeconds(EVENING - HOUR + 7 * DAY);
    assert_eq!(end_of("past", NOW).ok(), Some(Some(end)));
    assert!(end_of("past", end - 1).is_ok());
    assert_eq!(end_of("past", end).err(), Some(Denied::NotAvailable));
    // A running broadcast continues into its catch-up.
    assert_eq!(
        end_of("now", NOW).ok(),
        Some(Some(UnixSeconds(EVENING + HOUR + 7 * DAY)))
    );
    let playing = |asset, now| {
        fixture
            .decide_at(&user(), asset, 0, now)
            .ok()
            .unwrap()
            .playing
    };
    assert!(matches!(playing("now", NOW), Playing::Live { at: NOW, .. }));
    let stop = UnixSeconds(EVENING + HOUR);
    assert!(matches!(playing("now", stop - 1), Playing::Live { .. }));
    assert!(matches!(playing("now", stop), Playing::Catchup { .. }));
    // The catch-up window of a blackout opens at its stop.
    assert_eq!(end_of("s-now", stop - 1).err(), Some(Denied::NoLiveRights));
    assert!(matches!(playing("s-now", stop), Playing::Catchup { .. }));
    assert_eq!(
        end_of("now", UnixSeconds(EVENING - 1)).err(),
        Some(Denied::NotAvailable)
    );
    assert!(end_of("now", UnixSeconds(EVENING)).is_ok());
}

#[test]
fn a_livestream_is_checked_by_its_current_program() {
    let fixture = fixture(EntitlementSettings::default());
    let shown = |offset| match fixture
        .decide_at(&user(), "news", offset, NOW)
        .ok()
        .unwrap()
        .playing
    {
        Playing::Live { program, .. } => program.map(|program| program.title()),
        Playing::Catchup { .. } | Playing::Vod { .. } => None,
    };
    assert_eq!(shown(0).as_deref(), Some("Now"));
    assert_eq!(shown(-1_800).as_deref(), Some("Now"));
    assert_eq!(shown(-1_801).as_deref(), Some("Before"));
    // Before the schedule begins there is a gap; nothing is withheld there.
    assert_eq!(shown(-86_400), None);
}

#[test]
fn a_livestream_overrides_the_rating_of_unrated_programs() {
    let mut livestream = Livestream::new(LivestreamId::parse("n").unwrap(), "N".to_owned());
    let mut limited = user();
    limited.parental.enabled = true;
    // The limit is 16.
    for (livestream_rule, general, asks) in [
        (None, Unrated::Pin, true),
        (None, Unrated::Allow, false),
        (None, Unrated::Age(16), true),
        (None, Unrated::Age(15), false),
        (Some(Unrated::Allow), Unrated::Pin, false),
        (Some(Unrated::Pin), Unrated::Allow, true),
        (Some(Unrated::Age(15)), Unrated::Pin, false),
        (Some(Unrated::Age(16)), Unrated::Allow, true),
    ] {
        livestream.unrated = livestream_rule;
        let settings = EntitlementSettings {
            unrated: general,
            ..EntitlementSettings::default()
        };
        let asked = |rating| settings.program_needs_pin(&limited, &livestream, NOW, rating);
        assert_eq!(asked(None), asks, "{livestream_rule:?} {general:?}");
        assert!(
            asked(Some(18)) && !asked(Some(12)),
            "a rating takes precedence"
        );
    }
}

#[test]
fn the_country_of_the_account_counts_only_if_enabled() {
    let sweden = Country::parse("SE").ok();
    let mut viewer = user();
    viewer.country = sweden;
    let settings = |profile_country| EntitlementSettings {
        profile_country,
        ..EntitlementSettings::default()
    };
    let norway = Country::parse("NO").ok();
    for on in [true, false] {
        assert_eq!(settings(on).viewer_country(&viewer, norway), norway);
    }
    assert_eq!(settings(true).viewer_country(&viewer, None), sweden);
    assert_eq!(settings(false).viewer_country(&viewer, None), None);
}

#[test]
fn the_age_rule_asks_for_the_pin() {
    let fixture = fixture(EntitlementSettings::default());
    let lenient = EntitlementSettings {
        unrated: Unrated::Allow,
        ..EntitlementSettings::default()
    };
    let lenient = self::fixture(lenient);
    let mut limited = user();
    limited.parental.enabled = true;
    // The limit is 16.
    for (asset, offset, asks, asks_if_lenient) in [
        ("free", 0, false, false),
        ("adult", 0, true, true),
        ("unrated", 0, true, false),
        ("news", 0, false, false),
        ("news", -1_801, true, true),
        ("before", 0, true, true),
        ("past", 0, false, false),
        // A gap is not rated.
        ("news", -86_400, true, false),
    ] {
        let pin = |fixture: &Fixture, user: &User| {
            fixture
                .decide_at(user, asset, offset, NOW)
                .ok()
                .unwrap()
                .pin_needed
        };
        assert_eq!(pin(&fixture, &limited), asks, "{asset} {offset}");
        assert_eq!(pin(&lenient, &limited), asks_if_lenient, "{asset} {offset}");
        assert!(!pin(&fixture, &user()), "off for a user who disabled it");
    }
    limited.parental.limit = 19;
    assert!(
        !fixture
            .decide_at(&limited, "adult", 0, NOW)
            .ok()
            .unwrap()
            .pin_needed
    );
}

#[test]
fn the_watershed_rule_asks_for_the_pin() {
    let settings = EntitlementSettings {
        rule: PinRule::Watershed,
        night: Hours::parse("22:00", "06:00").unwrap(),
        ..EntitlementSettings::default()
    };
    let fixture = fixture(settings);
    let mut limited = user();
    limited.parental.enabled = true;
    let tomorrow = UnixSeconds(EVENING + 14 * HOUR);
    for (asset, asks) in [
        // On this channel ratings count too.
        ("s-20", true),
        ("s-unrated", true),
        ("s-22", true),
        ("s-05", true),
        ("s-06", false),
        // On that channel only the start counts.
        ("before", false),
        ("next", false),
        // Videos on demand have no start time.
        ("free", false),
        ("adult", true),
        ("unrated", true),
    ] {
        let granted = fixture
            .decide_at(&limited, asset, 0, tomorrow)
            .ok()
            .unwrap();
        assert_eq!(granted.pin_needed, asks, "{asset}");
        assert!(
            !fixture
                .decide_at(&user(), asset, 0, tomorrow)
                .ok()
                .unwrap()
                .pin_needed
        );
    }
    // Live at night: the start of the program decides, not the clock.
    let pin_at = |hours: i64| {
        let now = UnixSeconds(EVENING + hours * HOUR);
        fixture
            .decide_at(&limited, "strict", 0, now)
            .ok()
            .unwrap()
            .pin_needed
    };
    assert!(pin_at(4) && pin_at(11) && !pin_at(12));
    // In a gap only the clock decides: 04:00, and 07:00 on a channel that verifies nothing.
    let gap = |asset, hours| {
        let now = UnixSeconds(EVENING + hours * HOUR);
        fixture
            .decide_at(&limited, asset, 0, now)
            .ok()
            .unwrap()
            .pin_needed
    };
    assert!(gap("news", 10) && !gap("news", 13));
}

#[test]
fn the_night_follows_the_clock_of_the_channel_over_its_changes() {
    let fixture = fixture(EntitlementSettings {
        rule: PinRule::Watershed,
        ..EntitlementSettings::default()
    });
    let mut limited = user();
    limited.parental.enabled = true;
    let snapshot = fixture.rights.catalog().snapshot();
    let id = playgate_types::LivestreamId::parse("news").unwrap();
    let news = snapshot.livestream(&id).unwrap();
    for (start, asks) in [
        ("2026-03-28T20:59:59Z", false),
        ("2026-03-28T21:00:00Z", true),
        // Summer time begins on the 29th: six o'clock comes an hour sooner.
        ("2026-03-29T03:59:59Z", true),
        ("2026-03-29T04:00:00Z", false),
        ("2026-03-29T20:00:00Z", true),
        // It ends on 25 October: six o'clock comes an hour later.
        ("2026-10-24T20:00:00Z", true),
        ("2026-10-25T04:59:59Z", true),
        ("2026-10-25T05:00:00Z", false),
        ("2026-10-25T20:59:59Z", false),
    ] {
        let start = UnixSeconds(DateTime::parse_from_rfc3339(start).unwrap().timestamp());
        let settings = fixture.rights.settings();
        let asked = settings.program_needs_pin(&limited, news, start, Some(0));
        assert_eq!(asked, asks, "{start}");
    }
}

#[test]
fn an_explanation_names_every_offer_and_continues_after_a_denial() {
    let fixture = fixture(EntitlementSettings::default());
    fixture.give("north", Some(EVENING + 1), EVENING).unwrap();
    let italian = User {
        country: Country::parse("IT").ok(),
        ..user()
    };
    let asset = AssetId::parse("nordic").unwrap();
    let explained = fixture
        .rights
        .explain(&italian, &asset, LiveOffset::LIVE, None, NOW);
    let steps: Vec<String> = explained
        .steps
        .iter()
        .map(|step| {
            let subject = step.subject.as_deref().unwrap_or("-");
            format!("{} {} {subject} {}", step.passed, step.check, step.finding)
        })
        .collect();
    assert_eq!(
        steps,
        [
            "true asset - video on demand `nordic`",
            "true country - IT, by the account",
            "false offer north subscription offer: expired on 2026-01-10 at 17:00 UTC, not valid in this country",
            "false offer south pass offer: the user does not have it",
            "true rights - the video is inside its availability window",
        ]
    );
    assert_eq!(explained.denied, Some(Denied::NotEntitled));
}

#[test]
fn is_entitled_ignores_the_current_program() {
    let fixture = fixture(EntitlementSettings::default());
    let entitled = |asset: &str| {
        let asset = AssetId::parse(asset).unwrap();
        fixture.rights.is_entitled(&user(), &asset, None, NOW)
    };
    assert!(entitled("strict") && entitled("s-now") && entitled("later"));
    assert!(!entitled("pay") && !entitled("none"));
    fixture.give("month", None, EVENING).unwrap();
    assert!(entitled("pay"));
}

#[test]
fn grant_record_bytes_are_stable() {
    let grant = Grant {
        offer: offer("o"),
        purchased_at: UnixSeconds(1),
        expiry: Some(UnixSeconds(2)),
        granted_by: Some(OperatorId::from_bytes([3; 16])),
        revoked: Some(Revocation {
            at: UnixSeconds(4),
            by: None,
        }),
    };
    let bytes = bincode::serde::encode_to_vec(&grant, bincode::config::standard()).unwrap();
    assert_eq!(
        HEXLOWER.encode(&bytes),
        "016f0201040103030303030303030303030303030303010800"
    );
    assert_eq!(read_record::<Grant>(&bytes), Some(grant));
}
