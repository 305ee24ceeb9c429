//! Keys whose value is one of a few words.

use super::http::Environment;
use crate::domain::playback::Scheme;
use crate::ports::license_server::Style;
use crate::types::DurationUnit;

/// A type with a word for each of its values.
pub(super) trait ConfigEnum: Copy + PartialEq + 'static {
    /// The words, the default first.
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
    /// Which programs ask for the PIN.
    WatershedRule {
        /// Those rated at or above the user's limit.
        Age = "age",
        /// Those that start in the evening and night, and rated ones on "verify age" channels.
        Watershed = "watershed",
    }
    /// What a new start does when the user's streams are used up.
    WhenFull {
        /// It is refused.
        Deny = "deny",
        /// It ends the oldest.
        Displace = "displace",
    }
    /// The form of log lines.
    LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
        /// Entries of systemd's journal, with fields that can be asked for.
        Journal = "journal",
    }
    /// The least important thing that is logged.
    LogLevel {
        /// What went wrong.
        Error = "error",
        /// What may go wrong.
        Warn = "warn",
        /// What happened.
        Info = "info",
        /// What is needed to find a mistake.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
    /// How the connection to the mail server is protected.
    SmtpSecurity {
        /// It starts plain and must turn to TLS.
        StartTls = "starttls",
        /// TLS from the first byte.
        Tls = "tls",
        /// Not at all: for a server on the same machine.
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

/// The word for a value.
pub(super) fn word_of<W: ConfigEnum>(value: W) -> &'static str {
    W::WORDS
        .iter()
        .find(|(_, candidate)| *candidate == value)
        .map_or("", |(word, _)| word)
}
