//! Decodes the tables of a catalogue file.

use std::collections::BTreeSet;

use super::OpenKeyFile;
use super::rights::{broadcast, catchup_days, extended_rights, record_reference, rule, window};
use playgate_decode::{Decoder, Node, ObjectMember, TableDecoder, Value, nearest};
use playgate_domain::catalog::{
    Asset, CHANNEL_NUMBER_MAX, CatalogImport, ContentKey, DURATION_DAYS_MAX, Effects,
    ExtendedRights, GROUP_MAX, IMAGES_MAX, KEYS_MAX, KeyId, Livestream, Location, NAME_MAX, Offer,
    OfferKind, PG_AGE_MAX, Pack, Playlists, STREAMS_MAX, Spanned, Unrated,
};
use playgate_domain::schedule::Image;
use playgate_domain::schedule::text_limits::{FILENAME_MAX, IMAGE_KIND_MAX};
use playgate_types::{AssetId, Country, LivestreamId, Malformed, OfferId, Protocol, Zone};

pub(super) fn read(
    decoder: &Decoder,
    root: &[ObjectMember],
    open: Option<OpenKeyFile<'_>>,
) -> CatalogImport {
    let mut import = CatalogImport::default();
    let root = TableDecoder::from_root(decoder, "", root);
    let tables = |name| root.tables(name).into_iter().map(|table| table.named("id"));
    tables("livestream").for_each(|table| livestream(&mut import, table, open));
    tables("asset").for_each(|table| asset(&mut import, table, open));
    tables("offer").for_each(|table| offer(&mut import, table));
    tables("rule").for_each(|table| rule(&mut import, table));
    tables("broadcast").for_each(|table| broadcast(&mut import, table));
    // Reports members that none of the readers above has asked for.
    root.finish();
    import
}

fn livestream(import: &mut CatalogImport, table: TableDecoder<'_>, open: Option<OpenKeyFile<'_>>) {
    let line = table.line("id");
    let id = table.needed_parsed("id", LivestreamId::parse);
    let name = table.parsed("name", bounded::<NAME_MAX>);
    let images = images(&table);
    let own_zone = zone(&table);
    let live_rights = table.boolean("live_rights");
    let catchup_days = catchup_days(&table);
    let start_over = table.boolean("start_over");
    let mut extended = Effects::default();
    extended_rights(&table, &mut extended);
    let verify_age = table.boolean("verify_age");
    let unrated = table.read("unrated", Unrated::read);
    let number = table.number("number", 1..=i64::from(CHANNEL_NUMBER_MAX));
    let group = table.parsed("group", bounded::<GROUP_MAX>);
    let streams = streams(&table);
    let playlist = playlist(&table, true);
    let encrypted = table.boolean("encrypted");
    let keys = keys(import, &table, open);
    table.finish();
    // All members were read first, so that errors in them are reported even without an id.
    let Some(id) = id else { return };
    let default = Livestream::new(id.clone(), id.as_str().to_owned());
    let item = Livestream {
        name: name.unwrap_or(default.name),
        images,
        own_zone,
        live_rights: live_rights.unwrap_or(default.live_rights),
        catchup_days: catchup_days.unwrap_or(default.catchup_days),
        start_over: start_over.unwrap_or(default.start_over),
        extended: ExtendedRights {
            pause: extended.pause.unwrap_or(default.extended.pause),
            rewind: extended.rewind.unwrap_or(default.extended.rewind),
            fast_forward: extended
                .fast_forward
                .unwrap_or(default.extended.fast_forward),
        },
        verify_age: verify_age.unwrap_or(default.verify_age),
        streams,
        playlist,
        encrypted: encrypted.unwrap_or(default.encrypted),
        keys,
        unrated,
        number,
        group,
        id,
        zone: default.zone,
    };
    import.livestreams.push(Spanned { line, item });
}

fn asset(import: &mut CatalogImport, table: TableDecoder<'_>, open: Option<OpenKeyFile<'_>>) {
    let line = table.line("id");
    let id = table.needed_parsed("id", AssetId::parse);
    let title = table.parsed("title", bounded::<NAME_MAX>);
    let images = images(&table);
    let pg_age = table.number("pg_age", 0..=i64::from(PG_AGE_MAX));
    let available = window(&table, "available");
    // A file that forgets the member must not make protected content playable without a license.
    let encrypted = table.boolean("encrypted").unwrap_or(true);
    let keys = keys(import, &table, open);
    let playlist = playlist(&table, false);
    let streams = streams(&table);
    table.finish();
    if let Some(id) = id {
        let item = Asset {
            title: title.unwrap_or_else(|| id.as_str().to_owned()),
            id,
            images,
            pg_age,
            available,
            encrypted,
            keys,
            playlist,
            streams,
        };
        import.assets.push(Spanned { line, item });
    }
}

fn offer(import: &mut CatalogImport, table: TableDecoder<'_>) {
    let line = table.line("id");
    let id = table.needed_parsed("id", OfferId::parse);
    let kind = table.needed_parsed("type", |text| {
        let mut kinds = OfferKind::ALL.into_iter();
        kinds.find(|kind| kind.as_str() == text).ok_or(Malformed(
            "must be one of default, subscription, pass, rental, est, thirdparty",
        ))
    });
    let pack = pack(import, &table);
    let mut countries: Vec<Country> = (table.list("countries").iter())
        .filter_map(|node| table.parse("countries", node, Country::parse))
        .collect();
    // Sorted and unique, so that an import of the same offer in another order changes nothing.
    countries.sort_unstable();
    countries.dedup();
    let sale = window(&table, "sale");
    let duration_days = table.number("duration_days", 1..=i64::from(DURATION_DAYS_MAX));
    table.finish();
    if let Some(id) = id {
        let item = Offer {
            id,
            // A wrong type was reported, so that the import fails. Any value keeps the other checks going.
            kind: kind.unwrap_or(OfferKind::Subscription),
            pack: pack.unwrap_or(Pack::All),
            countries,
            sale,
            duration_days,
        };
        import.offers.push(Spanned { line, item });
    }
}

fn pack(import: &mut CatalogImport, table: &TableDecoder<'_>) -> Option<Pack> {
    let form = "must be \"all\", or a table of `livestreams` and `assets`";
    let node = table.needed("pack")?;
    match &node.value {
        Value::Text(text) if text == "all" => Some(Pack::All),
        Value::Table(_) => {
            let pack = table.as_table("pack", node)?;
            let livestreams = ids(import, &pack, "livestreams", LivestreamId::parse);
            let assets = ids(import, &pack, "assets", AssetId::parse);
            pack.finish();
            Some(Pack::Listed {
                livestreams,
                assets,
            })
        }
        _ => {
            table.wrong("pack", node, form);
            None
        }
    }
}

fn ids<T: Ord>(
    import: &mut CatalogImport,
    table: &TableDecoder<'_>,
    name: &'static str,
    parse: impl Fn(&str) -> Result<T, Malformed>,
) -> BTreeSet<T> {
    let mut ids = BTreeSet::new();
    for node in table.list(name) {
        if let Some(id) = table.parse(name, node, &parse) {
            // The item may be defined later in the file or in the store, so the import checks the reference.
            record_reference(import, table, node, name == "livestreams");
            ids.insert(id);
        }
    }
    ids
}

fn streams(table: &TableDecoder<'_>) -> Option<u32> {
    table.number("streams", 1..=i64::from(STREAMS_MAX))
}

fn zone(table: &TableDecoder<'_>) -> Option<Zone> {
    table.read("zone", |node| {
        let name = node.text()?;
        name.parse().map_err(|_| {
            let known = playgate_types::zone::built_in_names();
            let hint = nearest(name, known).map(|known| format!("; did you mean `{known}`?"));
            let hint = hint.unwrap_or_default();
            format!("must be a time zone such as Europe/Stockholm{hint}")
        })
    })
}

fn playlist(table: &TableDecoder<'_>, livestream: bool) -> Playlists {
    let mut playlists = Playlists::default();
    let Some(playlist) = table.table("playlist") else {
        return playlists;
    };
    for protocol in Protocol::ALL {
        // `dashs` and `sstrs` are `dash` and `sstr` with an HTTPS address.
        if protocol != protocol.family() {
            continue;
        }
        let location = playlist.parsed(protocol.as_str(), |text| {
            let location = Location::parse(text)?;
            check_loop(location, protocol, livestream)?;
            Ok(text.to_owned())
        });
        if let Some(location) = location {
            playlists.0.insert(protocol, location);
        }
    }
    playlist.finish();
    playlists
}

fn check_loop(
    location: Location<'_>,
    protocol: Protocol,
    livestream: bool,
) -> Result<(), Malformed> {
    let Location::Loop(path) = location else {
        return Ok(());
    };
    if !livestream {
        return Err(Malformed(
            "cannot be `loop:`, which makes a livestream of a clip",
        ));
    }
    let plays = match protocol.family() {
        Protocol::Dash => path.ends_with(".mpd"),
        Protocol::Hls | Protocol::HlsAudio => path.ends_with(".m3u8"),
        _ => false,
    };
    plays.then_some(()).ok_or(Malformed(
        "can be `loop:` with a `.mpd` for dash, and with a `.m3u8` for hls and hls-audio",
    ))
}

fn images(table: &TableDecoder<'_>) -> Vec<Image> {
    let mut images: Vec<Image> = Vec::new();
    let tables = table.tables("images");
    if tables.len() > IMAGES_MAX {
        table.report("`images` has more than 8 elements");
    }
    for one in tables {
        let kind = one.parsed("type", bounded::<IMAGE_KIND_MAX>);
        let filename = one.needed_parsed("filename", bounded::<FILENAME_MAX>);
        let default = one.boolean("default").unwrap_or(false);
        if default && images.iter().any(|image| image.default) {
            one.report("only one image can be the default");
        }
        images.push(Image {
            kind: kind.as_deref().unwrap_or("sixteen-nine").into(),
            default,
            filename: filename.unwrap_or_default().into(),
            embedded_text: one.boolean("embeddedText").unwrap_or(false),
        });
        one.finish();
    }
    // Without a choice in the file the first image is the default.
    if images.iter().all(|image| !image.default)
        && let Some(first) = images.first_mut()
    {
        first.default = true;
    }
    images
}

fn keys(
    import: &mut CatalogImport,
    table: &TableDecoder<'_>,
    open: Option<OpenKeyFile<'_>>,
) -> Vec<KeyId> {
    let mut ids = Vec::new();
    let tables = table.tables("keys");
    if tables.len() > KEYS_MAX {
        table.report("`keys` has more than 64 elements");
    }
    for one in tables {
        let line = one.line("kid");
        let id = one.needed_parsed("kid", KeyId::parse);
        let key = key(&one, open);
        one.finish();
        // The decoder has reported the missing or invalid `kid`.
        let Some(id) = id else { continue };
        if ids.contains(&id) {
            table.report(&format!("kid `{id}` is listed twice"));
            continue;
        }
        ids.push(id);
        if let Some(key) = key {
            let item = (id, key);
            import.keys.push(Spanned { line, item });
        }
    }
    ids
}

/// Decodes a content key. It may be absent if a license server holds it.
fn key(table: &TableDecoder<'_>, open: Option<OpenKeyFile<'_>>) -> Option<ContentKey> {
    let inline = table.node("key");
    let Some(node) = table.node("key_file") else {
        return inline.and_then(|node| table.parse("key", node, ContentKey::parse));
    };
    if inline.is_some() {
        table.wrong("key_file", node, "cannot be combined with `key`");
        return None;
    }
    let path = table.read_node("key_file", node, Node::text)?;
    let Some(open) = open else {
        table.wrong(
            "key_file",
            node,
            // The server would read any path that a client names.
            "is allowed only with the import command; use `key`",
        );
        return None;
    };
    match open(path) {
        Ok(content) => ContentKey::read_file(&content)
            .map_err(|Malformed(why)| table.wrong("key_file", node, why))
            .ok(),
        Err(error) => {
            table.wrong("key_file", node, &format!("cannot be read: {error}"));
            None
        }
    }
}

fn bounded<const MAX: usize>(text: &str) -> Result<String, Malformed> {
    if text.trim().is_empty() {
        return Err(Malformed("must not be empty"));
    }
    if text.len() > MAX {
        return Err(Malformed("is too long"));
    }
    if text.chars().any(char::is_control) {
        return Err(Malformed("must not contain control characters"));
    }
    Ok(text.to_owned())
}
