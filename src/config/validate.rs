//! Validation across keys, and warnings.

use super::http::Environment;
use super::keys::{Config, LicenseServerConfig};
use super::provenance::Effective;
use super::{ConfigProblems, ListenAddress, Provenance, license_urls, smtp_keys};
use playgate_ports::SmtpSecurity;

/// A rule over several keys. The first key is the one at fault.
struct CrossKeyRule {
    keys: &'static [&'static str],
    broken: fn(&Config) -> bool,
    message: &'static str,
}

const RULES: &[CrossKeyRule] = &[
    CrossKeyRule {
        keys: &["tls.cert", "tls.key"],
        broken: |config| config.tls.cert.is_some() && config.tls.key.is_none(),
        message: "`tls.cert` needs `tls.key`",
    },
    CrossKeyRule {
        keys: &["tls.key", "tls.cert"],
        broken: |config| config.tls.key.is_some() && config.tls.cert.is_none(),
        message: "`tls.key` needs `tls.cert`",
    },
    CrossKeyRule {
        keys: &["tls.listen", "tls.cert"],
        broken: |config| !config.tls.listen.is_empty() && config.tls.cert.is_none(),
        message: "`tls.listen` needs `tls.cert` and `tls.key`",
    },
    CrossKeyRule {
        keys: &["tls.cert", "tls.key", "tls.listen"],
        broken: |config| {
            let given = config.tls.cert.is_some() && config.tls.key.is_some();
            // Without this rule an operator would believe that traffic is encrypted.
            given && config.tls.listen.is_empty()
        },
        message: "`tls.cert` needs `tls.listen`, or it is not used",
    },
    CrossKeyRule {
        keys: &["listen", "tls.listen"],
        broken: |config| config.server.listen.is_empty() && config.tls.listen.is_empty(),
        message: "`listen` must not be empty unless `tls.listen` is set",
    },
    CrossKeyRule {
        keys: &["ops.listen", "listen"],
        broken: |config| {
            // The console, health and metrics are served without a token.
            let ops = &config.ops.listen;
            is_certain(ops) && config.server.listen.contains(ops)
        },
        message: "`ops.listen` is also in `listen`, but operations must not be public",
    },
    CrossKeyRule {
        keys: &["ops.listen", "tls.listen"],
        broken: |config| {
            let ops = &config.ops.listen;
            is_certain(ops) && config.tls.listen.contains(ops)
        },
        message: "`ops.listen` is also in `tls.listen`, but operations must not be public",
    },
    CrossKeyRule {
        keys: &["tls.listen", "listen"],
        broken: |config| {
            let mut tls = config.tls.listen.iter();
            tls.any(|address| is_certain(address) && config.server.listen.contains(address))
        },
        message: "`tls.listen` and `listen` share an address",
    },
    CrossKeyRule {
        keys: &["fleet.username", "fleet.password"],
        broken: |config| config.fleet.username.is_some() != config.fleet.password.is_some(),
        message: "`fleet.username` and `fleet.password` need each other",
    },
    CrossKeyRule {
        keys: &["fleet.client_cert", "fleet.client_key"],
        broken: |config| config.fleet.client_cert.is_some() != config.fleet.client_key.is_some(),
        message: "`fleet.client_cert` and `fleet.client_key` need each other",
    },
    CrossKeyRule {
        keys: &["fleet.client_cert", "fleet.endpoints"],
        broken: |config| {
            let mut endpoints = config.fleet.endpoints.iter();
            config.fleet.client_cert.is_some() && endpoints.any(|url| !url.starts_with("https:"))
        },
        message: "`fleet.client_cert` is for `fleet.endpoints` with https, and one is http",
    },
    CrossKeyRule {
        keys: &["fleet.listen"],
        broken: |config| !matches!(config.fleet.listen, ListenAddress::Tcp { .. }),
        message: "`fleet.listen` must be host:port",
    },
    CrossKeyRule {
        keys: &["http.cors_origins"],
        broken: |config| {
            let origins = &config.http.cors_origins;
            origins.len() > 1 && origins.iter().any(|origin| origin == "*")
        },
        message: "`http.cors_origins` has `*` and other origins, but `*` already allows any origin",
    },
    CrossKeyRule {
        keys: &["accounts.argon2_memory_kib", "accounts.argon2_parallelism"],
        broken: |config| {
            let accounts = &config.accounts;
            // A bound of Argon2 itself: RFC 9106, 3.1.
            accounts.argon2_memory_kib < 8 * accounts.argon2_parallelism
        },
        message: "`accounts.argon2_memory_kib` must be at least 8 per unit of `accounts.argon2_parallelism`",
    },
    CrossKeyRule {
        keys: &["parental.to", "parental.from"],
        broken: |config| config.parental.from == config.parental.to,
        message: "`parental.to` equals `parental.from`; they must differ",
    },
    CrossKeyRule {
        keys: &["smtp.username", "smtp.password", "smtp.oauth2.token_url"],
        broken: |config| {
            let smtp = &config.smtp;
            let proof = smtp.password.is_some() || config.smtp_oauth2.token_url.is_some();
            smtp.username.is_some() && !proof
        },
        message: "`smtp.username` needs `smtp.password` or `smtp.oauth2.token_url`",
    },
    CrossKeyRule {
        keys: &["smtp.oauth2.token_url", "smtp.password"],
        broken: |config| config.smtp_oauth2.token_url.is_some() && config.smtp.password.is_some(),
        message: "`smtp.oauth2.token_url` and `smtp.password` are two ways to log in: remove one",
    },
    CrossKeyRule {
        keys: &[
            "smtp.oauth2.token_url",
            "smtp.username",
            "smtp.oauth2.client_id",
        ],
        broken: |config| {
            let oauth = &config.smtp_oauth2;
            let named = config.smtp.username.is_some() && oauth.client_id.is_some();
            oauth.token_url.is_some() && !named
        },
        message: "`smtp.oauth2.token_url` needs `smtp.oauth2.client_id` and `smtp.username`, the mailbox that sends",
    },
    CrossKeyRule {
        keys: &[
            "smtp.oauth2.token_url",
            "smtp.oauth2.client_secret",
            "smtp.oauth2.refresh_token",
        ],
        broken: |config| {
            let oauth = &config.smtp_oauth2;
            let proof = oauth.client_secret.is_some() || oauth.refresh_token.is_some();
            oauth.token_url.is_some() && !proof
        },
        message: "`smtp.oauth2.token_url` needs `smtp.oauth2.client_secret` or `smtp.oauth2.refresh_token`",
    },
    CrossKeyRule {
        keys: &[
            "smtp.oauth2.client_id",
            "smtp.oauth2.client_secret",
            "smtp.oauth2.refresh_token",
            "smtp.oauth2.scope",
            "smtp.oauth2.token_url",
        ],
        broken: |config| {
            let oauth = &config.smtp_oauth2;
            let given = [
                oauth.client_id.is_some(),
                oauth.client_secret.is_some(),
                oauth.refresh_token.is_some(),
                oauth.scope.is_some(),
            ];
            oauth.token_url.is_none() && given.contains(&true)
        },
        message: "`smtp.oauth2` needs `smtp.oauth2.token_url`",
    },
    CrossKeyRule {
        keys: &["smtp.oauth2.token_url"],
        broken: |config| {
            let url = config.smtp_oauth2.token_url.as_deref();
            url.is_some_and(is_in_clear)
        },
        message: "`smtp.oauth2.token_url` must begin with https://: the secret would go over the network unencrypted",
    },
    CrossKeyRule {
        keys: &["smtp.password", "smtp.username"],
        broken: |config| config.smtp.password.is_some() && config.smtp.username.is_none(),
        message: "`smtp.password` needs `smtp.username`",
    },
    CrossKeyRule {
        keys: &["smtp.security", "smtp.username", "smtp.host"],
        broken: |config| {
            let open = config.smtp.security == SmtpSecurity::None;
            let host = config.smtp.server_name();
            open && config.smtp.username.is_some() && host.is_some_and(|host| !is_local(&host))
        },
        message: "`smtp.security` `none` would send the password over the network unencrypted",
    },
    CrossKeyRule {
        keys: &["smtp.ca", "smtp.security"],
        broken: |config| config.smtp.ca.is_some() && config.smtp.security == SmtpSecurity::None,
        message: "`smtp.ca` has no effect with `smtp.security` `none`",
    },
    CrossKeyRule {
        keys: &["smtp.host", "mail.from"],
        broken: |config| config.smtp.host.is_some() && config.mail.from.is_none(),
        message: "`smtp.host` needs `mail.from`",
    },
    CrossKeyRule {
        keys: &[FORWARD_URL, "telemetry.forward.authorization"],
        broken: |config| {
            let forward = &config.telemetry_forward;
            forward.authorization.is_some() && forward.url.as_deref().is_some_and(is_in_clear)
        },
        message: "`telemetry.forward.url` without TLS would send the authorization over the network unencrypted",
    },
    CrossKeyRule {
        keys: &["geo.header", "http.trusted_proxies"],
        broken: |config| config.geo.header.is_some() && config.http.trusted_proxies.is_empty(),
        message: "`geo.header` is accepted only from `http.trusted_proxies`, but none are set",
    },
];

fn is_certain(address: &ListenAddress) -> bool {
    // With port 0 the system chooses another port each time, so that equal texts do not collide.
    !matches!(address, ListenAddress::Tcp { port: 0, .. })
}

fn is_local(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn sends_license_secret(server: &LicenseServerConfig) -> bool {
    server.authorization.is_some() && server.url.as_deref().is_some_and(is_in_clear)
}

fn is_in_clear(url: &str) -> bool {
    let uri: Option<http::Uri> = url.parse().ok();
    uri.is_some_and(|uri| {
        let host = uri.host().unwrap_or_default();
        // Only the URL has the brackets of an IPv6 address.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        uri.scheme_str() != Some("https") && !is_local(host)
    })
}

pub(super) fn check(
    config: &Config,
    effective: &[Effective],
    demo: bool,
    problems: &mut ConfigProblems,
) {
    let origin_of = |key: &str| {
        let found = effective.iter().find(|effective| effective.key == key);
        found.map(|effective| effective.origin.clone())
    };
    for rule in RULES {
        // An invalid key was reported already, and has its default here.
        let all_read = rule.keys.iter().all(|key| origin_of(key).is_some());
        if all_read && (rule.broken)(config) {
            problems.add(placed(rule, &origin_of), rule.message);
        }
    }
    let production = config.server.environment == Environment::Production;
    if config.lab.clock && production && !demo && origin_of("environment").is_some() {
        problems.add(
            origin_of("lab.clock"),
            "`lab.clock` is not allowed in `production`: tokens could be extended at will",
        );
    }
}

fn placed(
    rule: &CrossKeyRule,
    origin_of: &impl Fn(&str) -> Option<Provenance>,
) -> Option<Provenance> {
    rule.keys
        .iter()
        .filter_map(|key| origin_of(key))
        // The operator can change only a line that exists.
        .find(|origin| *origin != Provenance::Default)
}

const FORWARD_URL: &str = "telemetry.forward.url";

/// Mistakes that an earlier version accepted, with their messages: a service that runs with one must still start after an
/// upgrade.
const WARNINGS: &[(fn(&Config) -> bool, &str)] = &[
    (
        Config::links_lead_here,
        "links in mails lead to this machine itself; set `public_url` to the address that viewers use",
    ),
    (
        |config| sends_license_secret(&config.widevine),
        "`license.widevine.url` without TLS sends the authorization over the network unencrypted",
    ),
    (
        |config| sends_license_secret(&config.playready),
        "`license.playready.url` without TLS sends the authorization over the network unencrypted",
    ),
    (
        |config| sends_license_secret(&config.fairplay),
        "`license.fairplay.url` without TLS sends the authorization over the network unencrypted",
    ),
    (
        |config| {
            let mut endpoints = config.fleet.endpoints.iter();
            config.fleet.password.is_some() && endpoints.any(|url| is_in_clear(url))
        },
        "`fleet.endpoints` without TLS sends the password over the network unencrypted",
    ),
];

impl Config {
    /// Whether viewers get links that work on this machine only. Without a mail server or a proxy nobody else is served yet.
    pub fn links_lead_here(&self) -> bool {
        let serves_others = self.smtp.host.is_some() || !self.http.trusted_proxies.is_empty();
        let link = &self.accounts.reset_url;
        let base = match link.strip_prefix("{public_url}") {
            Some(_) => self.server.public_url.as_deref(),
            None => Some(link.as_str()),
        };
        let leads_here = base.is_none_or(|url| {
            // Without its placeholders, which are no part of a URL.
            let url = url.split(['?', '{']).next().unwrap_or_default();
            let uri: Option<http::Uri> = url.parse().ok();
            let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let unspecified = host
                .parse()
                .is_ok_and(|ip: std::net::IpAddr| ip.is_unspecified());
            is_local(host) || unspecified
        });
        serves_others && leads_here
    }
}

pub(super) fn warnings(
    config: &Config,
    effective: &[Effective],
    unsafe_no_sync: bool,
) -> Vec<String> {
    let broken = WARNINGS.iter().filter(|(is_broken, _)| is_broken(config));
    let mut warnings: Vec<String> = broken.map(|(_, message)| (*message).to_owned()).collect();
    warnings.extend(license_urls::warnings(config));
    warnings.extend(smtp_keys::warnings(&config.smtp));
    if unsafe_no_sync {
        warnings.push(
            "PLAYGATE_UNSAFE_NO_SYNC is set: files are not synced, a power failure loses acknowledged data"
                .to_owned(),
        );
    }
    let forward = effective.iter().filter(|set| {
        let given = set.origin != Provenance::Default && set.value.as_deref() != Some("");
        given && set.key.starts_with("telemetry.forward.")
    });
    let forward: Vec<&Effective> = forward.collect();
    if !forward.iter().any(|set| set.key == FORWARD_URL) {
        warnings.extend(forward.iter().map(|set| {
            let (key, origin) = (&set.key, &set.origin);
            format!("`{key}` ({origin}) has no effect without `{FORWARD_URL}`")
        }));
    }
    warnings
}
