//! Tests of the stored record format, which later versions must be able to read, and of what the commit publishes.

use data_encoding::HEXLOWER;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::schedule::Image;
use playgate_ports::SystemEntropy;
use playgate_store::{Record, Schema, read_record};
use playgate_types::{AssetId, Country, LivestreamId, Protocol, UnixSeconds, Zone};

fn golden<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, hex: &str) {
    let bytes = bincode::serde::encode_to_vec(value, bincode::config::standard()).unwrap();
    assert_eq!(HEXLOWER.encode(&bytes), hex);
    assert_eq!(read_record::<T>(&bytes).as_ref(), Some(value));
}

fn playlist() -> Playlists {
    Playlists([(Protocol::HlsAudio, "origin:a".to_owned())].into())
}

#[test]
fn livestreams() {
    let mut livestream = Livestream::new(LivestreamId::parse("n").unwrap(), "N".to_owned());
    livestream.own_zone = Some(Zone::utc());
    livestream.catchup_days = 7;
    livestream.extended.rewind = true;
    livestream.streams = Some(2);
    livestream.number = Some(5);
    livestream.group = Some("C".to_owned());
    livestream.playlist = playlist();
    livestream.keys = vec![KeyId::from_bytes([9; 16])];
    livestream.images = vec![Image {
        kind: "k".into(),
        default: true,
        filename: "f".into(),
        embedded_text: false,
    }];
    golden(
        &livestream,
        "016e014e01016b0101660001035554430107000001000001020103086f726967696e3a61010109090909090909090909090909090909000105010143",
    );
    let bytes = HEXLOWER.decode(b"016e014e01016b0101660001035554430107000001000001020103086f726967696e3a61010109090909090909090909090909090909");
    let mut bytes = bytes.unwrap();
    (livestream.number, livestream.group) = (None, None);
    // Version 1 has no treatment of unrated programs, version 2 no number and no group.
    for version in [1, 2] {
        let old = <Livestream as Record>::upgrade(version, &bytes);
        assert_eq!(old.as_ref(), Some(&livestream), "version {version}");
        bytes.push(0);
    }
}

#[test]
fn assets() {
    let asset = Asset {
        id: AssetId::parse("f").unwrap(),
        title: "F".to_owned(),
        images: Vec::new(),
        pg_age: Some(15),
        available: Window {
            from: Some(UnixSeconds(5)),
            to: None,
        },
        encrypted: true,
        keys: Vec::new(),
        playlist: playlist(),
        streams: None,
    };
    golden(&asset, "0166014600010f010a0001000103086f726967696e3a6100");
}

#[test]
fn offers() {
    let offer = tables::OfferRecord {
        kind: OfferKind::ThirdParty,
        all: false,
        countries: vec![Country::parse("SE").unwrap()],
        sale: Window::default(),
        duration_days: Some(30),
    };
    golden(&offer, "05000153450000011e");
    golden(&tables::PackRecord::Livestream, "00");
    golden(&tables::PackRecord::Asset, "01");
}

#[test]
fn rules_and_effects() {
    let effects = Effects {
        live: Some(false),
        catchup_days: Some(3),
        fast_forward: Some(true),
        ..Effects::default()
    };
    golden(&effects, "01000001030000000101");
    let rule = Rule {
        condition: Condition {
            livestreams: vec![LivestreamId::parse("n").unwrap()],
            when: Some(TimeWindow::Hours(Hours::NIGHT)),
            title: Some(Glob::parse("*a").unwrap()),
            category: None,
            rating: Some((12, 18)),
        },
        effects,
    };
    golden(
        &rule,
        "01016e0101fb2805fb680101022a6100010c1201000001030000000101",
    );
    let window = TimeWindow::Window(Window::default());
    golden(&window, "000000");
}

fn open(store: &Store) -> Catalog {
    let settings = CatalogSettings { zone: Zone::utc() };
    Catalog::open(
        store.clone(),
        Arc::new(SystemEntropy::default()),
        &[7; 32],
        settings,
    )
    .unwrap()
}

fn import(catalog: &Catalog, id: &str) {
    let livestream = Livestream::new(LivestreamId::parse(id).unwrap(), id.to_owned());
    let import = CatalogImport {
        livestreams: vec![Spanned {
            line: 1,
            item: livestream,
        }],
        ..CatalogImport::default()
    };
    let imported = catalog.import(import, Mode::Merge, false, &|_| false);
    assert_eq!(imported.unwrap().changes.len(), 1);
}

fn livestreams_of(catalog: &Catalog) -> Vec<String> {
    let snapshot = catalog.snapshot();
    let ids = snapshot.livestreams().map(|one| one.id.to_string());
    ids.collect()
}

/// Two catalogues over one store stand for two processes: the second sees only the commits of the first.
#[test]
fn catalogue_follows_commits_that_another_process_planned() {
    let store = Store::in_memory(schema(Schema::default()));
    let (owner, follower) = (open(&store), open(&store));
    import(&owner, "a");
    assert_eq!(livestreams_of(&owner), ["a"]);
    // The owner's own commit published its catalogue.
    assert_eq!(owner.catch_up(), Ok(false));
    assert_eq!(livestreams_of(&follower), [""; 0]);
    assert_eq!(follower.catch_up(), Ok(true));
    assert_eq!(livestreams_of(&follower), ["a"]);
    import(&owner, "b");
    // A change is based on what the other process has committed: a merge keeps it.
    import(&follower, "c");
    assert_eq!(livestreams_of(&follower), ["a", "b", "c"]);
    assert_eq!(owner.catch_up(), Ok(true));
    assert_eq!(livestreams_of(&owner), ["a", "b", "c"]);
    assert_eq!(livestreams_of(&open(&store)), ["a", "b", "c"]);
}

fn rule(title: &str, live: bool) -> Rule {
    Rule {
        condition: Condition {
            title: Glob::parse(title).ok(),
            ..Condition::default()
        },
        effects: Effects {
            live: Some(live),
            ..Effects::default()
        },
    }
}

fn replace_rules(catalog: &Catalog, rules: &[Rule]) -> Vec<String> {
    let import = CatalogImport {
        rules: rules
            .iter()
            .map(|rule| Spanned {
                line: 1,
                item: rule.clone(),
            })
            .collect(),
        ..CatalogImport::default()
    };
    let difference = catalog.import(import, Mode::Replace, false, &|_| false);
    let changes = difference.unwrap().changes;
    changes.iter().map(ToString::to_string).collect()
}

#[test]
fn repeated_rules_are_stored_and_reported() {
    let store = Store::in_memory(schema(Schema::default()));
    let catalog = open(&store);
    let (a, b) = (rule("*", true), rule("*", false));
    replace_rules(&catalog, &[a.clone(), b.clone()]);
    let stored = || {
        open(&store)
            .snapshot()
            .rules()
            .map(|rule| Rule::clone(rule))
            .collect::<Vec<_>>()
    };
    let repeated = [a.clone(), b.clone(), a.clone()];
    assert_eq!(
        replace_rules(&catalog, &repeated),
        ["+ rule title *, live on"]
    );
    assert_eq!(stored(), repeated);
    assert_eq!(replace_rules(&catalog, &repeated), [""; 0]);
    // Without the first of the two equal rules, the other one moves.
    let rest = [b, a];
    assert_eq!(
        replace_rules(&catalog, &rest),
        [
            "- rule title *, live on",
            "~ rule title *, live off: place \"2\" -> \"1\"",
            "~ rule title *, live on: place \"1\" -> \"2\"",
        ]
    );
    assert_eq!(stored(), rest);
}

#[test]
fn a_long_rule_is_not_removed_by_the_text_of_another_one() {
    let store = Store::in_memory(schema(Schema::default()));
    let catalog = open(&store);
    let [first, second] = ["one", "two"].map(|end| rule(&("x".repeat(150) + end), true));
    replace_rules(&catalog, &[first.clone(), second.clone()]);
    let remove = |text: String| {
        let edit = CatalogEdit::DropRule {
            number: 1,
            text: Some(text),
        };
        catalog.edit(edit).is_ok()
    };
    assert!(remove(first.to_string()));
    // The same request again, from an outdated list.
    assert!(!remove(first.to_string()));
    assert_eq!(catalog.snapshot().rules().count(), 1);
    assert!(remove(second.to_string()));
}
