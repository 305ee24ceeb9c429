//! Keys with a fixed set of values.

use super::http::Environment;
use crate::domain::playback::Scheme;
use crate::ports::license_server::Style;
use crate::types::DurationUnit;

pub(super) trait ConfigEnum: Copy + PartialEq + 'static {
    /// The words; the first is the default.
    const WORDS: &'static [(&'static str, Self)];
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
    WatershedRule {
        /// Programs rated at or above the user's limit.
        Age = "age",
        /// Programs that start during the watershed, and rated ones on channels with `verify_age`.
        Watershed = "watershed",
    }
    WhenFull {
        Deny = "deny",
        Displace = "displace",
    }
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
    SmtpSecurity {
        /// Starts in plain text and must upgrade to TLS.
        StartTls = "starttls",
        Tls = "tls",
        /// No encryption, for a server on the same machine.
        None = "none",
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
    ];
}

pub(super) fn word_of<W: ConfigEnum>(value: W) -> &'static str {
    W::WORDS
        .iter()
        .find(|(_, candidate)| *candidate == value)
        .map_or("", |(word, _)| word)
}
