//! Every key: type, bounds, default, meaning. The names are those of `commands.md`.
//!
//! What stands here is plain settings; the domain modules define what they are used as.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{NaiveDate, NaiveTime};
use chrono_tz::Tz;

use super::Address;
use super::address::host_name;
use super::byte_size::{ByteSize, MIB, byte_size};
use super::cdn::networks;
use super::enums::{LogFormat, LogLevel, SmtpSecurity, WatershedRule, WhenFull};
use super::epg_source::{EpgSource, sources};
use super::http::{Environment, Network};
use super::limits::Limits;
use super::mailbox::Mailbox;
use super::schema::{Key, Reader, Section, section, whole};
use super::secret::Secret;
use super::value_parsers::{
    Setting, address, base_url, cors_origin, date, duration, enum_value, flag, header_name,
    header_prefix, language, list, mailbox, network, number, path, reset_url, secret, some, text,
    time_of_day, unless_off, unrated, url, zone,
};
use crate::domain::catalog::Unrated;
use crate::domain::playback;
use crate::ports::license_server::Style;
use crate::types::DurationUnit;

section! {
    /// The keys without a section.
    pub struct Server {
        /// Where the partner interface is served.
        listen: Vec<Address> = list(address), Some("127.0.0.1:8080");
        /// Where everything is kept.
        data_dir: PathBuf = path, Some("./playgate-data");
        /// The address that partners know; without it that of the first listener.
        public_url: Option<String> = some(base_url), None;
        /// `production` or `staging`.
        environment: Environment = enum_value, Some("production");
    }
}

section! {
    /// Certificates.
    pub struct Tls {
        /// The chain, as PEM.
        cert: Option<PathBuf> = some(path), None;
        /// The private key, as PEM.
        key: Option<PathBuf> = some(path), None;
        /// Where the partner interface is served over TLS.
        listen: Vec<Address> = list(address), None;
    }
}

section! {
    /// Operations and administration.
    pub struct Ops {
        /// Where they are served; never to be reached from outside.
        listen: Address = address, Some("127.0.0.1:9080");
        /// Host names that requests to it may name, besides `localhost` and addresses.
        hosts: Vec<String> = list(host_name), None;
    }
}

section! {
    /// The HTTP front.
    pub struct Http {
        /// What the names of our headers begin with.
        header_prefix: String = header_prefix, Some("Service-");
        /// Networks whose forwarding headers are believed.
        trusted_proxies: Vec<Network> = list(network), None;
        /// The browsers' origins that may read the answers of the partner interface.
        cors_origins: Vec<String> = list(cors_origin), Some("*");
        /// The language of messages when neither the request nor the user names one.
        language: String = language, Some("en");
        /// A directory of messages in further languages.
        messages: Option<PathBuf> = some(path), None;
        /// The day on which the deprecated routes go.
        sunset: Option<NaiveDate> = some(date), None;
    }
}

section!(keys of Limits {
    /// Open connections in all.
    connections: u32 = number(1..=1_000_000), Some("10000");
    /// Open connections per address; IPv6: per /64; trusted proxies are exempt.
    connections_per_address: u32 = number(1..=1_000_000), Some("256");
    /// Wrong passwords per account in `login_window_minutes`.
    login_wrong_per_account: u32 = number(1..=1_000), Some("10");
    /// Wrong passwords per address in the same time.
    login_wrong_per_address: u32 = number(1..=1_000_000), Some("50");
    /// Minutes that a wrong password counts.
    login_window_minutes: u32 = number(1..=1_440), Some("15");
    /// Sign-ups per address in 10 minutes.
    sign_up_per_address: u32 = number(1..=1_000_000), Some("100");
    /// Reset mails an hour per account.
    reset_mails_per_account: u32 = number(1..=1_000), Some("3");
    /// Reset mails an hour per address.
    reset_mails_per_address: u32 = number(1..=1_000_000), Some("60");
    /// Reset completions per address in 15 minutes.
    resets_per_address: u32 = number(1..=1_000_000), Some("60");
    /// Wrong PINs in 15 minutes.
    pin_wrong: u32 = number(1..=100), Some("5");
    /// Heartbeats a second per playback session.
    heartbeats_per_second: u32 = number(1..=1_000), Some("2");
    /// Heartbeats that may come at once.
    heartbeat_burst: u32 = number(1..=1_000), Some("10");
    /// Requests a second per partner; 0: none.
    partner_requests_per_second: u32 = number(0..=1_000_000), Some("0");
});

section! {
    /// Users' accounts.
    pub struct Accounts {
        /// Days that a user token is valid.
        user_token_days: u32 = number(1..=3_650), Some("30");
        /// Minutes that a reset token is valid.
        reset_token_minutes: u32 = number(1..=1_440), Some("30");
        /// Where the link of a reset mail leads.
        reset_url: String = reset_url, Some("{public_url}/reset?token={token}");
        /// The fewest characters of a password.
        password_min: u32 = number(8..=128), Some("8");
        /// Words that are no password: names of the service, of its owner, of the town.
        password_words: Vec<String> = list(text(64)), None;
        /// Memory of one argon2id hash, in KiB.
        argon2_memory_kib: u32 = number(8_192..=1_048_576), Some("19456");
        /// Passes of argon2id.
        argon2_iterations: u32 = number(1..=16), Some("2");
        /// Lanes of argon2id.
        argon2_parallelism: u32 = number(1..=16), Some("1");
    }
}

section! {
    /// Parental control.
    pub struct Parental {
        /// When a PIN is asked for.
        rule: WatershedRule = enum_value, Some("age");
        /// The age limit of new users.
        limit: u8 = number(0..=21), Some("18");
        /// What a program without a rating counts as: `pin`, `allow` or an age.
        unrated: Unrated = unrated, Some("pin");
        /// When the watershed begins, in the livestream's zone.
        from: NaiveTime = time_of_day, Some("22:00");
        /// When it ends.
        to: NaiveTime = time_of_day, Some("06:00");
    }
}

section! {
    /// What a user may play at once.
    pub struct Playback {
        /// Devices of one user that play at once.
        streams_total: u32 = number(1..=1_000), Some("3");
        /// Devices of one user that play the same asset at once.
        streams_per_asset: u32 = number(1..=1_000), Some("3");
        /// Devices that a user may register.
        devices: u32 = number(1..=1_000), Some("5");
        /// What happens to a start when all streams are used.
        when_full: WhenFull = enum_value, Some("deny");
        /// Whether Clear Key licenses are given; they protect nothing.
        clearkey: bool = flag, Some("false");
    }
}

section! {
    /// A license server.
    pub struct LicenseServer {
        /// Where challenges are sent.
        url: Option<String> = some(url), None;
        /// The value of `Authorization` that the license server expects.
        authorization: Option<Secret> = some(secret(8)), None;
        /// How it is told whom a license is for: `plain`, `drmtoday`, `axinom` or `jwt`.
        style: Style = enum_value, Some("plain");
        /// The merchant's name, for `drmtoday`.
        merchant: Option<String> = some(text(256)), None;
        /// The id of the key that messages are signed with, for `axinom` and `jwt`.
        message_key_id: Option<String> = some(text(256)), None;
        /// That key, base64.
        message_key: Option<Secret> = some(secret(22)), None;
        /// The header in which the license server takes custom data.
        custom_data_header: Option<String> = some(header_name), None;
        /// How long an answer may take.
        timeout: Duration = duration(1..=25), Some("5s");
    }
}

section! {
    /// What only FairPlay needs.
    pub struct Fairplay {
        /// The certificate that players fetch.
        certificate: Option<PathBuf> = some(path), None;
    }
}

section! {
    /// The built-in origin.
    pub struct Media {
        /// The directory that media files are served from.
        media_dir: PathBuf = path, Some("{data_dir}/media");
        /// What playlist addresses are signed with; made on first start if absent.
        signing_key: Option<Secret> = some(secret(32)), None;
    }
}

section! {
    /// Content delivery networks.
    pub struct Cdn {
        /// Those whose playlist addresses are signed.
        networks: Vec<playback::CdnScheme> = networks, None;
    }
}

section! {
    /// The schedule.
    pub struct Schedule {
        /// The zone of livestreams that name none.
        zone: Tz = zone, Some("UTC");
        /// When a tv day begins.
        day_start: NaiveTime = time_of_day, Some("06:00");
        /// Days that past broadcasts are kept.
        retention_days: u32 = number(1..=3_650), Some("30");
        /// Seconds that a client may keep an answer.
        max_age: u32 = number(0..=3_600), Some("10");
        /// Seconds of the livestream before a broadcast that count to it in `streamStart`.
        padding_before: u32 = number(0..=3_600), Some("0");
        /// Seconds after it, in `streamStop`.
        padding_after: u32 = number(0..=3_600), Some("0");
    }
}

section! {
    /// Guides that are fetched.
    pub struct Guides {
        /// Where they come from.
        sources: Vec<EpgSource> = sources, None;
        /// A file of rating systems that are added to the built-in ones.
        ratings: Option<PathBuf> = some(path), None;
    }
}

section! {
    /// Players' telemetry.
    pub struct Telemetry {
        /// Days that events are kept.
        retention_days: u32 = number(1..=3_650), Some("30");
        /// What all files of events may take; the oldest hours go first.
        max_bytes: ByteSize = byte_size(64 * MIB..=u64::MAX), Some("10GiB");
        /// What is kept of one user in a UTC day, unpacked; above it 429.
        user_bytes_per_day: ByteSize = byte_size(MIB..=u64::MAX), Some("64MiB");
        /// What is kept of one partner's users in a UTC day, unpacked; without it there is no limit.
        partner_bytes_per_day: Option<ByteSize> = some(byte_size(MIB..=u64::MAX)), None;
        /// The unit of the durations that players report.
        duration_unit: DurationUnit = enum_value, Some("ms");
    }
}

section! {
    /// Where telemetry is forwarded to.
    pub struct TelemetryForward {
        /// A sink that takes NDJSON.
        url: Option<String> = some(url), None;
        /// The value of `Authorization` that the sink expects.
        authorization: Option<Secret> = some(secret(8)), None;
        /// Events in one batch.
        batch: u32 = number(1..=100_000), Some("1000");
        /// How long events may wait for a batch.
        interval: Duration = duration(1..=3_600), Some("5s");
    }
}

section! {
    /// The mail server.
    pub struct Smtp {
        /// Its name; without it mail stays in the sink.
        host: Option<String> = some(text(253)), None;
        /// Its port; without it 587, 465 with `tls`, 25 with `none`.
        port: Option<u16> = some(number(1..=65_535)), None;
        /// How the connection is protected.
        security: SmtpSecurity = enum_value, Some("starttls");
        /// The certificates of whoever signs the server's, as PEM; without it whom this machine trusts.
        ca: Option<PathBuf> = some(path), None;
        /// Who logs in.
        username: Option<String> = some(text(256)), None;
        /// The password of the login.
        password: Option<Secret> = some(secret(1)), None;
        /// How long the server may take to answer.
        timeout: Duration = duration(1..=300), Some("30s");
    }
}

section! {
    /// Mail to users.
    pub struct Mail {
        /// Whom it comes from.
        from: Option<Mailbox> = some(mailbox), None;
        /// A directory of templates that replace the built-in ones.
        templates: Option<PathBuf> = some(path), None;
    }
}

section! {
    /// Backups.
    pub struct Backup {
        /// Where they are put.
        dir: PathBuf = path, Some("{data_dir}/backups");
        /// How many are kept.
        keep: u32 = number(1..=1_000), Some("7");
        /// When the daily one is made, in `schedule.zone`; `off` for never.
        at: Option<NaiveTime> = unless_off(time_of_day), Some("03:30");
    }
}

section! {
    /// Where viewers are.
    pub struct Geo {
        /// A MaxMind-format file.
        database: Option<PathBuf> = some(path), None;
        /// The header in which a trusted proxy tells the country.
        header: Option<String> = some(header_name), None;
        /// Whether the user's own record tells the country where nothing else does.
        profile_fallback: bool = flag, Some("true");
    }
}

section! {
    /// Logging.
    pub struct Log {
        /// The form; without it text on a terminal, else JSON.
        format: Option<LogFormat> = some(enum_value), None;
        /// The least important thing that is logged.
        level: LogLevel = enum_value, Some("info");
        /// Whether every request is logged.
        access: bool = flag, Some("false");
    }
}

section! {
    /// What belongs in a laboratory.
    pub struct Lab {
        /// Whether an operator may move the clock.
        clock: bool = flag, Some("false");
    }
}

whole! {
    /// The configuration, whole and sound.
    pub struct Config {
        /// The keys without a section.
        server: Server = "";
        /// Certificates.
        tls: Tls = "tls.";
        /// Operations and administration.
        ops: Ops = "ops.";
        /// The HTTP front.
        http: Http = "http.";
        /// Limits.
        limits: Limits = "limits.";
        /// Users' accounts.
        accounts: Accounts = "accounts.";
        /// Parental control.
        parental: Parental = "parental.";
        /// What a user may play at once.
        playback: Playback = "playback.";
        /// The license server for Widevine.
        widevine: LicenseServer = "license.widevine.";
        /// The license server for PlayReady.
        playready: LicenseServer = "license.playready.";
        /// The license server for FairPlay.
        fairplay: LicenseServer = "license.fairplay.";
        /// What only FairPlay needs.
        fairplay_extra: Fairplay = "license.fairplay.";
        /// The built-in origin.
        origin: Media = "origin.";
        /// Content delivery networks.
        cdn: Cdn = "cdn.";
        /// The schedule.
        schedule: Schedule = "schedule.";
        /// Guides that are fetched.
        epg: Guides = "epg.";
        /// Players' telemetry.
        telemetry: Telemetry = "telemetry.";
        /// Where telemetry is forwarded to.
        telemetry_forward: TelemetryForward = "telemetry.forward.";
        /// The mail server.
        smtp: Smtp = "smtp.";
        /// Mail to users.
        mail: Mail = "mail.";
        /// Backups.
        backup: Backup = "backup.";
        /// Where viewers are.
        geo: Geo = "geo.";
        /// Logging.
        log: Log = "log.";
        /// What belongs in a laboratory.
        lab: Lab = "lab.";
    }
}

impl Smtp {
    /// The configured port, else the usual one of the security.
    pub fn port(&self) -> u16 {
        let usual = match self.security {
            SmtpSecurity::StartTls => 587,
            SmtpSecurity::Tls => 465,
            SmtpSecurity::None => 25,
        };
        self.port.unwrap_or(usual)
    }
}
