//! Every configuration key: type, bounds, default and description.
//!
//! `playgate config keys` prints the doc comments. Keys hold plain settings; domain modules define their
//! use.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{NaiveDate, NaiveTime};

use super::ListenAddress;
use super::address::host_name;
use super::byte_size::{ByteSize, MIB, byte_size};
use super::cdn::networks;
use super::enums::{LogFormat, LogLevel};
use super::epg_source::sources;
use super::http::{Environment, Network};
use super::mailbox::Mailbox;
use super::schema::{KeyDeclaration, KeyReader, Section, section, whole};
use super::secret::Secret;
use super::setting::Setting;
use super::smtp_keys::{SmtpConfig, SmtpOauth2Config};
use super::value_parsers::{
    address, base_url, colour, cors_origin, date, duration, enum_value, flag, header_name,
    header_prefix, language, list, logo, mailbox, network, number, path, reset_url, secret, some,
    text, time_of_day, unless_off, url, zone, zone_directory,
};
use playgate_domain::catalog::Unrated;
use playgate_domain::entitlement::PinRule;
use playgate_domain::epg_sources::EpgSource;
use playgate_domain::playback;
use playgate_ports::license_server::{SpcForm, Style};
use playgate_types::{Colour, DurationUnit, Zone};

section! {
    pub struct ServerConfig {
        /// Addresses of the partner interface: `host:port`, `unix:PATH` or `socket:NAME`.
        listen: Vec<ListenAddress> = list(address), Some("127.0.0.1:8080");
        /// Data directory: store, keys, telemetry, backups and media.
        data_dir: PathBuf = path, Some("./playgate-data");
        /// Public address of the service; default: the address of the first listener.
        public_url: Option<String> = some(base_url), None;
        /// `production` or `staging`.
        environment: Environment = enum_value, Some("production");
    }
}

section! {
    pub struct TlsConfig {
        /// Certificate chain, PEM.
        cert: Option<PathBuf> = some(path), None;
        /// Private key, PEM.
        key: Option<PathBuf> = some(path), None;
        /// Addresses of the partner interface over TLS.
        listen: Vec<ListenAddress> = list(address), None;
    }
}

section! {
    pub struct OpsConfig {
        /// Admin, health and metrics listener; keep it private.
        listen: ListenAddress = address, Some("127.0.0.1:9080");
        /// Host names accepted on this listener, besides `localhost` and IP addresses.
        hosts: Vec<String> = list(host_name), None;
    }
}

section! {
    pub struct HttpConfig {
        /// Prefix of the names of our own headers.
        header_prefix: String = header_prefix, Some("Service-");
        /// Networks of proxies with trusted forwarding headers.
        trusted_proxies: Vec<Network> = list(network), None;
        /// Browser origins that may read responses of the partner interface.
        cors_origins: Vec<String> = list(cors_origin), Some("*");
        /// Language of messages if neither the request nor the user names one.
        language: String = language, Some("en");
        /// Directory of messages in further languages.
        messages: Option<PathBuf> = some(path), None;
        /// Date when the deprecated routes are removed.
        sunset: Option<NaiveDate> = some(date), None;
    }
}

section! {
    pub struct LimitsConfig {
        /// Open connections in total.
        connections: u32 = number(1..=1_000_000), Some("10000");
        /// Open connections per address; IPv6: per /64; trusted proxies are exempt.
        connections_per_address: u32 = number(1..=1_000_000), Some("256");
        /// Request bodies in memory, in total; more are refused with 503. A user may have a 16th of it, a network a quarter.
        body_bytes: ByteSize = byte_size(32 * MIB..=u64::MAX), Some("128MiB");
        /// Wrong passwords per account in `login_window_minutes`.
        login_wrong_per_account: u32 = number(1..=1_000), Some("10");
        /// Wrong passwords per address in the same time.
        login_wrong_per_address: u32 = number(1..=1_000_000), Some("50");
        /// Minutes for which a wrong password counts.
        login_window_minutes: u32 = number(1..=1_440), Some("15");
        /// Sign-ups per address in 10 minutes.
        sign_up_per_address: u32 = number(1..=1_000_000), Some("100");
        /// Reset mails per account and hour.
        reset_mails_per_account: u32 = number(1..=1_000), Some("3");
        /// Reset mails per address and hour.
        reset_mails_per_address: u32 = number(1..=1_000_000), Some("60");
        /// Reset completions per address in 15 minutes.
        resets_per_address: u32 = number(1..=1_000_000), Some("60");
        /// Wrong PINs in 15 minutes.
        pin_wrong: u32 = number(1..=100), Some("5");
        /// Networks whose viewers share addresses, such as a campus or hotel: without limits per address of log-ins, sign-ups and
        /// resets.
        exempt_networks: Vec<Network> = list(network), None;
        /// Heartbeats per second and playback session.
        heartbeats_per_second: u32 = number(1..=1_000), Some("2");
        /// Heartbeats allowed in one burst.
        heartbeat_burst: u32 = number(1..=1_000), Some("10");
        /// Requests per second and partner; 0 for no limit.
        partner_requests_per_second: u32 = number(0..=1_000_000), Some("0");
    }
}

section! {
    pub struct AccountsConfig {
        /// Longest validity of a user token, in days.
        user_token_days: u32 = number(1..=3_650), Some("365");
        /// Days without use after which a user token ends.
        user_token_idle_days: u32 = number(1..=3_650), Some("60");
        /// Login sessions of a user; one more ends the least recently used.
        logins_max: u32 = number(1..=1_000), Some("100");
        /// Validity of a reset token, in minutes.
        reset_token_minutes: u32 = number(1..=1_440), Some("30");
        /// Link in reset mails.
        reset_url: String = reset_url, Some("{public_url}/reset?token={token}");
        /// Minimum length of a password, in characters.
        password_min: u32 = number(8..=128), Some("8");
        /// Words rejected as passwords, such as names of the service, its owner or its town.
        password_words: Vec<String> = list(text(64)), None;
        /// Memory of one argon2id hash, in KiB.
        argon2_memory_kib: u32 = number(8_192..=1_048_576), Some("19456");
        /// Iterations of argon2id.
        argon2_iterations: u32 = number(1..=16), Some("2");
        /// Parallelism of argon2id.
        argon2_parallelism: u32 = number(1..=16), Some("1");
    }
}

section! {
    pub struct ParentalConfig {
        /// Which programs require the PIN: `age` or `watershed`.
        rule: PinRule = enum_value, Some("age");
        /// Age limit of new users.
        limit: u8 = number(0..=21), Some("18");
        /// Treatment of unrated programs: `pin`, `allow` or an age.
        unrated: Unrated = Unrated::read, Some("pin");
        /// Start of the watershed, in the livestream's time zone.
        from: NaiveTime = time_of_day, Some("22:00");
        /// End of the watershed.
        to: NaiveTime = time_of_day, Some("06:00");
    }
}

section! {
    pub struct PlaybackConfig {
        /// Devices of one user that can play at the same time.
        streams_total: u32 = number(1..=1_000), Some("3");
        /// Devices of one user that can play the same asset at the same time.
        streams_per_asset: u32 = number(1..=1_000), Some("3");
        /// Devices that a user can register.
        devices: u32 = number(1..=1_000), Some("5");
        /// When all streams are in use: `deny` the new playback, or `displace` the oldest.
        when_full: playback::WhenFull = enum_value, Some("deny");
        /// Issue Clear Key licenses. They do not protect content.
        clearkey: bool = flag, Some("false");
    }
}

section! {
    pub struct LicenseServerConfig {
        /// URL of the license server.
        url: Option<String> = some(url), None;
        /// `Authorization` header sent to the license server.
        authorization: Option<Secret> = some(secret(8)), None;
        /// How license permissions are sent: `plain`, `drmtoday`, `axinom`, `jwt`, `doverunner`, `ezdrm` or `nagra`.
        style: Style = enum_value, Some("plain");
        /// Merchant name, for `drmtoday`; site id, for `doverunner`.
        merchant: Option<String> = some(text(256)), None;
        /// Id of the key that signs messages, for `axinom` and `jwt`.
        message_key_id: Option<String> = some(text(256)), None;
        /// The key that signs messages, base64; for `doverunner` the site key as the vendor shows it.
        message_key: Option<Secret> = some(secret(22)), None;
        /// Access key, for `doverunner`.
        access_key: Option<Secret> = some(secret(16)), None;
        /// Header that carries custom data to the license server.
        custom_data_header: Option<String> = some(header_name), None;
        /// Time-out of a request to the license server.
        timeout: Duration = duration(1..=25), Some("5s");
    }
}

section! {
    pub struct FairplayConfig {
        /// How the license server takes the challenge: `as-sent`, `raw`, `form` or `json`. Default: by style.
        body: Option<SpcForm> = some(enum_value), None;
        /// FairPlay certificate for players.
        certificate: Option<PathBuf> = some(path), None;
    }
}

section! {
    pub struct MediaConfig {
        /// Directory of media files.
        media_dir: PathBuf = path, Some("{data_dir}/media");
        /// Key that signs playlist addresses; created at the first start if not set.
        signing_key: Option<Secret> = some(secret(32)), None;
    }
}

section! {
    pub struct CdnConfig {
        /// Networks with signed playlist addresses.
        networks: Vec<playback::CdnScheme> = networks, None;
    }
}

section! {
    pub struct ScheduleConfig {
        /// Time zone of livestreams that name none.
        zone: Zone = zone, Some("UTC");
        /// Directory of time zone files; the system's if not set.
        zoneinfo: Option<PathBuf> = some(zone_directory), None;
        /// Start of the TV day.
        day_start: NaiveTime = time_of_day, Some("06:00");
        /// Days to keep past broadcasts.
        retention_days: u32 = number(1..=3_650), Some("30");
        /// Seconds that clients may cache a response.
        max_age: u32 = number(0..=3_600), Some("10");
        /// Seconds added before a broadcast, in `streamStart`.
        padding_before: u32 = number(0..=3_600), Some("0");
        /// Seconds added after a broadcast, in `streamStop`.
        padding_after: u32 = number(0..=3_600), Some("0");
    }
}

section! {
    pub struct EpgConfig {
        /// EPG sources.
        sources: Vec<EpgSource> = sources, None;
        /// File of rating systems, added to the built-in ones.
        ratings: Option<PathBuf> = some(path), None;
    }
}

section! {
    pub struct TelemetryConfig {
        /// Days to keep events.
        retention_days: u32 = number(1..=3_650), Some("30");
        /// Maximum size of all event files; the oldest hours are deleted first.
        max_bytes: ByteSize = byte_size(64 * MIB..=u64::MAX), Some("10GiB");
        /// Events accepted per user and UTC day, uncompressed; more are rejected with 429.
        user_bytes_per_day: ByteSize = byte_size(MIB..=u64::MAX), Some("64MiB");
        /// Events accepted from a partner's users per UTC day, uncompressed; default: no limit.
        partner_bytes_per_day: Option<ByteSize> = some(byte_size(MIB..=u64::MAX)), None;
        /// Unit of durations in events: `ms` or `s`.
        duration_unit: DurationUnit = enum_value, Some("ms");
    }
}

section! {
    pub struct TelemetryForwardConfig {
        /// URL of a sink that accepts NDJSON.
        url: Option<String> = some(url), None;
        /// `Authorization` header sent to the sink.
        authorization: Option<Secret> = some(secret(8)), None;
        /// Events per batch.
        batch: u32 = number(1..=100_000), Some("1000");
        /// Maximum time that events wait for a batch.
        interval: Duration = duration(1..=3_600), Some("5s");
    }
}

section! {
    pub struct JournalConfig {
        /// How long the request journal keeps records.
        keep: Duration = duration(60..=315_360_000), Some("7d");
        /// Maximum size of the request journal; the oldest records are deleted first.
        max_bytes: ByteSize = byte_size(16 * MIB..=u64::MAX), Some("256MiB");
    }
}

section! {
    pub struct MailConfig {
        /// Sender address.
        from: Option<Mailbox> = some(mailbox), None;
        /// Directory of templates that replace the built-in ones.
        templates: Option<PathBuf> = some(path), None;
    }
}

section! {
    pub struct MailBrandConfig {
        /// Name in mails and on the pages for viewers; default: the name in `mail.from`.
        name: Option<String> = some(text(60)), None;
        /// Logo: an https address, or a PNG, JPEG or GIF file of at most 64 KiB, which mails carry with them.
        logo: Option<String> = some(logo), None;
        /// Colour of buttons; their text is black or white, whichever is read better.
        colour: Colour = colour, Some("#1667a8");
    }
}

section! {
    pub struct BackupConfig {
        /// Backup directory.
        dir: PathBuf = path, Some("{data_dir}/backups");
        /// Number of backups to keep.
        keep: u32 = number(1..=1_000), Some("7");
        /// Time of the daily backup, in `schedule.zone`; `off` to disable.
        at: Option<NaiveTime> = unless_off(time_of_day), Some("03:30");
    }
}

section! {
    pub struct GeoConfig {
        /// Country database, in MaxMind format.
        database: Option<PathBuf> = some(path), None;
        /// Header in which a trusted proxy sends the country.
        header: Option<String> = some(header_name), None;
        /// Use the country from the user's record if no other source knows it.
        profile_fallback: bool = flag, Some("true");
    }
}

section! {
    pub struct LogConfig {
        /// Log format; default: text on a terminal, else JSON.
        format: Option<LogFormat> = some(enum_value), None;
        /// Lowest severity that is logged.
        level: LogLevel = enum_value, Some("info");
        /// Log every request.
        access: bool = flag, Some("false");
    }
}

section! {
    pub struct LabConfig {
        /// Allow operators to move the clock.
        clock: bool = flag, Some("false");
        /// Start in production although there are lab partners, whose faults and clocks clients can meet.
        allow_in_production: bool = flag, Some("false");
    }
}

section! {
    pub struct FleetConfig {
        /// URLs of the etcd that keeps the log of a fleet; none: a single node.
        endpoints: Vec<String> = list(base_url), None;
        /// CA certificates for etcd, PEM; default: those of the system.
        ca: Option<PathBuf> = some(path), None;
        /// Client certificate for etcd, PEM; read again when it changes.
        client_cert: Option<PathBuf> = some(path), None;
        /// Its private key, PEM.
        client_key: Option<PathBuf> = some(path), None;
        /// User name for etcd.
        username: Option<String> = some(text(128)), None;
        /// Password for etcd.
        password: Option<Secret> = some(secret(1)), None;
        /// Address for other members, as host:port.
        listen: ListenAddress = address, Some("127.0.0.1:7080");
        /// Where other members reach it, as host:port; default: `fleet.listen`.
        advertise: Option<String> = some(text(253)), None;
        /// Whether this member may become the owner.
        may_own: bool = flag, Some("true");
        /// How long the owner may be silent before another member takes over.
        lease: Duration = duration(1..=60), Some("2s");
        /// Size of the log that is kept for members that were away.
        log_keep: ByteSize = byte_size(MIB..=1_024 * MIB), Some("64MiB");
    }
}

whole! {
    /// The validated configuration.
    pub struct Config {
        /// Keys without a section.
        server: ServerConfig = "";
        /// Certificates.
        tls: TlsConfig = "tls.";
        /// Operations and administration.
        ops: OpsConfig = "ops.";
        /// HTTP server.
        http: HttpConfig = "http.";
        /// Limits.
        limits: LimitsConfig = "limits.";
        /// Users' accounts.
        accounts: AccountsConfig = "accounts.";
        /// Parental control.
        parental: ParentalConfig = "parental.";
        /// Playback limits.
        playback: PlaybackConfig = "playback.";
        /// Widevine license server.
        widevine: LicenseServerConfig = "license.widevine.";
        /// PlayReady license server.
        playready: LicenseServerConfig = "license.playready.";
        /// FairPlay license server.
        fairplay: LicenseServerConfig = "license.fairplay.";
        /// FairPlay certificate.
        fairplay_extra: FairplayConfig = "license.fairplay.";
        /// Built-in origin.
        origin: MediaConfig = "origin.";
        /// Content delivery networks.
        cdn: CdnConfig = "cdn.";
        /// Schedule.
        schedule: ScheduleConfig = "schedule.";
        /// EPG import.
        epg: EpgConfig = "epg.";
        /// Telemetry.
        telemetry: TelemetryConfig = "telemetry.";
        /// Telemetry forwarding.
        telemetry_forward: TelemetryForwardConfig = "telemetry.forward.";
        /// Request journal.
        journal: JournalConfig = "journal.";
        /// Mail server.
        smtp: SmtpConfig = "smtp.";
        /// OAuth 2 for the mail server.
        smtp_oauth2: SmtpOauth2Config = "smtp.oauth2.";
        /// Mail to users.
        mail: MailConfig = "mail.";
        /// What mails and pages look like.
        mail_brand: MailBrandConfig = "mail.brand.";
        /// Backups.
        backup: BackupConfig = "backup.";
        /// Geolocation.
        geo: GeoConfig = "geo.";
        /// Logging.
        log: LogConfig = "log.";
        /// Laboratory settings.
        lab: LabConfig = "lab.";
        /// Several machines.
        fleet: FleetConfig = "fleet.";
    }
}

impl Config {
    /// Whether this installation may have lab partners.
    pub fn allows_lab(&self) -> bool {
        self.server.environment != Environment::Production || self.lab.allow_in_production
    }
}
