//! Keys with a fixed set of values.

use super::http::Environment;
use playgate_domain::entitlement::PinRule;
use playgate_domain::playback::{Scheme, WhenFull};
use playgate_ports::SmtpSecurity;
use playgate_ports::license_server::{SpcForm, Style};
use playgate_types::DurationUnit;

pub(super) trait ConfigEnum: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];
    /// What other programs call the same values, in lower case. It is understood and never shown.
    const ALIASES: &'static [(&'static str, Self)] = &[];
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $word:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$value_doc])* $value,)+
        }

        impl ConfigEnum for $name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$value),)+];
        }
    )+};
}

words! {
    LogFormat {
        Text = "text",
        Json = "json",
        /// Entries of the systemd journal, with fields to filter by.
        Journal = "journal",
    }
    LogLevel {
        Error = "error",
        Warn = "warn",
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }
}

impl ConfigEnum for Environment {
    const WORDS: &'static [(&'static str, Self)] =
        &[("production", Self::Production), ("staging", Self::Staging)];
}

impl ConfigEnum for Scheme {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("path-hmac", Self::PathHmac),
        ("secure-link", Self::SecureLink),
        ("akamai", Self::Akamai),
        ("cloudfront", Self::Cloudfront),
    ];
}

impl ConfigEnum for PinRule {
    const WORDS: &'static [(&'static str, Self)] =
        &[("age", Self::Age), ("watershed", Self::Watershed)];
}

impl ConfigEnum for WhenFull {
    const WORDS: &'static [(&'static str, Self)] =
        &[("deny", Self::Deny), ("displace", Self::Displace)];
}

impl ConfigEnum for SmtpSecurity {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("starttls", Self::StartTls),
        ("tls", Self::Tls),
        ("none", Self::None),
    ];
    const ALIASES: &'static [(&'static str, Self)] = &[
        ("start_tls", Self::StartTls),
        ("start-tls", Self::StartTls),
        ("explicit", Self::StartTls),
        ("ssl", Self::Tls),
        ("smtps", Self::Tls),
        ("ssl/tls", Self::Tls),
        ("tls/ssl", Self::Tls),
        ("implicit", Self::Tls),
        ("off", Self::None),
        ("no", Self::None),
        ("plain", Self::None),
        ("plaintext", Self::None),
    ];
}

impl ConfigEnum for DurationUnit {
    const WORDS: &'static [(&'static str, Self)] = &[
        (Self::Millis.as_str(), Self::Millis),
        (Self::Seconds.as_str(), Self::Seconds),
    ];
}

impl ConfigEnum for Style {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("plain", Self::Plain),
        ("drmtoday", Self::Drmtoday),
        ("axinom", Self::Axinom),
        ("jwt", Self::Jwt),
        ("doverunner", Self::Doverunner),
        ("ezdrm", Self::Ezdrm),
        ("nagra", Self::Nagra),
    ];
}

impl ConfigEnum for SpcForm {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("as-sent", Self::AsSent),
        ("raw", Self::Raw),
        ("form", Self::Form),
        ("json", Self::Json),
    ];
}

pub(super) fn word_of<W: ConfigEnum>(value: W) -> &'static str {
    W::WORDS
        .iter()
        .find(|(_, candidate)| *candidate == value)
        .map_or("", |(word, _)| word)
}
