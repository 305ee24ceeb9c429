//! Tests of CDN signatures. The expected tags were computed independently: by Python's `hmac` and `hashlib`,
//! `openssl md5`, and Akamai's own generator (`akamai-edgeauth` 0.3.2).

use super::*;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const UNTIL: UnixSeconds = UnixSeconds(1_800_000_000);
const NOW: UnixSeconds = UnixSeconds(1_799_990_000);

fn network(prefix: &str, scheme: Scheme) -> CdnScheme {
    let key = SigningKey::parse(scheme, "2026-b", SECRET, "hdnts").unwrap();
    CdnScheme::new("main", prefix, scheme, 86_400, key)
}

fn signed(networks: &[CdnScheme], address: &str) -> Option<String> {
    Signing::new(&[7; 32], networks.to_vec()).signed(address.to_owned(), NOW, UNTIL)
}

#[test]
fn signatures_match_independent_implementations() {
    for (scheme, expected) in [
        (
            Scheme::PathHmac,
            "https://cdn.example/film/a%20b/2026-b.1800000000.\
             c0b16a95a7bebaf7809acd47923d9931e8710d19ccc713a667a0cdd13127aca6/m.mpd?q=1#t=5",
        ),
        (
            Scheme::SecureLink,
            "https://cdn.example/film/a%20b/2026-b.1799999999.zRbDguNaBmsiRBw-J38I7A/m.mpd?q=1#t=5",
        ),
        (
            Scheme::Akamai,
            "https://cdn.example/film/a%20b/m.mpd?q=1&hdnts=exp=1800000000~acl=/film/a%20b/*~hmac=\
             28fe7ac64f74e480858f8e590ae8e0ae6658cfc183d6160eff3dad600895d71f#t=5",
        ),
    ] {
        let networks = [network("https://cdn.example", scheme)];
        let address = "https://cdn.example/film/a%20b/m.mpd?q=1#t=5";
        assert_eq!(signed(&networks, address).as_deref(), Some(expected));
    }
}

#[test]
fn only_urls_of_a_cdn_are_signed() {
    let networks = [network("https://cdn.example:444/vod", Scheme::PathHmac)];
    for address in [
        "https://cdn.example:444/vod/m.mpd",
        "https://cdn.example:444/vod",
        "https://CDN.example:444/vod/a/m.mpd",
        "https://cdn.example:444/vod?x",
    ] {
        let signed = signed(&networks, address).unwrap();
        assert!(signed.contains("2026-b.1800000000."), "{signed}");
    }
    for address in [
        "http://cdn.example:444/vod/m.mpd",
        "https://cdn.example/vod/m.mpd",
        "https://cdn.example:4443/vod/m.mpd",
        "https://cdn.example:444.evil.example/vod/m.mpd",
        "https://cdn.example:444@evil.example/vod/m.mpd",
        "https://ann:secret@cdn.example:444/vod/m.mpd",
        "https://evil.example/https://cdn.example:444/vod/m.mpd",
        "https://cdn.example:444/vodka/m.mpd",
        "https://cdn.example:444/VOD/m.mpd",
        "https://cdn.example:444",
        "https://cdn.example:444?/vod/m.mpd",
        "https://cdn.example:444\\@evil.example/vod/m.mpd",
    ] {
        assert_eq!(signed(&networks, address).as_deref(), Some(address));
    }
}

#[test]
fn an_unsignable_url_is_withheld() {
    let networks = |scheme| [network("https://cdn.example", scheme)];
    for scheme in [Scheme::PathHmac, Scheme::SecureLink, Scheme::Akamai] {
        let address = "https://cdn.example/a/../b/m.mpd";
        assert_eq!(signed(&networks(scheme), address), None);
    }
    let twice = "https://cdn.example/m.mpd?hdnts=exp=1";
    assert_eq!(signed(&networks(Scheme::Akamai), twice), None);
    assert!(signed(&networks(Scheme::PathHmac), twice).is_some());
}

#[test]
fn the_longest_prefix_wins() {
    let short = network("https://cdn.example", Scheme::Akamai);
    let long = network("https://cdn.example/live", Scheme::PathHmac);
    for networks in [[short.clone(), long.clone()], [long, short]] {
        let live = signed(&networks, "https://cdn.example/live/m.mpd").unwrap();
        assert!(live.contains("/live/2026-b."), "{live}");
        let vod = signed(&networks, "https://cdn.example/vod/m.mpd").unwrap();
        assert!(vod.contains("?hdnts="), "{vod}");
    }
}

#[test]
fn a_url_expires_with_its_cdn_or_its_entitlement() {
    let key = SigningKey::parse(Scheme::PathHmac, "a", SECRET, "").unwrap();
    let short = CdnScheme::new("n", "https://cdn.example", Scheme::PathHmac, 600, key);
    let signing = Signing::new(&[7; 32], vec![short]);
    for (until, expires) in [(UNTIL, NOW + 600), (NOW + 599, NOW + 599)] {
        let address = "https://cdn.example/m.mpd".to_owned();
        let signed = signing.signed(address, NOW, until).unwrap();
        assert!(signed.contains(&format!("/a.{expires}.")), "{signed}");
    }
}

#[test]
fn a_key_must_have_the_form_of_its_scheme() {
    let good = |scheme, secret: &str| SigningKey::parse(scheme, "a", secret, "t").is_ok();
    let (short, odd) = (&SECRET[1..], format!("{SECRET}0"));
    for scheme in [Scheme::PathHmac, Scheme::SecureLink, Scheme::Akamai] {
        assert!(good(scheme, SECRET));
        assert!(!good(scheme, short));
    }
    assert!(good(Scheme::Akamai, &SECRET.to_uppercase()));
    assert!(!good(Scheme::Akamai, &odd));
    for bad in ["\"", "$", ";", " ", "ä", "\\"] {
        assert!(!good(Scheme::SecureLink, &format!("{SECRET}{bad}")));
    }
    assert!(!good(Scheme::Cloudfront, SECRET));
    let torn = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----";
    assert!(!good(Scheme::Cloudfront, torn));
}
