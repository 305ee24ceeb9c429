//! Warns of addresses of license servers that cannot work: every license would fail, and only at the viewers.

use super::Config;
use playgate_ports::license_server::Style;

/// Parts of host names and paths that only license servers of one DRM system have.
const MARKS: [(&str, &str); 6] = [
    ("widevine", "Widevine"),
    ("playready", "PlayReady"),
    ("rightsmanager.asmx", "PlayReady"),
    ("fairplay", "FairPlay"),
    ("fps.", "FairPlay"),
    ("/fps", "FairPlay"),
];
/// Domains of vendors, the style that their servers need, and its name.
const VENDORS: [(&str, Style, &str); 7] = [
    ("drmtoday.com", Style::Drmtoday, "drmtoday"),
    ("ezdrm.com", Style::Ezdrm, "ezdrm"),
    ("pallycon.com", Style::Doverunner, "doverunner"),
    ("doverunner.com", Style::Doverunner, "doverunner"),
    ("axprod.net", Style::Axinom, "axinom"),
    ("axinom.com", Style::Axinom, "axinom"),
    ("anycast.nagra.com", Style::Nagra, "nagra"),
];
/// Domains of vendors whose servers check a token that changes with each request, and what it is.
const FOREIGN_TOKENS: [(&str, &str); 3] = [
    ("keyos.com", "an authentication XML with a signature of RSA"),
    (
        "licensekeyserver.com",
        "an authentication XML with a signature of RSA",
    ),
    (
        "verimatrixcloud.net",
        "a token of a form that Verimatrix tells its customers only",
    ),
];

pub(super) fn warnings(config: &Config) -> Vec<String> {
    let servers = [
        ("widevine", "Widevine", &config.widevine),
        ("playready", "PlayReady", &config.playready),
        ("fairplay", "FairPlay", &config.fairplay),
    ];
    let doubts = servers.into_iter().filter_map(|(key, system, server)| {
        let doubt = doubt(system, server.url.as_deref()?, server.style)?;
        Some(format!("`license.{key}.url` {doubt}"))
    });
    doubts.collect()
}

fn doubt(system: &str, url: &str, configured_style: Style) -> Option<String> {
    let url = url.to_ascii_lowercase();
    // A query may name anything.
    let (_, address) = url.split('?').next()?.split_once("://")?;
    let of_system = MARKS
        .iter()
        .any(|(mark, of)| *of == system && address.contains(mark));
    let of_other = MARKS
        .iter()
        .find(|(mark, of)| *of != system && address.contains(mark));
    if let Some((_, other)) = of_other
        && !of_system
    {
        return Some(format!(
            "looks like the address of a license server of {other}"
        ));
    }
    let host = address.split(['/', ':']).next()?;
    let is_under = |domain: &str| {
        let before = host.strip_suffix(domain);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    if let Some((domain, token)) = FOREIGN_TOKENS.iter().find(|(domain, _)| is_under(domain)) {
        return Some(format!(
            "is an address of {domain}, whose servers check {token}, which Playgate does not make: put a service of yours \
             that adds it in between"
        ));
    }
    let vendor = VENDORS.iter().find(|(domain, ..)| is_under(domain));
    if let Some((domain, style, name)) = vendor
        && configured_style != *style
    {
        return Some(format!(
            "is an address of {domain}, whose servers need style `{name}`"
        ));
    }
    let names_asset = ["{asset}", "{kid}"].iter().any(|name| url.contains(name));
    if system == "FairPlay" && configured_style == Style::Ezdrm && !names_asset {
        return Some(
            "serves one asset only: the path of EZDRM's FairPlay server ends with the key id; write `{kid}` there"
                .to_owned(),
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_work_are_named() {
        for (system, url, style, part) in [
            (
                "Widevine",
                "https://lic.drmtoday.com/license-server-fairplay/",
                Style::Drmtoday,
                "FairPlay",
            ),
            (
                "FairPlay",
                "https://lic.drmtoday.com/license-proxy-widevine/cenc/",
                Style::Drmtoday,
                "Widevine",
            ),
            (
                "Widevine",
                "https://playready.ezdrm.com/cency/preauth.aspx?pX=1",
                Style::Ezdrm,
                "PlayReady",
            ),
            (
                "Widevine",
                "https://lic.drmtoday.com/license-proxy-widevine/cenc/",
                Style::Plain,
                "style `drmtoday`",
            ),
            (
                "FairPlay",
                "https://fps.ezdrm.com/api/licenses/1",
                Style::Ezdrm,
                "{kid}",
            ),
        ] {
            let found = doubt(system, url, style).unwrap_or_else(|| panic!("{url}"));
            assert!(found.contains(part), "{found}");
        }
        for (system, url, style) in [
            (
                "Widevine",
                "https://lic.drmtoday.com/license-proxy-widevine/cenc/?specConform=true",
                Style::Drmtoday,
            ),
            (
                "PlayReady",
                "https://lic.drmtoday.com/license-proxy-headerauth/drmtoday/RightsManager.asmx",
                Style::Drmtoday,
            ),
            (
                "FairPlay",
                "https://fps.ezdrm.com/api/licenses/{kid}",
                Style::Ezdrm,
            ),
            (
                "Widevine",
                "https://license.example.org/fairplay-and-widevine",
                Style::Plain,
            ),
            (
                "PlayReady",
                "https://license.example.org/?for=widevine",
                Style::Jwt,
            ),
            ("Widevine", "https://notdrmtoday.com/widevine", Style::Plain),
        ] {
            assert_eq!(doubt(system, url, style), None, "{url}");
        }
    }

    #[test]
    fn addresses_of_servers_that_check_other_tokens_are_named() {
        for (system, url, style, part) in [
            (
                "Widevine",
                "https://acme.anycast.nagra.com/ACME/wvls/contentlicenseservice/v1/licenses",
                Style::Jwt,
                "style `nagra`",
            ),
            (
                "Widevine",
                "https://widevine.keyos.com/api/v4/getLicense",
                Style::Plain,
                "authentication XML",
            ),
            (
                "FairPlay",
                "https://multidrm.vsaas.verimatrixcloud.net/fairplay",
                Style::Jwt,
                "Verimatrix",
            ),
        ] {
            let found = doubt(system, url, style).unwrap_or_else(|| panic!("{url}"));
            assert!(found.contains(part), "{found}");
        }
    }
}
