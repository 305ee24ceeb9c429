//! The viewer's country: from the operator's GeoIP database, from a trusted proxy's header, and from the account.

use std::fs;
use std::path::Path;

use crate::support::appliance::{binary, err};
use crate::support::playback_fixture::PlaybackFixture;
use crate::support::process::InTime as _;
use crate::support::raw_http::Answer;

/// Returns a minimal database in MaxMind's format with IPv4 networks `a.b.0.0/16`. By its public specification it has a
/// binary tree of nodes with two 24-bit records, sixteen zero bytes, the data, and the metadata after a marker.
fn database(kind: &str, networks: &[([u8; 2], Vec<u8>)]) -> Vec<u8> {
    const DEPTH: usize = 16;
    enum Target {
        Nothing,
        Node(usize),
        Record(usize),
    }
    let mut nodes = vec![[Target::Nothing, Target::Nothing]];
    let mut records = Vec::new();
    for (network, record) in networks {
        let bits = u16::from_be_bytes(*network);
        let mut at = 0;
        for depth in 0..DEPTH {
            let side = usize::from(bits >> (DEPTH - 1 - depth) & 1);
            if depth == DEPTH - 1 {
                nodes[at][side] = Target::Record(records.len());
            } else if let Target::Node(next) = nodes[at][side] {
                at = next;
            } else {
                nodes.push([Target::Nothing, Target::Nothing]);
                let next = nodes.len() - 1;
                nodes[at][side] = Target::Node(next);
                at = next;
            }
        }
        records.extend_from_slice(record);
    }
    let count = nodes.len();
    let mut file = Vec::new();
    for to in nodes.iter().flatten() {
        let value = match to {
            Target::Nothing => count,
            Target::Node(node) => *node,
            Target::Record(offset) => count + 16 + offset,
        };
        file.extend_from_slice(&u32::try_from(value).unwrap().to_be_bytes()[1..]);
    }
    file.extend_from_slice(&[0; 16]);
    file.extend_from_slice(&records);
    file.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    let short = |number: u16| [&[0xa2][..], &number.to_be_bytes()].concat();
    let nodes = [&[0xc4][..], &u32::try_from(count).unwrap().to_be_bytes()].concat();
    file.extend(map(&[
        ("binary_format_major_version", short(2)),
        ("binary_format_minor_version", short(0)),
        // An extended type: a 64-bit number.
        ("build_epoch", vec![0x01, 0x02, 1]),
        ("database_type", text(kind)),
        ("description", map(&[])),
        ("ip_version", short(4)),
        // An extended type: an array.
        ("languages", vec![0x00, 0x04]),
        ("node_count", nodes),
        ("record_size", short(24)),
    ]));
    file
}

fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    assert!(length < 29);
    [&[0x40 | length][..], text.as_bytes()].concat()
}

fn map(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut all = vec![0xe0 | u8::try_from(members.len()).unwrap()];
    for (name, value) in members {
        all.extend(text(name));
        all.extend_from_slice(value);
    }
    all
}

fn country(code: &str) -> Vec<u8> {
    let registered = map(&[("iso_code", text("US"))]);
    map(&[
        ("country", map(&[("iso_code", text(code))])),
        ("registered_country", registered),
    ])
}

/// Replaces a file atomically, as updaters do.
fn replace_file(path: &Path, database: &[u8]) {
    let new = path.with_extension("new");
    fs::write(&new, database).unwrap();
    fs::rename(new, path).unwrap();
}

/// Requests an asset that only Sweden may play, as a proxy would pass the request on.
fn ask_from(fixture: &PlaybackFixture, address: &str, further: &[(&str, &str)]) -> Answer {
    let headers = [&[("X-Forwarded-For", address)], further].concat();
    let target = "/api/entitlement/v2/asset/swedish";
    fixture.ask(&fixture.ann, "POST", target, &headers, "")
}

const BLOCKED: &str = "403 GEO_BLOCKED";

#[test]
fn the_geoip_database_determines_the_country() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("country.mmdb");
    let networks = [
        ([81, 2], country("SE")),
        ([82, 3], country("DE")),
        ([83, 4], map(&[("country_code", text("se"))])),
        ([84, 5], map(&[("country", text("SE"))])),
        ([85, 6], map(&[("continent", text("EU"))])),
    ];
    fs::write(&path, database("Test-Country", &networks)).unwrap();
    let fixture = PlaybackFixture::with(&[
        ("geo.database", path.to_str().unwrap()),
        ("geo.header", "CF-IPCountry"),
        ("http.trusted_proxies", "127.0.0.1"),
    ]);
    for (address, expected) in [
        ("81.2.200.1", "200"),
        ("::ffff:81.2.200.1", "200"),
        ("83.4.0.1", "200"),
        ("84.5.0.1", "200"),
        ("82.3.0.1", BLOCKED),
        ("85.6.0.1", BLOCKED),
        ("9.9.9.9", BLOCKED),
        ("2001:db8::1", BLOCKED),
    ] {
        assert_eq!(
            ask_from(&fixture, address, &[]).outcome(),
            expected,
            "{address}"
        );
    }
    // The header of the proxy has priority; an unreadable value counts as none.
    let with_header =
        |country: &str| ask_from(&fixture, "82.3.0.1", &[("CF-IPCountry", country)]).outcome();
    assert_eq!(with_header("SE"), "200");
    assert_eq!(with_header("NO"), BLOCKED);
    let nobody_knows = [("CF-IPCountry", "T1")];
    assert_eq!(
        ask_from(&fixture, "81.2.0.1", &nobody_knows).outcome(),
        "200"
    );

    // The next month's database, and then a broken file.
    let geoip = fixture.server.services.geoip.as_ref().unwrap();
    assert!(!geoip.refresh().unwrap());
    replace_file(
        &path,
        &database("Test-Country", &[([82, 3], country("SE"))]),
    );
    assert_eq!(ask_from(&fixture, "82.3.0.1", &[]).outcome(), BLOCKED);
    assert!(geoip.refresh().unwrap());
    assert_eq!(ask_from(&fixture, "82.3.0.1", &[]).outcome(), "200");
    assert_eq!(ask_from(&fixture, "81.2.200.1", &[]).outcome(), BLOCKED);
    replace_file(&path, b"half a file");
    assert!(geoip.refresh().is_err());
    fs::remove_file(&path).unwrap();
    assert!(geoip.refresh().is_err());
    assert_eq!(ask_from(&fixture, "82.3.0.1", &[]).outcome(), "200");
}

/// A preflight checks the present country, whatever the entitlement's country was.
#[test]
fn a_viewer_who_has_left_the_country_cannot_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("country.mmdb");
    let networks = [([81, 2], country("SE")), ([82, 3], country("DE"))];
    fs::write(&path, database("Test-Country", &networks)).unwrap();
    let fixture = PlaybackFixture::with(&[
        ("geo.database", path.to_str().unwrap()),
        ("http.trusted_proxies", "127.0.0.1"),
    ]);
    let entitled = ask_from(&fixture, "81.2.0.1", &[]);
    let token = entitled.json()["token"].as_str().unwrap().to_owned();
    for (address, expected) in [
        ("82.3.0.1", BLOCKED),
        ("9.9.9.9", BLOCKED),
        ("81.2.0.1", "200"),
    ] {
        let headers = [
            ("X-Forwarded-For", address),
            ("Service-Play-DRM", "clearkey"),
            ("Service-Play-Protocol", "dash"),
            ("Service-Play-EntitlementId", &token),
            ("Service-Play-DevicePlatform", "linux"),
            ("Service-Play-DeviceType", "tv"),
            ("Service-Play-DeviceModel", "Model"),
            ("Service-Play-DeviceId", "tv"),
        ];
        let target = "/api/playback/v2/preflight/asset/swedish";
        let answer = fixture.ask(&fixture.ann, "POST", target, &headers, "");
        assert_eq!(answer.outcome(), expected, "{address}");
    }
}

#[test]
fn a_database_without_countries_prevents_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("geoip.mmdb");
    let organisation = map(&[("as_organization", text("Example"))]);
    let other = database("Test-ASN", &[([81, 2], organisation)]);
    let good = database("Test-Country", &[([81, 2], country("SE"))]);
    for (content, why) in [
        (Some(&other[..]), "`Test-ASN`, which contains no countries"),
        (
            Some(&good[..good.len() / 2]),
            "not a database in MaxMind's format",
        ),
        (Some(b""), "not a database in MaxMind's format"),
        (None, "No such file"),
    ] {
        let _ = fs::remove_file(&path);
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        let mut check = binary();
        check
            .args(["config", "check"])
            .env("PLAYGATE_GEO_DATABASE", &path);
        let output = check.output_in_time();
        assert_eq!(output.status.code(), Some(2));
        let text = err(&output);
        assert!(
            text.contains("`geo.database`") && text.contains(why),
            "{text}"
        );
    }
}

#[test]
fn country_of_the_account_is_a_fallback_that_can_be_disabled() {
    let off = [("geo.profile_fallback", "false")];
    for (settings, expected) in [(&[][..], "200"), (&off, BLOCKED)] {
        let fixture = PlaybackFixture::with(settings);
        let entitle = || fixture.entitle(&fixture.ann, "swedish", "").outcome();
        assert_eq!(entitle(), BLOCKED, "{settings:?}");
        fixture.change(&fixture.ann, &serde_json::json!({"country": "SE"}));
        assert_eq!(entitle(), expected, "{settings:?}");
    }
}
