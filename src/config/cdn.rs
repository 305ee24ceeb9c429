//! Content delivery networks: a list of tables, allowed in the file only. Their keys are converted to
//! signers here and are not kept as text.

use std::path::Path;
use std::time::Duration;

use super::enums::word_of;
use super::raw::Raw;
use super::schema::read_secret;
use super::table_list::{Members, TableSchema};
use super::value_parsers::{Read, Setting, base_url, duration, enum_value, secret, text};
use crate::domain::playback::{CdnScheme, Key, Scheme};

const NETWORKS: TableSchema = TableSchema {
    what: "a network",
    members: &["name", "prefix", "scheme", "keys", "lifetime", "parameter"],
    needed: &["name", "prefix", "scheme", "keys"],
};
/// The key is given as `key` or `key_file`.
const KEYS: TableSchema = TableSchema {
    what: "a key",
    members: &["id", "key", "key_file"],
    needed: &["id"],
};
/// The list and the member that may hold a secret.
pub(super) const SECRET: (&str, &str) = ("cdn.networks", "key");

/// Default lifetime of a signed address: that of an entitlement.
const LIFETIME: Duration = Duration::from_secs(86_400);
/// Default query parameter of Akamai tokens, as in Akamai's media examples.
const PARAMETER: &str = "hdnts";

impl Setting for CdnScheme {
    fn show(&self) -> Option<String> {
        let scheme = word_of(self.scheme());
        Some(format!("{} ({scheme}, {})", self.name(), self.prefix()))
    }
}

pub(super) fn networks(raw: &Raw) -> Read<Vec<CdnScheme>> {
    let networks = NETWORKS.list(raw, network)?;
    let mut prefixes: Vec<&str> = networks.iter().map(CdnScheme::prefix).collect();
    prefixes.sort_unstable();
    // The network of an address is the one with the longest prefix: two equal ones would be ambiguous.
    if prefixes.windows(2).any(|pair| pair.first() == pair.last()) {
        return Err("has two networks with the same prefix".to_owned());
    }
    Ok(networks)
}

fn network(table: &mut Members<'_>) -> Option<CdnScheme> {
    let name = table.read("name", text(64));
    let prefix = table.read("prefix", base_url);
    let scheme = table.read("scheme", enum_value::<Scheme>);
    let lifetime = table.read("lifetime", duration(60..=2_592_000));
    let parameter = table.read("parameter", parameter);
    if table.has("parameter") && scheme.is_some_and(|scheme| scheme != Scheme::Akamai) {
        table.refuse("parameter", "is allowed only with the scheme `akamai`");
    }
    let parameter = parameter.unwrap_or_else(|| PARAMETER.to_owned());
    let keys = table.read("keys", |raw| keys(raw, scheme, &parameter));
    let seconds = lifetime.unwrap_or(LIFETIME).as_secs();
    let lifetime = i64::try_from(seconds).unwrap_or(i64::MAX);
    // Only the first key signs. The second has been checked, so that swapping the two cannot fail.
    let key = keys?.into_iter().next()?;
    Some(CdnScheme::new(&name?, &prefix?, scheme?, lifetime, key))
}

fn keys(raw: &Raw, scheme: Option<Scheme>, parameter: &str) -> Read<Vec<Key>> {
    if !(1..=2).contains(&raw.items().len()) {
        return Err("must be one or two keys, of which the first signs".to_owned());
    }
    KEYS.list(raw, |table| key(table, scheme?, parameter))
}

fn key(table: &mut Members<'_>, scheme: Scheme, parameter: &str) -> Option<Key> {
    let id = table.read("id", key_id);
    let member = match (table.has("key"), table.has("key_file")) {
        (true, false) => "key",
        (false, true) => "key_file",
        (true, true) => {
            table.refuse("key", "is set twice, here and by `key_file`: remove one");
            return None;
        }
        (false, false) => {
            table.refuse("key", "is missing, and so is `key_file`");
            return None;
        }
    };
    let id = id?;
    table.read(member, |raw| {
        let given = raw.text()?;
        let text = match member {
            "key_file" => read_secret(Path::new(given), true)
                .map_err(|why| format!("cannot be used: {why}"))?,
            _ => given.to_owned(),
        };
        // A private key has several lines; the other rules for secrets apply to it too.
        secret(16)(&Raw::Text(text.replace(['\r', '\n'], " ")))?;
        Key::parse(scheme, &id, &text, parameter).map_err(|why| why.to_string())
    })
}

fn key_id(raw: &Raw) -> Read<String> {
    let text = raw.text()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !(1..=64).contains(&text.len()) || !text.bytes().all(plain) {
        return Err("must be 1 to 64 letters, digits, - or _".to_owned());
    }
    Ok(text.to_owned())
}

fn parameter(raw: &Raw) -> Read<String> {
    key_id(raw)
}
