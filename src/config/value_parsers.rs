//! Parsers for each type of value, and how the values are shown.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{NaiveDate, NaiveTime};
use playgate_types::{Colour, Zone};

use super::address::ListenAddress;
use super::enums::{ConfigEnum, word_of};
use super::http::Network;
use super::mailbox::Mailbox;
use super::secret::{MASK, Secret};
use super::setting::{Read, Setting};
use playgate_decode::{Node, Value};
use playgate_domain::catalog::Unrated;
use playgate_ports::zoneinfo;
use playgate_types::pasted::unwrapped;

impl Setting for Secret {
    const SECRET: bool = true;

    fn show(&self) -> Option<String> {
        Some(MASK.to_owned())
    }
}

impl Setting for PathBuf {
    fn show(&self) -> Option<String> {
        Some(self.display().to_string())
    }
}

impl Setting for NaiveTime {
    fn show(&self) -> Option<String> {
        Some(self.format("%H:%M").to_string())
    }
}

impl Setting for Duration {
    fn show(&self) -> Option<String> {
        let seconds = self.as_secs();
        let (unit, name) = UNITS
            .into_iter()
            .rev()
            .find(|(unit, _)| seconds != 0 && seconds.is_multiple_of(*unit))
            .unwrap_or((1, "s"));
        Some(format!("{}{name}", seconds / unit))
    }
}

impl<W: ConfigEnum> Setting for W {
    fn show(&self) -> Option<String> {
        Some(word_of(*self).to_owned())
    }
}

macro_rules! shown_as_printed {
    ($($type:ty),+) => {$(
        impl Setting for $type {
            fn show(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+};
}

shown_as_printed!(
    u8,
    u16,
    u32,
    bool,
    ListenAddress,
    Network,
    Mailbox,
    Zone,
    NaiveDate,
    Colour
);

pub(super) fn some<T>(read: impl Fn(&Node) -> Read<T>) -> impl Fn(&Node) -> Read<Option<T>> {
    move |raw| read(raw).map(Some)
}

pub(super) fn unless_off<T>(read: impl Fn(&Node) -> Read<T>) -> impl Fn(&Node) -> Read<Option<T>> {
    move |raw| match raw.text() {
        Ok("off" | "") => Ok(None),
        _ => read(raw).map(Some),
    }
}

pub(super) fn list<T: PartialEq + Setting>(
    read: impl Fn(&Node) -> Read<T>,
) -> impl Fn(&Node) -> Read<Vec<T>> {
    move |raw| {
        let mut values = Vec::new();
        for item in raw.items().iter() {
            let value = read(item)?;
            // A duplicate is a copying mistake: the line that was meant to be there is missing.
            if values.contains(&value) {
                return Err(format!(
                    "lists `{}` twice",
                    value.show().unwrap_or_default()
                ));
            }
            values.push(value);
        }
        Ok(values)
    }
}

pub(super) fn number<N: TryFrom<i64>>(range: RangeInclusive<i64>) -> impl Fn(&Node) -> Read<N> {
    move |raw| raw.number(&range)
}

pub(super) fn flag(raw: &Node) -> Read<bool> {
    raw.boolean()
}

pub(super) fn enum_value<W: ConfigEnum>(raw: &Node) -> Read<W> {
    // People copy words in the spelling of other programs.
    let text = unwrapped(raw.text()?).to_ascii_lowercase();
    W::WORDS
        .iter()
        .chain(W::ALIASES)
        .find(|(word, _)| word.to_ascii_lowercase() == text)
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let words: Vec<_> = W::WORDS.iter().map(|(word, _)| *word).collect();
            format!("must be one of {}", words.join(", "))
        })
}

impl Setting for Unrated {
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

pub(super) fn text(most: usize) -> impl Fn(&Node) -> Read<String> {
    move |raw| {
        let text = raw.text()?;
        if text.trim().is_empty() || text.chars().count() > most {
            return Err(format!("must have 1 to {most} characters"));
        }
        // Such texts go into headers and commands of other protocols, where a line end would begin a new one.
        if text.chars().any(char::is_control) {
            return Err("must not contain control characters".to_owned());
        }
        Ok(text.to_owned())
    }
}

/// The user at a mail server. `Playgate <tv@example.org>` stands for the address.
pub(super) fn mail_user(raw: &Node) -> Read<String> {
    let user = text(256)(raw)?;
    let user = user.trim();
    Ok(match Mailbox::parse(user) {
        Some(Mailbox { email, .. }) if user.ends_with('>') => email.as_str().to_owned(),
        _ => user.to_owned(),
    })
}

pub(super) fn secret(least: usize) -> impl Fn(&Node) -> Read<Secret> {
    const OF_EXAMPLES: [&str; 6] = [
        "changeme",
        "change-me",
        "secret",
        "password",
        "example",
        "xxx",
    ];
    move |raw| {
        let text = raw.text()?;
        if text.len() < least {
            return Err(format!("must have at least {least} characters"));
        }
        if text.len() > 4_096 || text.chars().any(char::is_control) {
            return Err("must be one line of at most 4096 characters".to_owned());
        }
        // A service that runs with a published secret is open to everybody who has read the example.
        if OF_EXAMPLES.contains(&text.to_ascii_lowercase().as_str()) {
            return Err("is a placeholder, not a secret".to_owned());
        }
        Ok(Secret::new(text.to_owned()))
    }
}

pub(super) fn path(raw: &Node) -> Read<PathBuf> {
    let text = raw.text()?;
    if text.is_empty() || text.contains('\0') {
        return Err("must be a path".to_owned());
    }
    Ok(text.into())
}

pub(super) fn address(raw: &Node) -> Read<ListenAddress> {
    ListenAddress::parse(raw.text()?)
}

pub(super) fn network(raw: &Node) -> Read<Network> {
    let text = raw.text()?;
    Network::parse(text).map_err(|why| format!("`{text}`: {why}"))
}

fn date_or_time(raw: &Node) -> Read<&str> {
    match &raw.value {
        // TOML writes dates and times without quotes.
        Value::Time(text) => Ok(text),
        _ => raw.text(),
    }
}

pub(super) fn time_of_day(raw: &Node) -> Read<NaiveTime> {
    let text = date_or_time(raw)?;
    // TOML times have seconds.
    let short = text.strip_suffix(":00").filter(|text| text.len() == 5);
    let shape = |text: &str| text.len() == 5 && text.is_ascii();
    Some(short.unwrap_or(text))
        .filter(|text| shape(text))
        .and_then(|text| NaiveTime::parse_from_str(text, "%H:%M").ok())
        .ok_or_else(|| "must be a time of the day such as \"22:00\"".to_owned())
}

pub(super) fn date(raw: &Node) -> Read<NaiveDate> {
    NaiveDate::parse_from_str(date_or_time(raw)?, "%Y-%m-%d")
        .map_err(|_| "must be a date such as \"2027-12-31\"".to_owned())
}

pub(super) fn zone_directory(raw: &Node) -> Read<PathBuf> {
    let directory = path(raw)?;
    match zoneinfo::fault(&directory) {
        Some(why) => Err(format!("{} {why}", directory.display())),
        None => Ok(directory),
    }
}

pub(super) fn zone(raw: &Node) -> Read<Zone> {
    let text = raw.text()?;
    text.parse()
        .map_err(|_| format!("`{text}` is not a time zone; use a name such as Europe/Stockholm"))
}

const UNITS: [(u64, &str); 4] = [(1, "s"), (60, "m"), (3_600, "h"), (86_400, "d")];

/// Parses a duration: `30s`, `15m`, `2h`, `1d`, or a number of seconds. The bounds are in seconds.
pub(super) fn duration(range: RangeInclusive<u64>) -> impl Fn(&Node) -> Read<Duration> {
    move |raw| {
        let seconds = match raw.value {
            Value::Integer(seconds) => u64::try_from(seconds).ok(),
            _ => spelled_seconds(raw.text()?),
        };
        let shown = |seconds: &u64| Duration::from_secs(*seconds).show().unwrap_or_default();
        seconds
            .filter(|seconds| range.contains(seconds))
            .map(Duration::from_secs)
            .ok_or_else(|| {
                format!(
                    "must be a duration from {} to {}, such as \"30s\", \"15m\" or \"2h\"",
                    shown(range.start()),
                    shown(range.end())
                )
            })
    }
}

fn spelled_seconds(text: &str) -> Option<u64> {
    let (digits, unit) = UNITS
        .into_iter()
        .find_map(|(unit, name)| Some((text.strip_suffix(name)?, unit)))
        .unwrap_or((text, 1));
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // `parse` itself would accept a plus sign.
    plain.then(|| digits.parse::<u64>().ok()?.checked_mul(unit))?
}

/// Parses an `http` or `https` URL without user, query and fragment; a trailing slash is removed.
pub(super) fn base_url(raw: &Node) -> Read<String> {
    let text = url(raw)?;
    if text.contains(['?', '#']) {
        return Err("must be an address without query or fragment".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Writes the host of an address in ASCII (IDNA), as links and headers need it.
fn in_ascii(text: &str) -> Cow<'_, str> {
    let converted = || {
        let (scheme, rest) = text.split_once("://")?;
        let end = rest.find([':', '/', '?', '#']).unwrap_or(rest.len());
        let (host, behind) = rest.split_at_checked(end)?;
        // The rest stays as it is, and is refused if it is not ASCII.
        let host = idna::domain_to_ascii_strict(host)
            .ok()
            .filter(|_| !host.is_ascii())?;
        Some(format!("{scheme}://{host}{behind}"))
    };
    match text.is_ascii() {
        true => Cow::Borrowed(text),
        false => converted().map_or(Cow::Borrowed(text), Cow::Owned),
    }
}

pub(super) fn url(raw: &Node) -> Read<String> {
    let pasted = unwrapped(raw.text()?);
    let text = &*in_ascii(&pasted);
    let form = "must be an address starting with http:// or https://";
    let uri: http::Uri = text.parse().map_err(|_| form.to_owned())?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().map(http::uri::Authority::as_str);
    match authority {
        Some(authority) if known && !authority.is_empty() => {
            // Credentials in a URL would appear in logs and in `config show`.
            if authority.contains('@') {
                return Err("must not contain a user or password".to_owned());
            }
            Ok(text.to_owned())
        }
        _ => Err(form.to_owned()),
    }
}

/// Parses the link of reset mails with its placeholders `{token}`, `{locale}` and `{public_url}`. An
/// application's custom scheme is allowed.
pub(super) fn reset_url(raw: &Node) -> Read<String> {
    let text = raw.text()?;
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    // Not only http: a mobile application may register its own scheme.
    let led = text.starts_with("{public_url}")
        || scheme.is_some_and(|scheme| {
            !scheme.is_empty()
                && scheme
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        });
    if !led || text.len() > 2_048 || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(
            "must be an address, such as \"https://tv.example/reset?token={token}\"".to_owned(),
        );
    }
    // Every reset mail would lead to a page that cannot work.
    if !text.contains("{token}") {
        return Err("must contain {token}".to_owned());
    }
    // A misspelt placeholder would be sent as it is, in every mail.
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('{') {
        let (name, after) = after
            .split_once('}')
            .ok_or_else(|| "has a { without a matching }".to_owned())?;
        if !matches!(name, "token" | "locale" | "public_url") {
            return Err(format!(
                "accepts only {{token}}, {{locale}} and {{public_url}}, not {{{name}}}"
            ));
        }
        rest = after;
    }
    Ok(text.to_owned())
}

pub(super) fn cors_origin(raw: &Node) -> Read<String> {
    let text = raw.text()?;
    if text == "*" {
        return Ok(text.to_owned());
    }
    let checked = url(raw)?;
    let (_, host) = checked.split_once("://").unwrap_or_default();
    // Browsers send origins in lower case and without a path; others would never match.
    if host.contains(['/', '?', '#']) || text.chars().any(|c| c.is_ascii_uppercase()) {
        return Err(format!(
            "`{text}` is not an origin: use \"https://tv.example\", in lower case, without a path"
        ));
    }
    Ok(checked)
}

pub(super) fn header_prefix(raw: &Node) -> Read<String> {
    let text = raw.text()?;
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic());
    if !plain || !begins || !text.ends_with('-') || text.len() > 32 {
        return Err(
            "must begin with a letter, contain only letters, digits and -, and end with - (at most 32 characters)"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

pub(super) fn header_name(raw: &Node) -> Read<String> {
    let text = raw.text()?;
    http::HeaderName::from_bytes(text.as_bytes())
        .map(|_| text.to_owned())
        .map_err(|_| format!("`{text}` is not a header name"))
}

pub(super) fn language(raw: &Node) -> Read<String> {
    let text = raw.text()?;
    // A subtag has at most 8 characters (RFC 5646, 2.1); 35 are enough for any tag (4.4.1).
    let part = |part: &str| {
        (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let first = text.split('-').next().unwrap_or_default();
    if first.len() < 2 || text.len() > 35 || !text.split('-').all(part) {
        return Err(format!(
            "`{text}` is not a language tag; use a tag such as \"en\" or \"pt-BR\""
        ));
    }
    Ok(text.to_owned())
}

pub(super) fn colour(raw: &Node) -> Read<Colour> {
    Colour::parse(raw.text()?).map_err(|why| why.0.to_owned())
}

/// Parses the address or the path of a logo. The file is read when the service starts.
pub(super) fn logo(raw: &Node) -> Read<String> {
    let text = raw.text()?;
    if !text.contains("://") {
        return path(raw).map(|path| path.display().to_string());
    }
    let checked = url(raw)?;
    // Mail programs do not load images without TLS, and the page of a new password has no other sources.
    match checked.starts_with("https://") && !checked.contains(['"', '\'', ';', ',', ' ']) {
        true => Ok(checked),
        false => Err("must be an https address or the path of an image file".to_owned()),
    }
}

pub(super) fn mailbox(raw: &Node) -> Read<Mailbox> {
    let text = self::text(320)(raw)?;
    Mailbox::parse(&text)
        .ok_or_else(|| "must be an address such as \"Playgate <tv@example.org>\"".to_owned())
}
