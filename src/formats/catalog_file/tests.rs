use std::io;
use std::sync::Arc;

use super::*;
use playgate_domain::catalog::{
    self, Catalog, CatalogError, CatalogSettings, KeyId, Mode, OfferKind, Pack, What,
};
use playgate_ports::SeededEntropy;
use playgate_store::{Schema, Store};
use playgate_types::{AssetId, LivestreamId, OfferId, Protocol, UnixSeconds, Zone};

/// The documented example, with every member.
const EXAMPLE: &str = r#"
[[livestream]]
id = "news"
name = "News"
zone = "Europe/Stockholm"
live_rights = true
catchup_days = 7                    # 0: none
start_over = true
extended_rights = { pause = true, rewind = true, fastForward = false }
verify_age = false
streams = 2                         # per-channel limit, never above the total
playlist = { dash = "origin:loop/news.mpd", hls = "loop:clip/news.m3u8" }

[[asset]]                           # video on demand
id = "film-1"
title = "A \"Film\""
images = [{ type = "three-four", filename = "https://img.example/1.jpg" }]
pg_age = 15
available = { from = 2026-01-01T00:00:00Z, to = 2027-01-01T01:00:00+01:00 }
encrypted = true
keys = [{ kid = "00112233445566778899aabbccddeeff", key_file = "film-1.key" }]
playlist = { dash = "origin:film-1/manifest.mpd", hls = "https://cdn.example/film-1/master.m3u8" }

[[offer]]
id = "premium"
type = "subscription"
pack = { livestreams = ["news"], assets = ["film-1"] }
countries = ["SE", "de"]
sale = { from = 2026-01-01T00:00:00Z }
duration_days = 30

[[offer]]
id = "free"
type = "default"
pack = "all"

[[rule]]
livestream = "news"
title = "*Football*"
live = false
catchup = false

[[rule]]
livestream = ["news"]
category = "Film"
rating = { from = 16 }
window = { from = "20:00", to = "24:00" }
catchup_days = 1
extended_rights = { rewind = false }

[[rule]]
window = { from = 2026-06-01T00:00:00Z, to = 2026-07-01T00:00:00Z }
start_over = false

[[broadcast]]
id = "b-1"
live = true
"#;

const KEY: &[u8] = b"000102030405060708090a0b0c0d0e0f\n";

fn open(path: &str) -> io::Result<Vec<u8>> {
    match path {
        "film-1.key" => Ok(KEY.to_vec()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    }
}

fn catalog() -> Catalog {
    let store = Store::in_memory(catalog::schema(Schema::default()));
    reopened(store)
}

fn reopened(store: Store) -> Catalog {
    let zone = Zone::utc();
    let entropy = Arc::new(SeededEntropy::new(1));
    Catalog::open(store, entropy, &[7; 32], CatalogSettings { zone }).unwrap()
}

fn import(catalog: &Catalog, text: &str, mode: Mode) -> Vec<String> {
    let parsed = parse(text, Some(&open));
    let difference = catalog.import(parsed, mode, false, &|_| false).unwrap();
    let shown = difference.changes.iter().map(ToString::to_string);
    shown.collect()
}

fn mistakes(text: &str) -> Vec<String> {
    mistakes_in(&catalog(), text, Mode::Replace)
}

fn mistakes_in(catalog: &Catalog, text: &str, mode: Mode) -> Vec<String> {
    let parsed = parse(text, Some(&open));
    match catalog.import(parsed, mode, false, &|id| id == "bc-1") {
        Err(CatalogError::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_example_is_read_with_all_its_members() {
    let catalog = catalog();
    assert_eq!(import(&catalog, EXAMPLE, Mode::Replace).len(), 9);
    let snapshot = catalog.snapshot();
    let news = snapshot
        .livestream(&LivestreamId::parse("news").unwrap())
        .unwrap();
    assert_eq!(
        (news.zone, news.catchup_days, news.streams),
        (Zone::stored("Europe/Stockholm"), 7, Some(2))
    );
    assert!(news.start_over && news.extended.rewind && !news.extended.fast_forward);
    let film = snapshot.asset(&AssetId::parse("film-1").unwrap()).unwrap();
    assert_eq!((film.title.as_str(), film.pg_age), ("A \"Film\"", Some(15)));
    assert_eq!(film.available.from, Some(UnixSeconds(1_767_225_600)));
    assert_eq!(film.available.to, Some(UnixSeconds(1_798_761_600)));
    assert_eq!(film.playlist.0.len(), 2);
    assert!(film.playlist.location(Protocol::Dashs).is_some());
    assert!(film.images[0].default);
    let premium = snapshot.offer(&OfferId::parse("premium").unwrap()).unwrap();
    assert_eq!(
        (premium.kind, premium.duration_days),
        (OfferKind::Subscription, Some(30))
    );
    let countries: Vec<_> = premium.countries.iter().map(|one| one.as_str()).collect();
    assert_eq!(countries, ["DE", "SE"]);
    assert!(matches!(&premium.pack, Pack::Listed { livestreams, assets }
        if livestreams.len() == 1 && assets.len() == 1));
    assert_eq!(
        (snapshot.rules().len(), snapshot.broadcasts().len()),
        (3, 1)
    );
    let id = KeyId::parse("00112233445566778899aabbccddeeff").unwrap();
    assert_eq!(catalog.content_key(&id).unwrap().reveal()[15], 15);
}

#[test]
fn an_import_survives_a_restart() {
    let store = Store::in_memory(catalog::schema(Schema::default()));
    let first = reopened(store.clone());
    import(&first, EXAMPLE, Mode::Replace);
    let second = reopened(store.clone());
    assert_eq!(to_toml(&second.snapshot()), to_toml(&first.snapshot()));
    assert!(import(&second, EXAMPLE, Mode::Replace).is_empty());
    for report in store.verify().unwrap().tables {
        assert!(report.is_sound());
    }
}

#[test]
fn an_export_imports_to_the_same_catalogue_in_both_forms() {
    let catalog = catalog();
    import(&catalog, EXAMPLE, Mode::Replace);
    for text in [to_toml(&catalog.snapshot()), to_json(&catalog.snapshot())] {
        assert!(!text.contains("0a0b0c"), "a key in clear");
        let parsed = parse(&text, None);
        assert_eq!(parsed.problems, []);
        let none: &[&str] = &[];
        assert_eq!(import(&catalog, &text, Mode::Replace), none, "{text}");
    }
    // An export names keys without holding them; they stay.
    let id = KeyId::parse("00112233445566778899aabbccddeeff").unwrap();
    assert!(catalog.content_key(&id).is_some());
    // The key is deleted with its last reference.
    import(&catalog, "livestream = []", Mode::Replace);
    assert!(!catalog.snapshot().has_key(&id));
}

#[test]
fn all_errors_are_reported_at_once_with_their_lines() {
    let text = r#"[[livestream]]
id = "news"
nmae = "News"
zone = "Europe/Stokholm"
live_rights = "yes"
catchup_days = 900
extended_rights = { pause = 1, forward = true }
playlist = { dash = "origin:../../etc/passwd", dashs = "https://x/y" }

[[livestream]]
id = "news"
streams = 0

[[asset]]
id = "news"
pg_age = -1
available = { from = 2026-01-01, to = "tomorrow" }
keys = [{ kid = "0011" }, { kid = "00112233445566778899aabbccddeeff", key_file = "no.key" }, { key = "zz" }]

[[asset]]
id = "bc-1"
available = { from = 2026-01-01T00:00:00Z, to = 2025-01-01T00:00:00Z }

[[offer]]
id = "a/b"
type = "abo"
pack = { livestreams = ["nwes"], assets = ["x"], all = true }
countries = ["Sweden"]

[[offer]]
type = "pass"
pack = "everything"

[[rule]]
livestream = "sport"
title = ""
live = false

[[rule]]
rating = { from = 18, to = 12 }

[[broadcast]]
id = "news"
live = 1

[[ofer]]
id = "x"
"#;
    assert_eq!(
        mistakes(text),
        [
            "line 3: livestream `news`: `nmae` is not known; did you mean `name`?",
            "line 4: livestream `news`: `zone` must be a time zone such as Europe/Stockholm; did you mean `Europe/Stockholm`?",
            "line 5: livestream `news`: `live_rights` must be true or false",
            "line 6: livestream `news`: `catchup_days` must be a whole number from 0 to 366",
            "line 7: livestream `news`: extended_rights: `forward` is not known; did you mean `fastForward`?",
            "line 7: livestream `news`: extended_rights: `pause` must be true or false",
            "line 8: livestream `news`: playlist: `dash`: must be a path below the media directory",
            "line 8: livestream `news`: playlist: `dashs` is not known; did you mean `dash`?",
            "line 11: livestream `news` is defined twice, first in line 2",
            "line 12: livestream `news`: `streams` must be a whole number from 1 to 1000",
            "line 15: id `news` is already used by the livestream in line 2",
            "line 16: asset `news`: `pg_age` must be a whole number from 0 to 99",
            "line 17: asset `news`: available: `from` must be a date and time with its offset, such as 2026-01-01T00:00:00Z",
            "line 17: asset `news`: available: `to` must be a date and time with its offset, such as 2026-01-01T00:00:00Z",
            "line 18: asset `news`: keys: `key_file` cannot be read: entity not found",
            "line 18: asset `news`: keys: `key`: must be 32 hexadecimal digits",
            "line 18: asset `news`: keys: `kid` is missing",
            "line 18: asset `news`: keys: `kid`: must be 32 hexadecimal digits or a UUID",
            "line 21: id `bc-1` is already used by a broadcast of the schedule",
            "line 22: asset `bc-1`: available: `to` must be after `from`",
            "line 25: offer `a/b`: `id`: an id has no control characters, commas or slashes",
            "line 26: offer `a/b`: `type`: must be one of default, subscription, pass, rental, est, thirdparty",
            "line 27: offer `a/b`: pack: `all` is not known",
            "line 27: offer `a/b`: pack: there is no asset `x`",
            "line 27: offer `a/b`: pack: there is no livestream `nwes`",
            "line 28: offer `a/b`: `countries`: must be a country code of two letters",
            "line 30: offer: `id` is missing",
            "line 32: offer: `pack` must be \"all\", or a table of `livestreams` and `assets`",
            "line 35: rule: there is no livestream `sport`",
            "line 36: rule: `title`: must have 1 to 200 bytes",
            "line 39: rule: sets no rights",
            "line 40: rule: rating: `to` must not be less than `from`",
            "line 43: id `news` is already used by the livestream in line 2",
            "line 44: broadcast `news`: `live` must be true or false",
            "line 46: `ofer` is not known; did you mean `offer`?",
        ]
    );
}

#[test]
fn a_file_with_an_error_is_not_imported() {
    let catalog = catalog();
    let none = to_toml(&catalog.snapshot());
    mistakes_in(
        &catalog,
        &format!("{EXAMPLE}\n[[offer]]\nid = \"x\""),
        Mode::Replace,
    );
    assert_eq!(to_toml(&catalog.snapshot()), none);
}

#[test]
fn syntax_errors_are_reported_with_the_others() {
    let text = "[[livestream]]\nid = \"a\"\nzone = Europe/Stockholm\nname = 5\nid = \"b\"\n\n[[offer]]\nid = \"o\"\ntype = \"default\"\npack = { livestreams = [\"b\"] }\n";
    let found = mistakes(text);
    let lines: Vec<&str> = found
        .iter()
        .filter_map(|line| line.split(':').next())
        .collect();
    assert!(
        lines.contains(&"line 3") && lines.contains(&"line 5"),
        "{found:?}"
    );
    assert!(
        found.contains(
            &"line 4: livestream `a`: `name` must be a string, not an integer".to_owned()
        )
    );
    assert!(
        !found.iter().any(|line| line.starts_with("line 10")),
        "{found:?}"
    );
}

#[test]
fn json_has_the_same_names_and_lines() {
    let text = "{\n \"livestream\": [{\"id\": \"news\",\n  \"zone\": \"Mars\"}],\n \"offer\": [{\"id\": \"o\", \"type\": \"default\",\n  \"pack\": {\"assets\": [\n   \"x\"]}}]\n}\n";
    assert_eq!(
        mistakes(text),
        [
            "line 3: livestream `news`: `zone` must be a time zone such as Europe/Stockholm",
            "line 6: offer `o`: pack: there is no asset `x`",
        ]
    );
    for (text, expected) in [
        ("{\"asset\": [\n}", "line 2: expected a JSON value"),
        (
            "{\"asset\": [],\n\"asset\": []}",
            "line 2: expected each member once",
        ),
        (
            "{\"asset\": 1e3}",
            "line 1: `asset` must be a list of tables, as in `[[asset]]`",
        ),
        ("{} x", "line 1: expected the end of the input"),
        (
            &format!("{{\"asset\": {}{}}}", "[".repeat(5_000), "]".repeat(5_000)),
            "line 1: expected less nesting",
        ),
    ] {
        assert_eq!(mistakes(text), [expected]);
    }
    let (catalog, other) = (catalog(), self::catalog());
    import(&catalog, EXAMPLE, Mode::Replace);
    let json =
        to_json(&catalog.snapshot()).replace("\"kid\"", "\"key_file\": \"film-1.key\", \"kid\"");
    import(&other, &json, Mode::Replace);
    assert_eq!(to_toml(&catalog.snapshot()), to_toml(&other.snapshot()));
}

#[test]
fn merging_replaces_what_is_named_and_keeps_the_rest() {
    let catalog = catalog();
    import(&catalog, EXAMPLE, Mode::Replace);
    let more = "[[livestream]]\nid = \"sport\"\n[[asset]]\nid = \"film-1\"\ntitle = \"B\"\n\
                [[rule]]\nlivestream = \"news\"\ntitle = \"*Football*\"\nlive = false\ncatchup = false\n\
                [[rule]]\nlivestream = \"sport\"\ncatchup_days = 1\n";
    assert_eq!(
        import(&catalog, more, Mode::Merge),
        [
            "+ livestream sport",
            "~ asset film-1: title \"A \\\"Film\\\"\" -> \"B\"; images \"three-four https://img.example/1.jpg default\" -> \"\"; pg_age \"15\" -> \"\"; available \"2026-01-01T00:00:00Z to 2027-01-01T00:00:00Z\" -> \"\"; keys \"00112233445566778899aabbccddeeff\" -> \"\"; playlist \"dash origin:film-1/manifest.mpd, hls https://cdn.example/film-1/master.m3u8\" -> \"\"",
            "+ rule livestream sport, catchup_days 1",
            "- key 00112233445566778899aabbccddeeff",
        ]
    );
    assert!(import(&catalog, more, Mode::Merge).is_empty());
    // A merged file may refer to existing items, but must not reuse their ids for other types.
    let text = "[[asset]]\nid = \"news\"\n[[offer]]\nid = \"p\"\ntype = \"pass\"\npack = { livestreams = [\"news\", \"none\"] }\n[[livestream]]\nid = \"b-1\"";
    assert_eq!(
        mistakes_in(&catalog, text, Mode::Merge),
        [
            "line 2: id `news` is already used by a livestream",
            "line 6: offer `p`: pack: there is no livestream `none`",
            "line 8: id `b-1` is already used by a broadcast",
        ]
    );
}

#[test]
fn a_dry_run_reports_and_changes_nothing() {
    let catalog = catalog();
    let parsed = parse(EXAMPLE, Some(&open));
    let report = catalog
        .import(parsed, Mode::Replace, true, &|_| false)
        .unwrap();
    assert_eq!(report.changes.len(), 9);
    assert!(
        report
            .changes
            .iter()
            .all(|change| change.what == What::Added)
    );
    assert_eq!(catalog.snapshot().offers().len(), 0);
}

#[test]
fn the_order_of_rules_is_a_difference() {
    let catalog = catalog();
    let rule = |title: &str| format!("[[rule]]\ntitle = \"{title}\"\nlive = false\n");
    import(
        &catalog,
        &format!("{}{}", rule("a"), rule("b")),
        Mode::Replace,
    );
    assert_eq!(
        import(
            &catalog,
            &format!("{}{}{}", rule("b"), rule("a"), rule("c")),
            Mode::Replace
        ),
        [
            "+ rule title c, live off",
            "~ rule title b, live off: place \"2\" -> \"1\"",
            "~ rule title a, live off: place \"1\" -> \"2\"",
        ]
    );
    let titles: Vec<_> = catalog
        .snapshot()
        .rules()
        .map(|rule| rule.condition.title.clone().unwrap().as_str().to_owned())
        .collect();
    assert_eq!(titles, ["b", "a", "c"]);
}

#[test]
fn key_files_are_inlined_without_moving_a_line() {
    let catalog = catalog();
    import(&catalog, EXAMPLE, Mode::Replace);
    let json =
        to_json(&catalog.snapshot()).replace("\"kid\"", "\"key_file\" : \"film-1.key\",\n\"kid\"");
    let tables = "[[asset]]\nid = \"a\"\n[[asset.keys]]\nkid = \"00112233445566778899aabbccddeeff\"\n'key_file' = 'film-1.key'\n";
    for text in [EXAMPLE, tables, &json] {
        assert!(
            !parse(text, None).problems.is_empty(),
            "a server opens no key file"
        );
        let inlined = inline_key_files(text, &open).unwrap();
        assert_eq!(inlined.lines().count(), text.lines().count());
        let parsed = parse(&inlined, None);
        assert_eq!(parsed.problems, [], "{inlined}");
        assert_eq!(parsed.keys[0].item.1.reveal()[1], 1);
    }
    let problems = inline_key_files(&EXAMPLE.replace("film-1.key", "none.key"), &open).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "line 21: key file `none.key`: entity not found"
    );
}

#[test]
fn one_kid_is_one_key() {
    let asset = |id: &str, key: &str| {
        format!(
            "[[asset]]\nid = \"{id}\"\nkeys = [{{ kid = \"00112233445566778899aabbccddeeff\", key = \"{}\" }}]\n",
            key.repeat(32)
        )
    };
    let text = format!("{}{}", asset("a", "0"), asset("b", "1"));
    assert_eq!(
        mistakes(&text),
        ["line 6: kid `00112233445566778899aabbccddeeff` has another key in line 3"]
    );
    let catalog = catalog();
    import(
        &catalog,
        &format!("{}{}", asset("a", "0"), asset("b", "0")),
        Mode::Replace,
    );
    assert_eq!(
        import(&catalog, &asset("a", "1"), Mode::Merge).len(),
        1,
        "another key under the same id is a change"
    );
}

#[test]
fn unusual_files_are_recognised_and_bounded() {
    for text in [
        "livestream = []",
        "\u{feff}{}",
        "# nothing\n",
        "{}",
        " \n{ }\n",
    ] {
        assert_eq!(parse(text, None).problems, [], "{text:?}");
    }
    for text in ["", "\u{feff}", " \n"] {
        assert_eq!(parse(text, None).problems.len(), 1, "{text:?}");
    }
    assert_eq!(parse(&" ".repeat(FILE_MAX + 1), None).problems.len(), 1);
    let deep = format!("asset = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(!parse(&deep, None).problems.is_empty());
    assert_eq!(
        mistakes("[livestream]\nid = \"a\"\n"),
        ["line 1: `livestream` must be a list of tables, as in `[[livestream]]`"]
    );
}

#[test]
fn the_documented_example_is_valid() {
    let text = include_str!("../../../data/catalog.example.toml");
    let catalog = catalog();
    assert_eq!(import(&catalog, text, Mode::Replace).len(), 9);
    // The example contains every member of an export.
    for line in to_toml(&catalog.snapshot()).lines() {
        let member = line.split('=').next().unwrap_or_default();
        assert!(text.contains(member.trim()), "{line}");
    }
}

#[test]
fn the_number_of_rules_is_bounded() {
    let rule = |at: usize| format!("[[rule]]\ntitle = \"{at}\"\nlive = false\n");
    let rules = |count: usize| (0..count).map(rule).collect::<String>();
    let catalog = catalog();
    import(&catalog, &rules(catalog::RULES_MAX), Mode::Replace);
    let one_more = parse("[[rule]]\ntitle = \"x\"\nlive = false\n", None);
    let refused = catalog.import(one_more, Mode::Merge, false, &|_| false);
    assert!(matches!(
        refused,
        Err(CatalogError::TooMany { what: "rules", .. })
    ));
}

#[test]
fn a_loop_makes_a_livestream_of_a_manifest() {
    let text = r#"[[livestream]]
id = "good"
playlist = { dash = "loop:a/b.mpd", hls = "loop:a/b.m3u8", hls-audio = "loop:a/c.m3u8" }

[[livestream]]
id = "bad"

[livestream.playlist]
dash = "loop:a/b.m3u8"
hls = "loop:../b.m3u8"
hls-audio = "loop:b.mpd"
sstr = "loop:a/b.mpd"

[[asset]]
id = "film"
playlist = { dash = "loop:a/b.mpd" }
"#;
    let form = "can be `loop:` with a `.mpd` for dash, and with a `.m3u8` for hls and hls-audio";
    assert_eq!(
        mistakes(text),
        [
            format!("line 9: livestream `bad`: playlist: `dash`: {form}"),
            "line 10: livestream `bad`: playlist: `hls`: must be the path of a `.mpd` or `.m3u8` below the media \
             directory"
                .to_owned(),
            format!("line 11: livestream `bad`: playlist: `hls-audio`: {form}"),
            format!("line 12: livestream `bad`: playlist: `sstr`: {form}"),
            "line 16: asset `film`: playlist: `dash`: cannot be `loop:`, which makes a livestream of a clip".to_owned(),
        ]
    );
}
