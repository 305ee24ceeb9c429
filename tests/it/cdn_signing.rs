//! Signed playlist addresses for content delivery networks: the addresses of preflight, a real nginx with `secure_link`
//! and the packaged configuration, and signatures that openssl verifies.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use md5::{Digest as _, Md5};
use playgate_config::{Inputs, load};
use playgate_types::UnixSeconds;
use tempfile::TempDir;

use crate::support::appliance::real_time;
use crate::support::certificates::openssl;
use crate::support::external_tools::free_port;
use crate::support::external_tools::{ExternalProxy, packaged, program};
use crate::support::gate_only::NOON;
use crate::support::playback_fixture::PlaybackFixture;
use crate::support::raw_http::{ask, request};
use crate::support::server::TestServer;

const KEYS: [(&str, &str); 2] = [
    ("2026-a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ("2026-b", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"),
];
const HOUR: i64 = 3_600;

/// Starts an nginx with the packaged configuration, which serves `media` and accepts signatures of `keys`.
fn edge(nginx: &Path, port: u16, media: &Path, keys: &[(&str, &str)]) -> ExternalProxy {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let places = [
        ("127.0.0.1:8090", &*address.to_string()),
        ("/srv/media", media.to_str().unwrap()),
    ];
    let site = packaged("nginx-secure-link.conf", &places);
    // `keys` replace the two example keys of the packaged file.
    let lines = site.lines().filter(|line| line.contains("\"REPLACE-ME"));
    let examples: Vec<String> = lines.map(|line| format!("{line}\n")).collect();
    assert_eq!(examples.len(), 2);
    let examples = examples.concat();
    assert!(site.contains(&examples), "{site}");
    let ours = keys
        .iter()
        .map(|(id, secret)| format!("{id} \"{secret}\";\n"));
    let ours: String = ours.collect();
    ExternalProxy::nginx(nginx, &site.replace(&examples, &ours), address)
}

/// Returns a `[[cdn.networks]]` table of the configuration.
fn network(prefix: &str, scheme: &str, keys: &[(&str, &str)], more: &str) -> String {
    let keys: Vec<String> = keys
        .iter()
        .map(|(id, key)| format!("{{ id = '{id}', key = '{key}' }}"))
        .collect();
    let keys = keys.join(", ");
    format!(
        "[[cdn.networks]]\nname = '{scheme}'\nprefix = '{prefix}'\nscheme = '{scheme}'\n\
         keys = [{keys}]\n{more}\n"
    )
}

/// Writes a configuration file that only its owner can read.
fn private(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("playgate.toml");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Starts a server with these networks and this time, and with films at these addresses for all users.
fn fixture(now: UnixSeconds, networks: &str, films: &[(&str, &str)]) -> PlaybackFixture {
    let media = tempfile::tempdir().unwrap();
    let mut catalogue = "[[offer]]\nid = 'all'\ntype = 'default'\npack = 'all'\n".to_owned();
    for (id, address) in films {
        catalogue +=
            &format!("[[asset]]\nid = '{id}'\npg_age = 0\nplaylist = {{ dash = '{address}' }}\n");
    }
    let server = TestServer::with_file(&private(&media, networks));
    server.clock.set(now);
    PlaybackFixture::with_catalogue(server, media, &catalogue)
}

fn playlist(fixture: &PlaybackFixture, film: &str) -> String {
    fixture.play(&fixture.ann, film, "tv").playlist
}

/// Returns the status and the body of an edge's response.
fn get(address: &str) -> (u16, String) {
    let rest = address.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_at(rest.find('/').unwrap());
    let host: SocketAddr = host.parse().unwrap();
    let answer = ask(host, request("GET", path, &[("Connection", "close")], ""));
    (answer.status, String::from_utf8(answer.body).unwrap())
}

fn media() -> TempDir {
    let media = tempfile::tempdir().unwrap();
    for path in [
        "film/hd/manifest.mpd",
        "film/hd/audio/1.m4s",
        "film/1.m4s",
        "other/1.m4s",
        "a b?ä/m.mpd",
        "m.mpd",
    ] {
        let file = media.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, path).unwrap();
    }
    media
}

#[test]
fn nginx_accepts_exactly_the_signed_addresses() {
    let Some(nginx) = program("nginx") else {
        return;
    };
    let (port, media) = (free_port(), media());
    let _edge = edge(&nginx, port, media.path(), &KEYS);
    let at = format!("http://127.0.0.1:{port}");
    let networks = network(&at, "secure-link", &KEYS, "lifetime = '1h'");
    let films = [
        ("film", format!("{at}/film/hd/manifest.mpd?x=1")),
        ("a b?ä", format!("{at}/{{asset}}/m.mpd")),
        ("top", format!("{at}/m.mpd")),
    ];
    let films: Vec<_> = films.iter().map(|(id, at)| (*id, at.as_str())).collect();
    let fixture = fixture(real_time(), &networks, &films);

    let address = playlist(&fixture, "film");
    let read = |text: &str| (200, text.to_owned());
    let status = |address: &str| get(address).0;
    assert_eq!(get(&address), read("film/hd/manifest.mpd"));
    let relative = |path: &str| address.replace("manifest.mpd?x=1", path);
    assert_eq!(get(&relative("audio/1.m4s")), read("film/hd/audio/1.m4s"));
    let odd = playlist(&fixture, "a%20b%3F%C3%A4");
    assert_eq!(get(&odd), read("a b?ä/m.mpd"));
    assert_eq!(get(&playlist(&fixture, "top")), read("m.mpd"));
    assert_eq!(status(&relative("absent.m4s")), 404);

    let token = address.strip_prefix(&format!("{at}/film/hd/")).unwrap();
    let token = token.split('/').next().unwrap();
    let [key, expires, tag] = token.split('.').collect::<Vec<_>>()[..] else {
        panic!("{token}");
    };
    let with = |token: &str| address.replace(&format!("/film/hd/{key}.{expires}.{tag}"), token);
    // The last character has unused bits.
    for at in 0..tag.len() - 1 {
        let other = if &tag[at..=at] == "A" { "B" } else { "A" };
        let mut altered = tag.to_owned();
        altered.replace_range(at..=at, other);
        let altered = with(&format!("/film/hd/{key}.{expires}.{altered}"));
        assert_eq!(status(&altered), 403, "{altered}");
    }
    let later = expires.parse::<i64>().unwrap() + 1;
    // nginx must not accept an unknown key id as an empty key.
    let empty = Md5::digest(format!("{expires}/film/hd/ "));
    let empty = BASE64URL_NOPAD.encode(&empty);
    for altered in [
        with(&format!("/film/hd/{key}.{later}.{tag}")),
        with(&format!("/film/hd/2026-b.{expires}.{tag}")),
        with(&format!("/film/hd/2026-c.{expires}.{tag}")),
        with(&format!("/film/hd/2026-c.{expires}.{empty}")),
        with(&format!("/film/{token}")).replace("manifest.mpd", "hd/manifest.mpd"),
        with(&format!("/film/{token}/hd")),
        with("/film/hd"),
        format!("{at}/film/{token}/1.m4s"),
        format!("{at}/other/{token}/1.m4s"),
        format!("{at}/{token}/film/hd/manifest.mpd"),
        relative("../1.m4s"),
        relative("../../1.m4s"),
        relative("../../../other/1.m4s"),
        relative("%2e%2e/%2e%2e/1.m4s"),
        relative("..%2f..%2f1.m4s"),
        format!("{at}/other/1.m4s"),
    ] {
        assert_eq!(status(&altered), 403, "{altered}");
    }

    // The address was signed an hour and a minute ago for one hour.
    fixture.server.clock.set(real_time() + -(HOUR + 60));
    assert_eq!(status(&playlist(&fixture, "film")), 410);
}

#[test]
fn signing_keys_rotate_without_an_interruption() {
    let Some(nginx) = program("nginx") else {
        return;
    };
    let (port, media) = (free_port(), media());
    let at = format!("http://127.0.0.1:{port}");
    let film = format!("{at}/film/hd/manifest.mpd");
    let now = real_time();
    let signed = |keys: &[(&str, &str)]| {
        let networks = network(&at, "secure-link", keys, "");
        playlist(&fixture(now, &networks, &[("film", &film)]), "film")
    };
    let [a, b] = KEYS;
    // The order of a rotation: the edge learns the new key, then Playgate signs with it, then the old key is removed.
    let (old, new) = (signed(&[a, b]), signed(&[b, a]));
    assert_eq!(new, signed(&[b]));
    let statuses = |keys: &[(&str, &str)]| {
        let _edge = edge(&nginx, port, media.path(), keys);
        [&old, &new].map(|address| get(address).0)
    };
    assert_eq!(statuses(&[a]), [200, 403]);
    assert_eq!(statuses(&[a, b]), [200, 200]);
    assert_eq!(statuses(&[b]), [403, 200]);
}

#[test]
fn preflight_signs_for_each_cdn_until_the_entitlement_ends() {
    let key = "0f".repeat(32);
    let keys = [("k1", key.as_str())];
    let networks = network(
        "https://hmac.example",
        "path-hmac",
        &keys,
        "lifetime = '7d'",
    ) + &network(
        "https://akamai.example/vod",
        "akamai",
        &keys,
        "parameter = 'tok'",
    );
    let films = [
        ("hmac", "https://hmac.example/{asset}/m.mpd?s={session}"),
        ("akamai", "https://akamai.example/vod/m.mpd?e={expires}"),
        ("plain", "https://akamai.example/m.mpd"),
        ("dots", "https://hmac.example/a/../m.mpd"),
    ];
    let fixture = fixture(NOON, &networks, &films);
    let token = fixture.token(&fixture.ann, "hmac");
    fixture.server.wait(HOUR);
    let answer = fixture.preflight(&fixture.ann, "hmac", &token, &[("Protocol", "dashs")]);
    let body = answer.json();
    let address = body["playlist"].as_str().unwrap();
    let session = body["headers"]["Service-Play-Session"].as_str().unwrap();
    let end = NOON.0 + 24 * HOUR;
    let begins = format!("https://hmac.example/hmac/k1.{end}.");
    assert!(address.starts_with(&begins), "{address}");
    assert!(
        address.ends_with(&format!("/m.mpd?s={session}")),
        "{address}"
    );

    let address = playlist(&fixture, "akamai");
    let end = end + HOUR;
    let begins = format!("https://akamai.example/vod/m.mpd?e={end}&tok=exp={end}~acl=/vod/*~hmac=");
    assert!(address.starts_with(&begins), "{address}");
    assert_eq!(playlist(&fixture, "plain"), "https://akamai.example/m.mpd");
    let token = fixture.token(&fixture.ann, "dots");
    let refused = fixture.preflight(&fixture.ann, "dots", &token, &[]);
    assert_eq!(refused.code(), "PROTOCOL_NOT_AVAILABLE");
}

#[test]
fn openssl_verifies_cloudfront_signatures() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    openssl(
        at,
        "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.pem",
    );
    openssl(at, "rsa -in rsa.pem -traditional -out pkcs1.pem");
    for (name, curve) in [("ec", "P-256"), ("p384", "P-384")] {
        let of = format!("-algorithm EC -pkeyopt ec_paramgen_curve:{curve}");
        openssl(at, &format!("genpkey {of} -out {name}.pem"));
    }
    openssl(
        at,
        "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072 -out long.pem",
    );
    openssl(at, "ec -in ec.pem -out sec1.pem");
    let given = |name: &str| {
        let file = at.join(name).display().to_string();
        let table = network(
            "https://d1.cloudfront.net",
            "cloudfront",
            &[("K1", &file)],
            "",
        );
        table.replace("key = ", "key_file = ")
    };
    for name in ["rsa.pem", "pkcs1.pem", "ec.pem"] {
        let pem = at.join(name);
        fs::set_permissions(&pem, fs::Permissions::from_mode(0o600)).unwrap();
        let film = ("film", "https://d1.cloudfront.net/film/hd/m.mpd?x=1");
        let address = playlist(&fixture(NOON, &given(name), &[film]), "film");
        let begins = "https://d1.cloudfront.net/film/hd/m.mpd?x=1&Policy=";
        let rest = address.strip_prefix(begins).unwrap();
        let rest = rest.strip_suffix("&Key-Pair-Id=K1&Hash-Algorithm=SHA256");
        let (policy, signature) = rest.unwrap().split_once("&Signature=").unwrap();
        let policy = cloudfront_bytes(policy);
        let expected = format!(
            "{{\"Statement\":[{{\"Resource\":\"https://d1.cloudfront.net/film/hd/*\",\
             \"Condition\":{{\"DateLessThan\":{{\"AWS:EpochTime\":{}}}}}}}]}}",
            NOON.0 + 24 * HOUR
        );
        assert_eq!(String::from_utf8_lossy(&policy), expected);
        fs::write(at.join("policy"), &policy).unwrap();
        fs::write(at.join("signature"), cloudfront_bytes(signature)).unwrap();
        openssl(at, &format!("pkey -in {name} -pubout -out public.pem"));
        openssl(
            at,
            "dgst -sha256 -verify public.pem -signature signature policy",
        );
    }
    for (name, why) in [
        ("p384.pem", "ECDSA P-256"),
        ("long.pem", "2048 bits"),
        ("sec1.pem", "pkcs8 -topk8"),
    ] {
        let pem = at.join(name);
        fs::set_permissions(&pem, fs::Permissions::from_mode(0o600)).unwrap();
        let inputs = Inputs {
            file: Some(private(&folder, &given(name))),
            ..Inputs::default()
        };
        let problems = load(&inputs).err().expect("a mistake").to_string();
        assert!(problems.contains(why), "{problems}");
    }
}

/// Decodes CloudFront's variant of base64.
fn cloudfront_bytes(text: &str) -> Vec<u8> {
    let usual = text.replace('-', "+").replace('_', "=").replace('~', "/");
    BASE64.decode(usual.as_bytes()).unwrap()
}
