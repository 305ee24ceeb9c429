//! Errors of each kind, precedence of sources, secrets, and the packaged file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use chrono::NaiveTime;

use super::http::Environment;
use super::*;
use playgate_ports::SmtpSecurity;

struct Case {
    directory: tempfile::TempDir,
    inputs: Inputs,
}

impl Case {
    /// A case with this file, readable only by its owner.
    fn of(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("playgate.toml");
        write_with_mode(&path, text, 0o600);
        let inputs = Inputs {
            file: Some(path),
            ..Inputs::default()
        };
        Self { directory, inputs }
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        let pair = (OsString::from(name), OsString::from(value));
        self.inputs.environment.push(pair);
        self
    }

    fn flag(mut self, key: &'static str, flag: &'static str, value: &str) -> Self {
        self.inputs.flags.push((key, flag, value.to_owned()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn load(&self) -> Result<Loaded, ConfigProblems> {
        load(&self.inputs)
    }

    fn good(&self) -> Loaded {
        match self.load() {
            Ok(loaded) => loaded,
            Err(problems) => panic!("{problems}"),
        }
    }

    /// The problems, without the directory.
    fn problems(&self) -> Vec<String> {
        match self.load() {
            Ok(_) => Vec::new(),
            Err(problems) => {
                let prefix = format!("{}/", self.directory.path().display());
                let plain = |problem: &ConfigProblem| problem.to_string().replace(&prefix, "");
                problems.0.iter().map(plain).collect()
            }
        }
    }
}

fn write_with_mode(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn values(loaded: &Loaded) -> BTreeMap<String, Option<String>> {
    let pair = |effective: &Effective| (effective.key.clone(), effective.value.clone());
    loaded.effective.iter().map(pair).collect()
}

fn in_force<'a>(loaded: &'a Loaded, key: &str) -> &'a Effective {
    let mut keys = loaded.effective.iter();
    keys.find(|effective| effective.key == key).unwrap()
}

#[test]
fn an_empty_configuration_is_valid() {
    let loaded = Case::of("").good();
    let Config {
        server,
        ops,
        http,
        limits,
        ..
    } = &loaded.config;
    assert_eq!(
        server.listen,
        [ListenAddress::parse("127.0.0.1:8080").unwrap()]
    );
    assert_eq!(server.data_dir, Path::new("./playgate-data"));
    assert_eq!(server.environment, Environment::Production);
    assert_eq!(ops.listen.to_string(), "127.0.0.1:9080");
    assert_eq!(http.header_prefix, "Service-");
    assert_eq!((limits.connections, limits.pin_wrong), (10_000, 5));
    assert_eq!(
        loaded.config.origin.media_dir,
        Path::new("./playgate-data/media")
    );
    assert!(loaded.warnings.is_empty());
    assert!(!loaded.unsafe_no_sync);
    assert_eq!(loaded.effective.len(), keys().count());
    let defaults = |effective: &Effective| effective.origin == Provenance::Default;
    assert!(loaded.effective.iter().all(defaults));
}

#[test]
fn members_compare_settings_by_value_and_show_no_secret() {
    let compare = |text: &str, key: u8| compared(&Case::of(text).good().effective, &[key; 32]);
    let first = compare(
        "playback.devices = 5\nfleet.lease = '2s'\nlisten = ['10.0.0.1:80']\n\
         smtp.password = 'a-SECRET'\nsmtp.username = 'u'\nsmtp.host = 'h'\nmail.from = 'a@b.example'\n\
         [[epg.sources]]\nname = 'a'\nurl = 'https://x.example/g.xml?key=SECRET'\n",
        1,
    );
    // Another order, other places in the file, and without a default.
    let equal = compare(
        "fleet.lease = '2s'\nsmtp.password = 'a-SECRET'\nsmtp.username = 'u'\nsmtp.host = 'h'\nmail.from = 'a@b.example'\n\n\
         [[epg.sources]]\nurl = 'https://x.example/g.xml?key=SECRET'\nname = 'a'\n",
        1,
    );
    assert_eq!(first, equal);
    assert!(first.values().all(|value| !value.contains("SECRET")));
    assert!(!first.contains_key("listen"));
    let other = compare(
        "accounts.password_min = 12\nsmtp.password = 'other'\nsmtp.username = 'u'\nsmtp.host = 'h'\nmail.from = 'a@b.example'\n\
         [[epg.sources]]\nname = 'a'\nurl = 'https://x.example/g.xml?key=other'\n",
        1,
    );
    let differing = |a: &BTreeMap<String, String>, b: &BTreeMap<String, String>| {
        let keys = a.iter().filter(|(key, value)| b.get(*key) != Some(*value));
        keys.map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    let keys = ["accounts.password_min", "epg.sources", "smtp.password"];
    assert_eq!(differing(&first, &other), keys);
    // Only members of one fleet can compare secrets.
    let elsewhere = compare(
        "smtp.password = 'a-SECRET'\nsmtp.username = 'u'\nsmtp.host = 'h'\nmail.from = 'a@b.example'\n",
        2,
    );
    let here = compare(
        "smtp.password = 'a-SECRET'\nsmtp.username = 'u'\nsmtp.host = 'h'\nmail.from = 'a@b.example'\n",
        1,
    );
    assert_eq!(differing(&here, &elsewhere), ["smtp.password"]);
}

#[test]
fn all_errors_are_reported_at_once_with_their_places() {
    let problems = Case::of(
        "listen = [\"127.0.0.1\"]\n\
         [playback]\n\
         stream_total = 4\n\
         devices = \"five\"\n\
         [schedule]\n\
         zone = \"Europe/Stockolm\"\n",
    )
    .variable("PLAYGATE_LAB_CLOCK", "true")
    .problems();
    assert_eq!(
        problems,
        [
            "playgate.toml:1: `listen` `127.0.0.1` is not an address: use `host:port`, `unix:PATH` or \
             `socket:NAME`",
            "playgate.toml:3: unknown key `playback.stream_total`; did you mean \
             `playback.streams_total`?",
            "playgate.toml:4: `playback.devices` must be a whole number from 1 to 1000",
            "playgate.toml:6: `schedule.zone` `Europe/Stockolm` is not a time zone; use a name such as \
             Europe/Stockholm",
            "variable PLAYGATE_LAB_CLOCK: `lab.clock` is not allowed in `production`: tokens could \
             be extended at will",
        ]
    );
}

#[test]
fn every_kind_of_error_is_found() {
    each_is_said(&[
        ("data_dir = ''", "must be a path"),
        ("data_dir = 3", "must be a string"),
        ("public_url = 'tv.example'", "http://"),
        ("public_url = 'ftp://tv.example'", "http://"),
        ("public_url = 'https://a:b@tv.example'", "user or password"),
        ("public_url = 'https://tv.example/?a=b'", "query"),
        ("environment = 'prod'", "production, staging"),
        ("listen = []", "must not be empty"),
        ("listen = ['[::1]:1', '[::1]:1']", "twice"),
        ("listen = ['127.0.0.1:9080']", "must not be public"),
        ("ops.listen = '::1:80'", "is not an address"),
        ("http.header_prefix = 'Service'", "end with -"),
        ("http.header_prefix = 'Å-'", "begin with a letter"),
        ("http.trusted_proxies = ['10.0.0.0/33']", "10.0.0.0/8"),
        (
            "http.cors_origins = ['https://tv.example/']",
            "is not an origin",
        ),
        ("http.cors_origins = ['*', 'https://a.b']", "any origin"),
        ("http.language = 'e'", "language tag"),
        ("http.sunset = '2027-02-30'", "date"),
        ("limits.connections = 0", "from 1 to"),
        ("limits.pin_wrong = 5.0", "whole number"),
        ("accounts.password_min = 7", "from 8 to 128"),
        ("accounts.reset_url = 'https://tv.example/reset'", "{token}"),
        ("accounts.reset_url = 'https://a.b/{tokn}{token}'", "{tokn}"),
        ("accounts.reset_url = 'reset?{token}'", "must be an address"),
        ("parental.rule = 'ages'", "age, watershed"),
        ("parental.from = '24:00'", "time of the day"),
        ("parental.from = '22:30:10'", "time of the day"),
        ("parental.to = '22:00'", "equals"),
        ("playback.clearkey = 'true'", "true or false"),
        ("license.widevine.timeout = '1 minute'", "duration"),
        ("license.widevine.timeout = '1m'", "from 1s to 25s"),
        ("license.widevine.certificate = 'x'", "unknown key"),
        ("origin.signing_key = 'too short'", "at least 32"),
        ("epg.sources = ['https://a.b']", "must be a table"),
        ("epg.sources = [{ name = 'a' }]", "`url` is missing"),
        (
            "epg.sources = [{ name = 'a', url = '/a', nam = 'b' }]",
            "did you mean `name`",
        ),
        (
            "epg.sources = [{ name = 'a', url = 'x' }]",
            "source `a`: `url` must be",
        ),
        ("cdn.networks = ['https://a.b']", "must be a table"),
        ("cdn.network = []", "did you mean `cdn.networks`"),
    ]);
}

#[test]
fn dates_and_times_may_be_written_without_quotes() {
    let loaded = Case::of("parental.from = 21:30:00\nhttp.sunset = 2027-12-31").good();
    assert_eq!(loaded.config.parental.from.to_string(), "21:30:00");
    let sunset = loaded.config.http.sunset.map(|date| date.to_string());
    assert_eq!(sunset.as_deref(), Some("2027-12-31"));
}

#[test]
fn conflicting_and_unknown_keys_are_found() {
    each_is_said(&[
        ("smtp.host = 'mail.example'", "needs `mail.from`"),
        ("smtp.username = 'u'", "needs `smtp.password`"),
        ("smtp.password = 'changeme'", "placeholder"),
        ("smtp.password = 'a good one'", "needs `smtp.username`"),
        ("mail.from = 'nobody'", "must be an address"),
        ("mail.from = 'TV <a@b.example> c'", "must be an address"),
        (
            "smtp = { host = 'm.example', security = 'none', username = 'u', password = 'p p' }\n\
             mail.from = 'a@b.example'",
            "unencrypted",
        ),
        (
            "smtp = { security = 'none', ca = 'ca.pem' }",
            "has no effect",
        ),
        ("tls.cert = 'a.pem'", "needs `tls.key`"),
        ("tls.key = 'a.pem'", "needs `tls.cert`"),
        ("tls.listen = ['[::]:443']", "needs `tls.cert`"),
        ("fleet.client_cert = 'a.pem'", "need each other"),
        ("fleet.client_key = 'a.pem'", "need each other"),
        (
            "fleet.endpoints = ['https://a.example', 'http://b.example']\nfleet.client_cert = 'a'\nfleet.client_key = 'b'",
            "one is http",
        ),
        (
            "tls = { cert = 'a.pem', key = 'b.pem' }",
            "needs `tls.listen`",
        ),
        (
            "tls = { cert = 'a.pem', key = 'b.pem', listen = ['127.0.0.1:8080'] }",
            "share an address",
        ),
        (
            "tls = { cert = 'a.pem', key = 'b.pem', listen = ['127.0.0.1:9080'] }",
            "operations must not be public",
        ),
        ("geo.header = 'X Country'", "not a header name"),
        ("geo.header = 'CF-IPCountry'", "none are set"),
        ("log.level = 'verbose'", "must be one of"),
        ("lab.clock = true", "not allowed in `production`"),
        ("playback = 3", "is a section"),
        ("streams_total = 3", "did you mean `playback.streams_total`"),
        ("[smtp]\nuser = \"tv\"", "did you mean `smtp.username`"),
        ("[smtp]\npass = \"x\"", "did you mean `smtp.password`"),
        ("[playbak]\ndevices = 3", "did you mean `playback.devices`"),
        ("[nonsense]", "unknown key `nonsense`"),
        ("listen = ", "playgate.toml:1: "),
    ]);
}

/// Each of these files has exactly one error, with this text.
fn each_is_said(cases: &[(&str, &str)]) {
    for (line, said) in cases {
        let problems = Case::of(line).problems();
        assert_eq!(problems.len(), 1, "{line}: {problems:?}");
        assert!(problems[0].contains(said), "{line}: {problems:?}");
        assert!(problems[0].starts_with("playgate.toml:"), "{problems:?}");
    }
}

#[test]
fn a_syntax_error_does_not_hide_other_errors() {
    let problems = Case::of("a = = 1\n[limits]\nconnections = -1\n").problems();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("playgate.toml:1: "));
    assert!(problems[1].starts_with("playgate.toml:3: `limits.connections`"));
}

#[test]
fn flags_override_variables_override_the_file() {
    let case = Case::of("data_dir = '/a'\n[playback]\ndevices = 6\nstreams_total = 7\n")
        .variable("PLAYGATE_DATA_DIR", "/b")
        .variable("PLAYGATE_PLAYBACK_DEVICES", "8")
        .variable("PLAYGATE_HTTP_TRUSTED_PROXIES", "10.0.0.0/8, ::1")
        .variable("PLAYGATE_LICENSE_WIDEVINE_URL", "https://license.example")
        .variable("PATH", "/bin")
        .variable("PLAYGATE_PORT_80_TCP", "tcp://10.0.0.1:80")
        .flag("data_dir", "--data-dir", "/c")
        .flag("listen", "--listen", "[::1]:0");
    let loaded = case.good();
    assert_eq!(loaded.config.server.data_dir, Path::new("/c"));
    assert_eq!(loaded.config.origin.media_dir, Path::new("/c/media"));
    assert_eq!(loaded.config.server.listen[0].to_string(), "[::1]:0");
    assert_eq!(loaded.config.playback.devices, 8);
    assert_eq!(loaded.config.playback.streams_total, 7);
    let proxies = in_force(&loaded, "http.trusted_proxies");
    assert_eq!(proxies.value.as_deref(), Some("10.0.0.0/8, ::1/128"));
    let origin = |key| in_force(&loaded, key).origin.to_string();
    assert_eq!(origin("data_dir"), "flag --data-dir");
    assert_eq!(
        origin("playback.devices"),
        "variable PLAYGATE_PLAYBACK_DEVICES"
    );
    let file = case.path("playgate.toml");
    assert_eq!(
        origin("playback.streams_total"),
        format!("{}:4", file.display())
    );
    assert_eq!(origin("playback.when_full"), "default");
}

#[test]
fn an_unknown_variable_is_an_error() {
    let problems = Case::of("")
        .variable("PLAYGATE_PLAYBACK_STREAM_TOTAL", "3")
        .variable("PLAYGATE_LISTEN", "")
        .variable("PLAYGATE_UNSAFE_NO_SYNC", "yes")
        .problems();
    assert_eq!(
        problems,
        [
            "variable PLAYGATE_LISTEN: `listen` must not be empty unless `tls.listen` is set",
            "variable PLAYGATE_PLAYBACK_STREAM_TOTAL: unknown variable; did you mean \
             PLAYGATE_PLAYBACK_STREAMS_TOTAL?",
            "variable PLAYGATE_UNSAFE_NO_SYNC: must be 1, or not set at all",
        ]
    );
}

#[test]
fn an_unrelated_variable_is_ignored_with_a_warning() {
    let with = |name| Case::of("").variable(name, "x");
    for mistyped in ["PLAYGATE_LISTN", "PLAYGATE_STREAMS_TOTAL", "PLAYGATE_LOG_X"] {
        assert_eq!(with(mistyped).problems().len(), 1, "{mistyped}");
    }
    for other in ["PLAYGATE_BIN", "PLAYGATE_SHARED"] {
        let warnings = with(other).good().warnings;
        assert!(warnings[0].contains(other), "{warnings:?}");
    }
    assert!(with("PLAYGATE_SERVICE_HOST").good().warnings.is_empty());
}

#[test]
fn a_named_file_must_exist() {
    let mut case = Case::of("");
    case.inputs.file = Some(case.path("other.toml"));
    let problems = case.problems();
    assert!(
        problems[0].starts_with("cannot read other.toml"),
        "{problems:?}"
    );
}

#[test]
fn a_secret_comes_from_one_place_and_is_masked() {
    let text = "signing_key = '0123456789abcdef0123456789abcdef'";
    let loaded = Case::of(&format!("[origin]\n{text}")).good();
    let key = loaded.config.origin.signing_key.as_ref().unwrap();
    assert_eq!(key.reveal(), "0123456789abcdef0123456789abcdef");
    let shown = in_force(&loaded, "origin.signing_key");
    assert_eq!(shown.value.as_deref(), Some("********"));

    let case = Case::of("");
    let file = case.path("key").display().to_string();
    let case = case.variable("PLAYGATE_ORIGIN_SIGNING_KEY_FILE", &file);
    assert!(case.problems()[0].contains("cannot read key"));
    write_with_mode(&case.path("key"), &format!("{}\n", "k".repeat(40)), 0o640);
    let loaded = case.good();
    let key = loaded.config.origin.signing_key.as_ref().unwrap();
    assert_eq!(key.reveal(), "k".repeat(40));

    let twice = case.variable("PLAYGATE_ORIGIN_SIGNING_KEY", &"x".repeat(32));
    let problems = twice.problems();
    assert_eq!(
        problems,
        [
            "variable PLAYGATE_ORIGIN_SIGNING_KEY_FILE: `origin.signing_key` is set twice, here and by variable \
          PLAYGATE_ORIGIN_SIGNING_KEY: remove one"
        ]
    );
}

#[test]
fn a_systemd_credential_is_a_secret_of_its_name() {
    let case = Case::of("smtp.username = 'tv'");
    write_with_mode(&case.path("smtp.password"), "of the credential\n", 0o444);
    let directory = case.directory.path().display().to_string();
    let case = case.variable("CREDENTIALS_DIRECTORY", &directory);
    let loaded = case.good();
    let password = loaded.config.smtp.password.as_ref().unwrap();
    assert_eq!(password.reveal(), "of the credential");
    let origin = in_force(&loaded, "smtp.password").origin.to_string();
    assert_eq!(origin, "credential smtp.password");
    let twice = case.variable("PLAYGATE_SMTP_PASSWORD", "another");
    assert!(twice.problems()[0].contains("set twice"));
}

#[test]
fn a_world_readable_secret_is_rejected() {
    let case = Case::of("smtp.password = 'hidden from nobody'");
    write_with_mode(
        &case.path("playgate.toml"),
        "smtp.password = 'hidden from nobody'",
        0o644,
    );
    let problems = case.problems();
    assert!(problems[0].contains("readable by all"), "{problems:?}");
    assert!(!problems[0].contains("hidden"), "{problems:?}");

    let case = Case::of("");
    write_with_mode(&case.path("password"), "hidden from nobody", 0o644);
    let file = case.path("password").display().to_string();
    let problems = case
        .variable("PLAYGATE_SMTP_PASSWORD_FILE", &file)
        .problems();
    assert!(problems[0].contains("readable by all"), "{problems:?}");
    // A file without secrets may be world-readable.
    let case = Case::of("");
    write_with_mode(&case.path("playgate.toml"), "log.access = true", 0o644);
    case.good();
}

#[test]
fn a_movable_clock_is_not_allowed_in_production() {
    let staging = Case::of("environment = 'staging'\nlab.clock = true").good();
    assert!(staging.config.lab.clock);
    let mut demo = Case::of("");
    demo.inputs.demo = true;
    let loaded = demo.good();
    assert!(loaded.config.lab.clock && loaded.config.playback.clearkey);
    assert_eq!(
        in_force(&loaded, "lab.clock").value.as_deref(),
        Some("true")
    );
    let mut still = Case::of("lab.clock = false");
    still.inputs.demo = true;
    assert!(!still.good().config.lab.clock);
    // An invalid value is reported once; its default is not checked.
    let problems = Case::of("environment = 'lab'\nlab.clock = true").problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn the_nightly_backup_can_be_switched_off() {
    let at = |text: &str| Case::of(text).good().config.backup.at;
    assert_eq!(at(""), NaiveTime::from_hms_opt(3, 30, 0));
    assert_eq!(at("backup.at = '04:00'"), NaiveTime::from_hms_opt(4, 0, 0));
    assert_eq!(at("backup.at = 'off'"), None);
    assert_eq!(at("backup.at = ''"), None);
    let problems = Case::of("backup.at = 'noon'").problems();
    assert!(problems[0].contains("backup.at"), "{problems:?}");
}

#[test]
fn keys_without_effect_cause_warnings() {
    let forward = "telemetry.forward.batch = 5\ntelemetry.forward.authorization = 'Bearer 12345'\n";
    let loaded = Case::of(forward)
        .variable("PLAYGATE_UNSAFE_NO_SYNC", "1")
        .good();
    assert!(loaded.unsafe_no_sync);
    assert_eq!(loaded.warnings.len(), 3, "{:?}", loaded.warnings);
    assert!(loaded.warnings[0].contains("files are not synced"));
    assert!(loaded.warnings[1].starts_with("`telemetry.forward.authorization` ("));
    assert!(loaded.warnings[2].starts_with("`telemetry.forward.batch` ("));
    let whole = format!("{forward}telemetry.forward.url = 'https://sink.example/'\n");
    assert!(Case::of(&whole).good().warnings.is_empty());
}

#[test]
fn mistakes_that_earlier_versions_accepted_are_warnings() {
    let license = |drm: &str, url: &str| {
        Case::of(&format!(
            "license.{drm}.url = '{url}'\nlicense.{drm}.authorization = 'Bearer 12345'\n"
        ))
    };
    for drm in ["widevine", "playready", "fairplay"] {
        let warnings = license(drm, "http://192.0.2.1/license").good().warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("unencrypted"), "{warnings:?}");
        for url in ["https://license.example/", "http://127.0.0.1:8080/"] {
            assert!(license(drm, url).good().warnings.is_empty(), "{url}");
        }
    }
    let etcd = |url: &str| {
        Case::of(&format!(
            "fleet.endpoints = ['http://127.0.0.1:2379', '{url}']\nfleet.username = 'a'\nfleet.password = 'b'\n"
        ))
    };
    let warnings = etcd("http://192.0.2.1:2379").good().warnings;
    assert!(warnings[0].contains("unencrypted"), "{warnings:?}");
    let warnings = etcd("https://192.0.2.1:2379").good().warnings;
    assert!(warnings.is_empty(), "{warnings:?}");
    let mail = |host: &str| {
        Case::of(&format!(
            "public_url = 'https://tv.example'\nsmtp.host = '{host}'\nmail.from = 'a@b.example'"
        ))
    };
    for host in ["127.0.0.1", "mail.example", "2001:db8::1"] {
        assert!(mail(host).good().warnings.is_empty(), "{host}");
    }
}

#[test]
fn mail_settings_of_other_programs_are_understood_or_told() {
    let case = |mail: &str| {
        let common = "public_url = 'https://tv.example'\nmail.from = 'a@b.example'\n";
        Case::of(&format!("{common}{mail}")).good()
    };
    let plain = "smtp.host = 'mail.example'";
    for (mail, (port, security)) in [
        (plain.to_owned(), (587, SmtpSecurity::StartTls)),
        (
            "smtp.host = 'mail.example:2525'".to_owned(),
            (2_525, SmtpSecurity::StartTls),
        ),
        (
            "smtp.host = 'ssl://mail.example:465'".to_owned(),
            (465, SmtpSecurity::Tls),
        ),
        (
            "smtp.host = 'smtps://mail.example'".to_owned(),
            (465, SmtpSecurity::Tls),
        ),
        (
            format!("{plain}\nsmtp.security = 'STARTTLS'"),
            (587, SmtpSecurity::StartTls),
        ),
        (
            format!("{plain}\nsmtp.security = ' SSL/TLS '"),
            (465, SmtpSecurity::Tls),
        ),
        (
            format!("{plain}\nsmtp.security = 'SMTPS'"),
            (465, SmtpSecurity::Tls),
        ),
        (
            format!("{plain}\nsmtp.security = 'off'"),
            (25, SmtpSecurity::None),
        ),
    ] {
        let loaded = case(&mail);
        let smtp = &loaded.config.smtp;
        assert_eq!((smtp.port(), smtp.security()), (port, security), "{mail}");
        assert_eq!(smtp.server_name().as_deref(), Some("mail.example"));
        assert!(loaded.warnings.is_empty(), "{mail}: {:?}", loaded.warnings);
    }
    for (mail, told) in [
        (
            "smtp.host = 'mail.example:2525'\nsmtp.port = 587",
            "another port",
        ),
        (
            "smtp.host = 'smtps://mail.example'\nsmtp.security = 'none'",
            "asks for TLS",
        ),
        (
            "smtp.host = 'mail.example'\nsmtp.port = 465",
            "`smtp.security = \"tls\"`",
        ),
        (
            "smtp.host = 'mail.example'\nsmtp.port = 587\nsmtp.security = 'tls'",
            "\"starttls\"`",
        ),
        ("smtp.host = 'tls://mail.example'", "two things"),
        ("smtp.host = 'https://mail.example'", "something else"),
        (
            "smtp.host = 'mail.example'\nsmtp.username = 'u'\nsmtp.password = 'abcd\u{a0}efgh'",
            "no-break space",
        ),
    ] {
        let warnings = case(mail).warnings;
        assert!(warnings[0].contains(told), "{mail}: {warnings:?}");
    }
    let user = "smtp.host = 'mail.example'\nsmtp.password = 'pass word'\nsmtp.username = ";
    for (written, name) in [
        ("'Playgate <tv@example.org>'", "tv@example.org"),
        ("' tv@example.org '", "tv@example.org"),
        ("'TV\\tv'", "TV\\tv"),
        ("'apikey'", "apikey"),
    ] {
        let loaded = case(&format!("{user}{written}"));
        assert_eq!(loaded.config.smtp.username.as_deref(), Some(name));
    }
}

#[test]
fn addresses_are_understood_as_they_are_pasted() {
    for written in [
        "<https://tv.example>",
        " https://tv.example/ ",
        "“https://tv.example”",
        "https://tv.example\u{200b}",
    ] {
        let loaded = Case::of(&format!("public_url = '{written}'")).good();
        let url = loaded.config.server.public_url.as_deref();
        assert_eq!(url, Some("https://tv.example"), "{written:?}");
    }
    // Names in other letters become what the DNS has.
    let idn = "public_url = 'https://Bücher.example:8443/tv'\nsmtp.hello = 'bücher.example'";
    let config = Case::of(idn).good().config;
    let url = config.server.public_url.as_deref();
    assert_eq!(url, Some("https://xn--bcher-kva.example:8443/tv"));
    assert_eq!(config.smtp.hello.as_deref(), Some("xn--bcher-kva.example"));
}

#[test]
fn links_that_lead_to_the_machine_itself_are_warned_of() {
    let smtp = "smtp.host = 'mail.example'\nmail.from = 'a@b.example'\n";
    let proxy = "http.trusted_proxies = ['127.0.0.1']\n";
    let warned = |text: &str| {
        let warnings = Case::of(text).good().warnings;
        warnings
            .iter()
            .any(|warning| warning.contains("links in mails"))
    };
    for bad in [
        smtp.to_owned(),
        proxy.to_owned(),
        format!("{smtp}public_url = 'http://localhost:8080'\n"),
        format!("{smtp}accounts.reset_url = 'http://127.0.0.1/reset?token={{token}}'\n"),
    ] {
        assert!(warned(&bad), "{bad}");
    }
    for good in [
        String::new(),
        format!("{smtp}public_url = 'https://tv.example/sub'\n"),
        format!("{smtp}accounts.reset_url = 'tvapp://reset/{{token}}'\n"),
    ] {
        assert!(!warned(&good), "{good}");
    }
}

#[test]
fn a_secret_is_not_sent_to_a_sink_unencrypted() {
    let with =
        |url: &str, more: &str| Case::of(&format!("telemetry.forward.url = '{url}'\n{more}"));
    let secret = "telemetry.forward.authorization = 'Bearer 12345'";
    for url in [
        "http://sink.example/",
        "http://192.0.2.1:8686/",
        "http://[2001:db8::1]/",
    ] {
        let problems = with(url, secret).problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("unencrypted"), "{problems:?}");
        with(url, "").good();
    }
    for url in [
        "https://sink.example/",
        "http://localhost:8686/",
        "http://127.0.0.1/",
        "http://[::1]:1/",
    ] {
        with(url, secret).good();
    }
}

#[test]
fn epg_source_has_all_its_members() {
    let loaded = Case::of(
        "[[epg.sources]]\n\
         name = 'main'\n\
         url = 'https://epg.example/guide.xml.gz'\n\
         interval = '6h'\n\
         zone = 'Europe/Stockholm'\n\
         languages = ['sv', 'en']\n\
         priority = 2\n\
         channels = { 'svt1.se' = 'svt1' }\n\
         [[epg.sources]]\n\
         name = 'second'\n\
         url = 'https://epg.example/second.xml'\n",
    )
    .good();
    let sources = &loaded.config.epg.sources;
    assert_eq!(sources[0].interval, 21_600);
    assert_eq!(
        sources[0].options.zone,
        playgate_types::Zone::stored("Europe/Stockholm")
    );
    assert_eq!(sources[0].options.languages, ["sv", "en"]);
    assert_eq!(sources[0].options.channels["svt1.se"], "svt1".into());
    assert_eq!(sources[1].interval, 3_600);
    let same = Case::of(
        "epg.sources = [{ name = 'a', url = 'http://a.b' }, { name = 'a', url = 'http://c.d' }]",
    );
    assert!(same.problems()[0].contains("source `a`: another table above has the same `name`"));
    let wrong = Case::of(
        "epg.sources = [{ nam = 'a' }, { name = 'b', url = 'http://b.c', zone = 'No/Where', interval = 'x' }]",
    )
    .problems()
    .join("; ");
    for part in [
        "`nam`",
        "`name` is missing",
        "`url` is missing",
        "`zone`",
        "`interval`",
    ] {
        assert!(wrong.contains(part), "{part} is not in {wrong}");
    }
}

/// A network with these members, and with a key `a` unless the members have `keys`.
fn network(name: &str, members: &str) -> String {
    let key = match members.contains("keys") {
        true => String::new(),
        false => format!("keys = [{{ id = 'a', key = '{}' }}]", "0f".repeat(32)),
    };
    format!("[[cdn.networks]]\nname = '{name}'\n{members}\n{key}\n")
}

#[test]
fn a_network_has_all_its_members_and_its_keys_are_secret() {
    let text = network(
        "main",
        "prefix = 'https://cdn.example/'\nscheme = 'secure-link'\nlifetime = '2h'",
    ) + &network(
        "other",
        "prefix = 'https://cdn.example/b'\nscheme = 'akamai'\nparameter = 'tok'",
    );
    let case = Case::of(&text);
    let loaded = case.good();
    let shown = in_force(&loaded, "cdn.networks").value.as_deref();
    let expected = "main (secure-link, https://cdn.example), other (akamai, https://cdn.example/b)";
    assert_eq!(shown, Some(expected));

    write_with_mode(&case.path("playgate.toml"), &text, 0o644);
    let problems = case.problems();
    assert!(problems[0].contains("readable by all"), "{problems:?}");
    assert!(!problems[0].contains("0f0f"), "{problems:?}");
    let files = text.replace("key = '", "key_file = '/absent/");
    let case = Case::of(&files);
    write_with_mode(&case.path("playgate.toml"), &files, 0o644);
    let problems = case.problems();
    assert!(problems[0].contains("cannot be used"), "{problems:?}");
    assert!(!problems[0].contains("readable by all"), "{problems:?}");

    let case = Case::of("");
    let key = case.path("cdn.key");
    let file = format!(
        "prefix = 'https://c.d'\nscheme = 'path-hmac'\nkeys = [{{ id = 'a', key_file = '{}' }}]",
        key.display()
    );
    let file = network("main", &file);
    write_with_mode(&case.path("playgate.toml"), &file, 0o644);
    write_with_mode(&key, &format!("{}\n", "k".repeat(32)), 0o640);
    assert_eq!(case.good().config.cdn.networks.len(), 1);
    write_with_mode(&key, &"k".repeat(32), 0o644);
    assert!(case.problems()[0].contains("readable by all"));
}

#[test]
fn the_documented_networks_are_valid() {
    let page = include_str!("../../docs/playback.md");
    let (_, rest) = page.split_once("```toml\n[[cdn.networks]]").unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    let case = Case::of("");
    let folder = format!("{}/", case.directory.path().display());
    let text = format!("[[cdn.networks]]{shown}").replace("/etc/playgate/", &folder);
    for (name, digit) in [("cdn-2026-a.key", "a"), ("cdn-2026-b.key", "b")] {
        write_with_mode(&case.path(name), &digit.repeat(64), 0o640);
    }
    write_with_mode(&case.path("playgate.toml"), &text, 0o644);
    assert_eq!(case.good().config.cdn.networks.len(), 1);
    let other = text
        .replace("secure-link", "akamai")
        .replace("# parameter", "parameter");
    write_with_mode(&case.path("playgate.toml"), &other, 0o644);
    assert_eq!(case.good().config.cdn.networks.len(), 1);
}

#[test]
fn all_errors_in_networks_are_reported_at_once() {
    let https = "prefix = 'https://cdn.example'\nscheme = ";
    let key = "0f".repeat(32);
    let text = [
        network("a", "prefix = 'cdn.example'\nscheme = 'hmac'\nlifetim = 3"),
        network(
            "b",
            &format!("{https}'path-hmac'\nparameter = 'x'\nlifetime = '1s'"),
        ),
        network("c", &format!("{https}'akamai'\nkeys = []")),
        network(
            "d",
            &format!(
                "{https}'akamai'\nkeys = [{{ id = 'x', key = 'not hexadecimal at all' }}, \
                 {{ id = 'a b', key = '{key}' }}]"
            ),
        ),
        network(
            "e",
            &format!(
                "{https}'path-hmac'\nkeys = [{{ id = 'x', key = '{key}', key_file = '/k' }}, \
                 {{ id = 'x', kee = 1 }}]"
            ),
        ),
        network("e", &format!("{https}'cloudfront'")),
    ]
    .concat();
    let problems = Case::of(&text).problems();
    for said in [
        "playgate.toml:5: `cdn.networks`: network `a`: `lifetim` is not known; did you mean `lifetime`?",
        "playgate.toml:3: `cdn.networks`: network `a`: `prefix` must be an address",
        "network `a`: `scheme` must be one of path-hmac, secure-link, akamai, cloudfront",
        "network `b`: `parameter` is allowed only with the scheme `akamai`",
        "network `b`: `lifetime` must be",
        "network `c`: `keys` must be one or two keys",
        "network `d`: keys `x`: `key` must have 32 to 128 hexadecimal",
        "keys `a b`: `id` must be",
        "network `e`: keys `x`: `key` is set twice",
        "keys `x`: `kee` is not known; did you mean `key`?",
        "keys `x`: `key` or `key_file` is required",
        "keys `x`: another table above has the same `id`",
        "network `e`: keys `a`: `key` must be a private key as PEM",
        "network `e`: another table above has the same `name`",
    ] {
        let is_said = problems.iter().any(|problem| problem.contains(said));
        assert!(is_said, "{said}: {problems:#?}");
    }
    assert!(!problems.concat().contains(&key), "{problems:?}");
    let missing = Case::of("cdn.networks = [{}]").problems();
    assert_eq!(missing.len(), 4, "{missing:?}");
    assert!(missing[0].ends_with("network: `prefix` is missing"));
    let same = network("a", &format!("{https}'path-hmac'"))
        + &network(
            "b",
            &format!("{https}'akamai'").replace("example'", "example/'"),
        );
    assert!(
        Case::of(&same).problems()[0].contains("`prefix` is also the prefix of another network")
    );
}

#[test]
fn the_query_of_an_address_is_masked_wherever_it_is_configured() {
    let text = "telemetry.forward.url = 'https://a.example/in?key=SECRET&x=&SECRET'\n\
        license.widevine.url = 'https://b.example/wv?SECRET'\n\
        accounts.reset_url = 'https://c.example/r?app=SECRET&token={token}&l={locale}#f'\n\
        [[epg.sources]]\nname = 'a'\nurl = 'https://d.example/g.xml?key=SECRET'\n";
    let loaded = Case::of(text).good();
    for shown in loaded
        .effective
        .iter()
        .filter_map(|key| key.value.as_deref())
    {
        assert!(!shown.contains("SECRET"), "{shown}");
    }
    let shown = |key| in_force(&loaded, key).value.clone().unwrap();
    assert_eq!(
        shown("telemetry.forward.url"),
        "https://a.example/in?key=********&x=&********"
    );
    assert_eq!(
        shown("license.widevine.url"),
        "https://b.example/wv?********"
    );
    let reset = "https://c.example/r?app=********&token={token}&l=********";
    assert_eq!(shown("accounts.reset_url"), reset);
}

/// Values printed by `config show` can be used as input.
#[test]
fn shown_values_can_be_given_again() {
    let loaded = Case::of("").good();
    let mut case = Case::of("");
    for key in loaded
        .effective
        .iter()
        .filter(|key| key.key != "epg.sources")
    {
        let variable = sources::variable_of(&key.key);
        match key.value.as_deref() {
            Some("") | None => {}
            Some(value) => case = case.variable(&variable, value),
        }
    }
    assert_eq!(values(&case.good()), values(&loaded));
}

#[test]
fn variables_are_names_of_one_key_each() {
    let mut variables: Vec<String> = keys().map(|key| key.variable).collect();
    variables.sort();
    let count = variables.len();
    variables.dedup();
    assert_eq!(variables.len(), count);
    assert!(keys().all(|key| key.doc.ends_with('.') && !key.doc.is_empty()));
}

/// Parses a line of the packaged file that shows a key: `# key = value  # comment`.
fn commented_key(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("# ")?;
    let (key, _) = rest.split_once(" = ")?;
    let is_key = key
        .chars()
        .all(|c| c.is_ascii_lowercase() || "._".contains(c));
    is_key.then_some((key, rest))
}

/// The same if it shows the default rather than an example.
fn commented_default(line: &str) -> Option<&str> {
    let (_, rest) = commented_key(line)?;
    let (_, comment) = rest.rsplit_once(" # ").unwrap_or_default();
    (!comment.trim_start().starts_with("example")).then_some(rest)
}

#[test]
fn the_packaged_file_is_short_and_says_what_the_defaults_are() {
    let path =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("packaging/playgate.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.lines().count() < 80, "it must be short");
    let packaged = Case::of(&text).good();
    assert!(packaged.warnings.is_empty(), "{:?}", packaged.warnings);

    let uncommented: Vec<_> = text
        .lines()
        .map(|line| commented_default(line).unwrap_or(line))
        .collect();
    let all = Case::of(&uncommented.join("\n")).good();
    assert_eq!(values(&all), values(&packaged));
    for (name, _) in text.lines().filter_map(commented_key) {
        let name = name.strip_suffix("_file").unwrap_or(name);
        assert!(keys().any(|key| key.key == name), "there is no `{name}`");
    }
    // The file shows the main keys of each section; `playgate config keys` lists all.
    for section in keys().filter_map(|key| Some(key.key.rsplit_once('.')?.0.to_owned())) {
        let header = format!("\n# {section}.");
        // These take more than their keys: docs/fleet.md and docs/operating.md have the steps.
        let elsewhere = [
            "fleet",
            "lab",
            "license.playready",
            "mail.brand",
            "smtp.oauth2",
        ];
        let is_here = text.contains(&header);
        assert!(
            is_here || elsewhere.contains(&section.as_str()),
            "nothing of `{section}`"
        );
    }
}
