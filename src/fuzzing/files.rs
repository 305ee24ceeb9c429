//! Fuzz targets of file formats.

use std::sync::{Arc, LazyLock};

use playgate_config::{Inputs, load};
use playgate_domain::catalog::{Catalog, CatalogSettings, Mode};
use playgate_domain::schedule::import::decompress::unpack;
use playgate_domain::schedule::import::encoding::to_utf8;
use playgate_domain::schedule::import::parsed_guide::{ChannelMap, ParsedGuide};
use playgate_domain::schedule::import::xmltv::{Xmltv, XmltvOptions};
use playgate_domain::schedule::import::{GuideEvents, xmltv_time};
use playgate_domain::schedule::ratings::Ratings;
use playgate_formats::catalog_file::{
    parse, parse_rights, parse_rule, rights_to_json, rule_to_json, to_json, to_toml,
};
use playgate_formats::epg_json::JsonGuide;
use playgate_ports::SeededEntropy;
use playgate_store::{Schema, Store, fuzzing as store};
use playgate_types::slug::slug;
use playgate_types::{LivestreamId, Zone, zone};

static SCHEMA: LazyLock<Schema> = LazyLock::new(playgate_records::schema);

pub(crate) fn record(data: &[u8]) {
    store::record(&SCHEMA, data);
}

pub(crate) fn log(data: &[u8]) {
    store::log(&SCHEMA, data);
}

pub(crate) fn backup(data: &[u8]) {
    store::backup(&SCHEMA, data);
}

pub(crate) fn export(data: &[u8]) {
    store::export(&SCHEMA, data);
}

/// Reads any bytes, compressed or not, as an XMLTV and as a JSON guide. It must not yield more rows than programmes.
pub(crate) fn guide(data: &[u8]) {
    static RATINGS: LazyLock<Arc<Ratings>> = LazyLock::new(|| Arc::new(Ratings::built_in()));
    let options = || XmltvOptions {
        zone: Zone::stored("Europe/Stockholm"),
        ignore_offsets: data.len().is_multiple_of(2),
        languages: vec!["sv".to_owned(), "en".to_owned()],
        ratings: Arc::clone(&RATINGS),
        rating_system: None,
    };
    let read = |source: &mut dyn GuideEvents| {
        if let Ok(draft) = ParsedGuide::read(source, &ChannelMap::new()) {
            let rows: usize = draft
                .channels
                .values()
                .map(|channel| channel.rows.len())
                .sum();
            assert!(rows as u64 <= draft.programmes, "more rows than programmes");
        }
    };
    // An unpacked guide may be a thousand times as large: its beginning is enough here.
    let unpacked = |data| {
        let text = to_utf8(unpack(data).ok()?).ok()?;
        Some(std::io::Read::take(text, 1 << 20))
    };
    if let Some(input) = unpacked(data) {
        read(&mut Xmltv::new(input, options()));
    }
    if let Some(input) = unpacked(data) {
        read(&mut JsonGuide::new(input));
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = xmltv_time::parse(text, Zone::stored("Europe/Stockholm"));
        let _ = xmltv_time::parse_local(text, Zone::stored("Europe/Stockholm"));
        let id = slug(text);
        assert!(
            id.is_empty() || LivestreamId::parse(&id).is_ok(),
            "no id: {id}"
        );
    }
}

/// Reads any bytes as a zone file, which must neither panic nor take long.
pub(crate) fn zone_file(data: &[u8]) {
    let _ = zone::is_zone_file(data);
}

/// Imports any text as a catalogue. Written as TOML and as JSON and read again, it must be unchanged.
pub(crate) fn catalog(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let settings = CatalogSettings { zone: Zone::utc() };
    let entropy = Arc::new(SeededEntropy::new(1));
    let import = parse(text, None);
    if !import.problems.is_empty() {
        return;
    }
    let store = Store::in_memory(playgate_domain::catalog::schema(Schema::default()));
    let Ok(catalog) = Catalog::open(store, entropy, &[7; 32], settings) else {
        return;
    };
    if catalog
        .import(import, Mode::Replace, false, &|_| false)
        .is_err()
    {
        return;
    }
    let snapshot = catalog.snapshot();
    for written in [to_toml(&snapshot), to_json(&snapshot)] {
        let again = parse(&written, None);
        assert!(
            again.problems.is_empty(),
            "{:?} of\n{written}",
            again.problems
        );
        let difference = catalog.import(again, Mode::Replace, true, &|_| false);
        let changes = difference.map(|difference| difference.changes);
        let same = matches!(&changes, Ok(changes) if changes.is_empty());
        assert!(same, "it becomes another:\n{written}");
    }
}

/// Reads any text as a rule and as rights. Written as JSON and read again, they must be equal.
pub(crate) fn rights(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let import = parse_rule(text);
    if let (true, Some(rule)) = (import.problems.is_empty(), import.rules.first()) {
        let written = rule_to_json(&rule.item).map(|json| json.to_string());
        let again = parse_rule(&written.unwrap_or_default());
        let again = again.rules.first().map(|again| &again.item);
        assert!(again == Some(&rule.item), "another rule: {text}");
    }
    if let Ok(effects) = parse_rights(text) {
        let written = rights_to_json(&effects).map(|json| json.to_string());
        let again = parse_rights(&written.unwrap_or_default());
        assert!(
            again.is_ok_and(|again| again == effects),
            "other rights: {text}"
        );
    }
}

/// Reads any bytes as a configuration file. A refusal must have a reason.
pub(crate) fn config(data: &[u8]) {
    let Some((_file, path)) = store::in_memory(data) else {
        return;
    };
    let inputs = Inputs {
        file: Some(path),
        demo: true,
        ..Inputs::default()
    };
    if let Err(problems) = load(&inputs) {
        assert!(!problems.to_string().is_empty(), "refused without a reason");
    }
}
