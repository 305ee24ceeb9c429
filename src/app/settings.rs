//! Converts the configuration to the settings of each service, so that the effect of every key can be found
//! here.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io};

use chrono::{NaiveDate, NaiveTime};
use ring::digest;

use super::{AppError, key_files};
use playgate_config::http::CorsOrigins;
use playgate_config::{Config, HttpSettings, ListenAddress, Network, Secret};
use playgate_domain::schedule::ratings::Ratings;
use playgate_domain::{
    accounts, backups, catalog, entitlement, epg_sources, mail, playback, schedule,
};
use playgate_http::Messages;
use playgate_ports::Tls;
use playgate_ports::event_sink::HttpSink;
use playgate_ports::geoip::GeoIp;
use playgate_ports::license_server::{
    self, HttpLicenseServer, LicenseServerSettings, LicenseServers,
};
use playgate_ports::mailer::Mailer;
use playgate_ports::oauth_token::OAuthSettings;
use playgate_ports::smtp::{SmtpLogin, SmtpMailer, SmtpSettings};
use playgate_records::{journal, telemetry};
use playgate_types::Drm;
use playgate_types::time::DAY;

const MINUTE: i64 = 60;

pub(super) fn http(config: &Config, listener: Option<SocketAddr>) -> HttpSettings {
    let origins = &config.http.cors_origins;
    HttpSettings {
        public_url: public_url(config, listener),
        environment: config.server.environment,
        header_prefix: config.http.header_prefix.clone(),
        trusted_proxies: config.http.trusted_proxies.clone(),
        // `*` among listed origins allows all of them.
        cors_origins: if origins.iter().any(|origin| origin == "*") {
            CorsOrigins::Any
        } else {
            CorsOrigins::Listed(origins.clone())
        },
        ops_hosts: config.ops.hosts.clone(),
        language: config.http.language.clone(),
        geo_header: config.geo.header.clone(),
        access_log: config.log.access,
        sunset: config.http.sunset.map(http_date),
    }
}

fn http_date(date: NaiveDate) -> String {
    date.format("%a, %d %b %Y 00:00:00 GMT").to_string()
}

/// Returns the configured public address, or that of the first listener; a TLS address only if there is no
/// plain one.
fn public_url(config: &Config, listener: Option<SocketAddr>) -> String {
    if let Some(url) = &config.server.public_url {
        // The paths that are appended begin with a slash.
        return url.trim_end_matches('/').to_owned();
    }
    let (scheme, given) = match config.server.listen.first() {
        Some(plain) => ("http", Some(plain)),
        None => ("https", config.tls.listen.first()),
    };
    let (host, port) = match (listener, given) {
        (Some(address), _) => (reachable(address.ip()), address.port()),
        (None, Some(ListenAddress::Tcp { host, port })) => match host.parse() {
            Ok(address) => (reachable(address), *port),
            Err(_) => (host.clone(), *port),
        },
        (None, Some(ListenAddress::Unix(_) | ListenAddress::Passed(_)) | None) => {
            ("localhost".to_owned(), 80)
        }
    };
    // RFC 3986, 3.2.2: a URL has an IPv6 address in brackets.
    if host.contains(':') {
        format!("{scheme}://[{host}]:{port}")
    } else {
        format!("{scheme}://{host}:{port}")
    }
}

fn reachable(address: IpAddr) -> String {
    match address {
        // Nobody can connect to `0.0.0.0`, and a link with it in a mail would not work.
        IpAddr::V4(v4) if v4.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V6(v6) if v6.is_unspecified() => "::1".to_owned(),
        other => other.to_string(),
    }
}

pub(super) fn messages(config: &Config) -> Result<Messages, AppError> {
    let mut added = Vec::new();
    if let Some(directory) = &config.http.messages {
        let failed = |path: PathBuf| move |error: io::Error| AppError::File { path, error };
        for entry in fs::read_dir(directory).map_err(failed(directory.clone()))? {
            let path = entry.map_err(failed(directory.clone()))?.path();
            let language = path.file_stem().and_then(|stem| stem.to_str());
            // Other files in the directory are ignored.
            if let Some(language) = language
                && path
                    .extension()
                    .is_some_and(|extension| extension == "toml")
            {
                let text = fs::read_to_string(&path).map_err(failed(path.clone()))?;
                added.push((language.to_owned(), text));
            }
        }
    }
    let added = added
        .iter()
        .map(|(language, text)| (language.as_str(), text.as_str()));
    Messages::with(&config.http.language, added)
        .map_err(|error| AppError::Setting(error.to_string()))
}

pub(super) fn accounts(config: &Config) -> accounts::AccountSettings {
    let given = &config.accounts;
    let limits = &config.limits;
    let mut rules = accounts::AttemptLimits::default();
    let window = i64::from(limits.login_window_minutes) * MINUTE;
    rules.login_account.limit = limits.login_wrong_per_account;
    rules.login_account.window = window;
    rules.login_address.limit = limits.login_wrong_per_address;
    rules.login_address.window = window;
    rules.login_known_address.limit = limits
        .login_wrong_per_address
        .saturating_mul(accounts::KNOWN_FACTOR);
    rules.login_known_address.window = window;
    rules.sign_up.limit = limits.sign_up_per_address;
    rules.reset_mail_account.limit = limits.reset_mails_per_account;
    rules.reset_mail_address.limit = limits.reset_mails_per_address;
    rules.reset.limit = limits.resets_per_address;
    rules.pin.limit = limits.pin_wrong;
    accounts::AccountSettings {
        token_life: i64::from(given.user_token_days) * DAY,
        token_idle: i64::from(given.user_token_idle_days) * DAY,
        logins_per_user: usize::try_from(given.logins_max).unwrap_or(usize::MAX),
        reset_life: i64::from(given.reset_token_minutes) * MINUTE,
        password_min: usize::try_from(given.password_min).unwrap_or(usize::MAX),
        password_words: given.password_words.clone(),
        cost: accounts::Cost {
            memory_kib: given.argon2_memory_kib,
            iterations: given.argon2_iterations,
            parallelism: given.argon2_parallelism,
        },
        parental_limit: config.parental.limit,
        limits: rules,
        exempt_networks: limits.exempt_networks.iter().map(Network::parts).collect(),
    }
}

pub(super) fn mail(config: &Config, public_url: &str) -> Result<mail::MailSettings, AppError> {
    Ok(mail::MailSettings {
        reset_url: config
            .accounts
            .reset_url
            .replace("{public_url}", public_url),
        language: config.http.language.clone(),
        templates: config.mail.templates.clone(),
        brand: brand(config)?,
        name_of: accounts::name_of,
    })
}

fn brand(config: &Config) -> Result<mail::Brand, AppError> {
    let given = &config.mail_brand;
    let sender = || config.mail.from.as_ref()?.name.clone();
    let logo = given.logo.as_deref().map(mail::Logo::open).transpose();
    Ok(mail::Brand {
        name: (given.name.clone().or_else(sender)).unwrap_or_else(|| mail::Brand::default().name),
        logo: logo.map_err(|why| AppError::Setting(format!("`mail.brand.logo`: {why}")))?,
        colour: given.colour,
    })
}

pub(super) fn mailer(config: &Config) -> Result<Option<Arc<dyn Mailer>>, AppError> {
    let smtp = &config.smtp;
    // Without a mail server mails stay in the queue, where operators can read them.
    let (Some(host), Some(from)) = (smtp.server_name(), &config.mail.from) else {
        return Ok(None);
    };
    let ca = smtp.ca.as_ref().map(|path| {
        fs::read(path).map_err(|error| AppError::File {
            path: path.clone(),
            error,
        })
    });
    let reveal = |secret: &Option<Secret>| secret.as_ref().map(|s| s.reveal().to_owned());
    let oauth = &config.smtp_oauth2;
    // The configuration is checked for one without the other.
    let login = match (smtp.username.clone(), &smtp.password, &oauth.token_url) {
        (Some(user), _, Some(url)) => Some(SmtpLogin::OAuth(
            user,
            OAuthSettings {
                token_url: url.clone(),
                client_id: oauth.client_id.clone().unwrap_or_default(),
                client_secret: reveal(&oauth.client_secret),
                refresh_token: reveal(&oauth.refresh_token),
                scope: oauth.scope.clone(),
                keys: key_files::directory(&config.server.data_dir),
            },
        )),
        (Some(user), Some(password), None) => {
            Some(SmtpLogin::Password(user, password.reveal().to_owned()))
        }
        _ => None,
    };
    let public = config.server.public_url.as_deref();
    let public = public.and_then(|url| url.parse::<http::Uri>().ok());
    let mailer = SmtpMailer::new(SmtpSettings {
        host,
        port: smtp.port(),
        security: smtp.security(),
        ca: ca.transpose()?,
        hello: smtp.hello.clone(),
        service: public.and_then(|url| url.host().map(str::to_owned)),
        login,
        from_name: from.name.clone(),
        from: from.email.clone(),
        timeout: smtp.timeout,
    });
    Ok(Some(Arc::new(mailer.map_err(AppError::setting)?)))
}

pub(super) fn check(config: &Config) -> Vec<AppError> {
    let templates = config
        .mail
        .templates
        .as_deref()
        .map_or(Ok(()), |directory| {
            mail::check_templates(directory).map_err(|error| {
                let error = mail::MailError::Template(error);
                AppError::setting(error)
            })
        });
    // All are checked, so that one run reports every mistake.
    [
        messages(config).map(|_| ()),
        mailer(config).map(|_| ()),
        templates,
        brand(config).map(|_| ()),
        licenses(config).map(|_| ()),
        geoip(config).map(|_| ()),
        sink(config).map(|_| ()),
        epg_sources(config).map(|_| ()),
        entitlement(config).map(|_| ()),
        tls(config).map(|_| ()),
        super::etcd_tls(&config.fleet).map(|_| ()),
    ]
    .into_iter()
    .filter_map(Result::err)
    .collect()
}

pub(super) fn catalog(config: &Config) -> catalog::CatalogSettings {
    catalog::CatalogSettings {
        zone: config.schedule.zone,
    }
}

pub(super) fn schedule(config: &Config) -> schedule::query::ScheduleSettings {
    schedule::query::ScheduleSettings {
        day_start: config.schedule.day_start,
        pad_before: i64::from(config.schedule.padding_before),
        pad_after: i64::from(config.schedule.padding_after),
    }
}

pub(super) fn epg_sources(config: &Config) -> Result<epg_sources::EpgSettings, AppError> {
    let mut ratings = Ratings::built_in();
    if let Some(path) = &config.epg.ratings {
        let text = fs::read_to_string(path).map_err(|error| AppError::File {
            path: path.clone(),
            error,
        })?;
        let wrong = |why| AppError::Setting(format!("`epg.ratings`: {}: {why}", path.display()));
        ratings.add(&text).map_err(wrong)?;
    }
    Ok(epg_sources::EpgSettings {
        sources: config.epg.sources.clone(),
        ratings: Arc::new(ratings),
        retention_days: config.schedule.retention_days,
        spool: config.server.data_dir.clone(),
    })
}

pub(super) fn entitlement(config: &Config) -> Result<entitlement::EntitlementSettings, AppError> {
    let given = &config.parental;
    let text = |time: NaiveTime| time.format("%H:%M").to_string();
    let night = catalog::Hours::parse(&text(given.from), &text(given.to));
    Ok(entitlement::EntitlementSettings {
        rule: given.rule,
        night: night.map_err(AppError::setting)?,
        unrated: given.unrated,
        profile_country: config.geo.profile_fallback,
    })
}

pub(super) fn playback(config: &Config) -> playback::PlaybackSettings {
    let given = &config.playback;
    playback::PlaybackSettings {
        streams_total: given.streams_total,
        streams_per_asset: given.streams_per_asset,
        devices: usize::try_from(given.devices).unwrap_or(usize::MAX),
        when_full: given.when_full,
        clearkey: given.clearkey,
        license_servers: license_systems(config),
        beats: playback::BeatRate {
            per_second: config.limits.heartbeats_per_second,
            burst: config.limits.heartbeat_burst,
        },
        ..playback::PlaybackSettings::default()
    }
}

pub fn license_systems(config: &Config) -> Vec<Drm> {
    let servers = [
        (Drm::Widevine, &config.widevine),
        (Drm::Playready, &config.playready),
        (Drm::Fairplay, &config.fairplay),
    ];
    let configured = servers
        .into_iter()
        .filter(|(_, server)| server.url.is_some());
    configured.map(|(drm, _)| drm).collect()
}

pub(super) fn licenses(config: &Config) -> Result<LicenseServers, AppError> {
    let fairplay_certificate = match &config.fairplay_extra.certificate {
        Some(path) => Some(fs::read(path).map_err(|error| AppError::File {
            path: path.clone(),
            error,
        })?),
        None => None,
    };
    Ok(LicenseServers {
        widevine: license_server(Drm::Widevine, &config.widevine, None)?,
        playready: license_server(Drm::Playready, &config.playready, None)?,
        fairplay: license_server(Drm::Fairplay, &config.fairplay, config.fairplay_extra.body)?,
        fairplay_certificate: fairplay_certificate.map(Into::into),
    })
}

pub(super) fn geoip(config: &Config) -> Result<Option<Arc<GeoIp>>, AppError> {
    let Some(path) = &config.geo.database else {
        return Ok(None);
    };
    let geoip = GeoIp::open(path).map_err(|error| {
        AppError::Setting(format!("`geo.database`: {}: {error}", path.display()))
    })?;
    Ok(Some(Arc::new(geoip)))
}

pub fn tls(config: &Config) -> Result<Option<Arc<Tls>>, AppError> {
    let given = &config.tls;
    let (false, Some(certificate), Some(key)) = (given.listen.is_empty(), &given.cert, &given.key)
    else {
        return Ok(None);
    };
    let tls = Tls::open(certificate, key)
        .map_err(|error| AppError::Setting(format!("`tls.cert`, `tls.key`: {error}")))?;
    Ok(Some(Arc::new(tls)))
}

fn license_server(
    drm: Drm,
    given: &playgate_config::LicenseServerConfig,
    spc: Option<license_server::SpcForm>,
) -> Result<Option<Arc<dyn license_server::LicenseServer>>, AppError> {
    let Some(url) = &given.url else {
        return Ok(None);
    };
    let settings = LicenseServerSettings {
        url: url.clone(),
        authorization: given.authorization.as_ref().map(|s| s.reveal().to_owned()),
        style: given.style,
        message: license_server::MessageSettings {
            header: given.custom_data_header.clone(),
            merchant: given.merchant.clone(),
            key_id: given.message_key_id.clone(),
            key: given.message_key.as_ref().map(|s| s.reveal().to_owned()),
            access_key: given.access_key.as_ref().map(|s| s.reveal().to_owned()),
        },
        drm,
        spc,
        timeout: given.timeout,
    };
    let server = HttpLicenseServer::new(&settings)
        .map_err(|error| AppError::Setting(format!("`license.{}`: {error}", drm.as_str())))?;
    Ok(Some(Arc::new(server)))
}

pub(super) fn telemetry(config: &Config, sync: bool) -> telemetry::TelemetrySettings {
    telemetry::TelemetrySettings {
        directory: config.server.data_dir.join("telemetry"),
        retention_days: config.telemetry.retention_days,
        budgets: telemetry::Budgets {
            user_per_day: config.telemetry.user_bytes_per_day.0,
            partner_per_day: config.telemetry.partner_bytes_per_day.map(|size| size.0),
            total: config.telemetry.max_bytes.0,
        },
        sync,
        exists: accounts::exists,
    }
}

pub(super) fn journal(config: &Config, sync: bool) -> journal::JournalSettings {
    journal::JournalSettings {
        directory: config.server.data_dir.join("journal"),
        keep: i64::try_from(config.journal.keep.as_secs()).unwrap_or(i64::MAX),
        max_bytes: config.journal.max_bytes.0,
        sync,
    }
}

pub(super) fn sink(config: &Config) -> Result<Option<HttpSink>, AppError> {
    let given = &config.telemetry_forward;
    let Some(url) = &given.url else {
        return Ok(None);
    };
    let authorization = given.authorization.as_ref().map(Secret::reveal);
    let sink = HttpSink::new(url, authorization)
        .map_err(|error| AppError::Setting(format!("`telemetry.forward.url` {error}")))?;
    Ok(Some(sink))
}

pub(super) fn forwarding(config: &Config) -> telemetry::ForwardSettings {
    let given = &config.telemetry_forward;
    telemetry::ForwardSettings {
        batch: usize::try_from(given.batch).unwrap_or(usize::MAX),
        interval: i64::try_from(given.interval.as_secs()).unwrap_or(i64::MAX),
    }
}

pub fn backups(config: &Config) -> backups::BackupSettings {
    let data = &config.server.data_dir;
    backups::BackupSettings {
        data: data.clone(),
        directory: config.backup.dir.clone(),
        keep: usize::try_from(config.backup.keep).unwrap_or(usize::MAX),
        at: config.backup.at,
        zone: config.schedule.zone,
        key: key_files::fingerprint(data, key_files::CONTENT),
    }
}

pub(super) fn signing_key(secret: &Secret) -> [u8; 32] {
    let mut key = [0; 32];
    // Operators give a text of 32 characters or more; the key has a fixed length.
    key.copy_from_slice(digest::digest(&digest::SHA256, secret.reveal().as_bytes()).as_ref());
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_config::{Inputs, load};

    fn config(flags: Vec<(&'static str, &'static str, String)>) -> Config {
        let inputs = Inputs {
            demo: true,
            flags,
            ..Inputs::default()
        };
        load(&inputs)
            .map(|loaded| loaded.config)
            .unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn the_default_public_address_is_reachable() {
        let given = config(vec![("public_url", "-", "https://tv.example/".to_owned())]);
        assert_eq!(public_url(&given, None), "https://tv.example");
        let none = config(Vec::new());
        assert_eq!(public_url(&none, None), "http://127.0.0.1:8080");
        let at = |address: &str| public_url(&none, Some(address.parse().unwrap()));
        assert_eq!(at("0.0.0.0:81"), "http://127.0.0.1:81");
        assert_eq!(at("[::]:81"), "http://[::1]:81");
        assert_eq!(at("192.0.2.1:81"), "http://192.0.2.1:81");
        let secure = [
            ("listen", ""),
            ("tls.listen", "[::1]:8443"),
            ("tls.cert", "a.pem"),
            ("tls.key", "b.pem"),
        ];
        let secure = config(
            secure
                .map(|(key, value)| (key, "-", value.to_owned()))
                .into(),
        );
        assert_eq!(public_url(&secure, None), "https://[::1]:8443");
        // A command that opens the service itself has no bound listener, and mails of it have this address.
        let any = config(vec![("listen", "-", "0.0.0.0:8080".to_owned())]);
        assert_eq!(public_url(&any, None), "http://127.0.0.1:8080");
    }

    #[test]
    fn an_operator_adds_rating_systems() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ratings.toml");
        let with = |table: &str| {
            fs::write(&path, table).unwrap();
            let flag = ("epg.ratings", "-", path.to_str().unwrap().to_owned());
            epg_sources(&config(vec![flag]))
        };
        let custom_table = "[[system]]\nnames = [\"House\"]\nvalues = { \"red\" = 18 }";
        let ratings = with(custom_table).unwrap().ratings;
        assert_eq!(ratings.age("house", "Red"), Some(18));
        assert_eq!(ratings.age("FSK", "12"), Some(12));
        let why = with("[[system]]\nname = 1").unwrap_err().to_string();
        assert!(
            why.contains("epg.ratings") && why.contains("line 2"),
            "{why}"
        );
    }

    #[test]
    fn an_http_date_has_the_form_of_the_standard() {
        let date = NaiveDate::from_ymd_opt(2026, 8, 2).unwrap();
        assert_eq!(http_date(date), "Sun, 02 Aug 2026 00:00:00 GMT");
    }
}
