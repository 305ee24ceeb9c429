//! Content delivery networks: a list of tables, which the file alone can hold. Their keys are read
//! here and become what signs: nothing else ever holds them as text.

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
/// The key is given in one of two ways.
const KEYS: TableSchema = TableSchema {
    what: "a key",
    members: &["id", "key", "key_file"],
    needed: &["id"],
};
/// The member of a list in which a secret may stand.
pub(super) const SECRET: (&str, &str) = ("cdn.networks", "key");

/// How long an address is good unless a network says otherwise: as long as an entitlement.
const LIFETIME: Duration = Duration::from_secs(86_400);
/// The query parameter of Akamai's tokens, as Akamai's examples for media call it.
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
    if prefixes.windows(2).any(|pair| pair.first() == pair.last()) {
        return Err("has two networks of the same prefix".to_owned());
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
        table.refuse("parameter", "is of the scheme `akamai` alone");
    }
    let parameter = parameter.unwrap_or_else(|| PARAMETER.to_owned());
    let keys = table.read("keys", |raw| keys(raw, scheme, &parameter));
    let seconds = lifetime.unwrap_or(LIFETIME).as_secs();
    let lifetime = i64::try_from(seconds).unwrap_or(i64::MAX);
    // Only the first signs. The other has been checked, so that turning the two around cannot fail.
    let key = keys?.into_iter().next()?;
    Some(CdnScheme::new(&name?, &prefix?, scheme?, lifetime, key))
}

/// One key, or two while one takes the place of the other.
fn keys(raw: &Raw, scheme: Option<Scheme>, parameter: &str) -> Read<Vec<Key>> {
    if !(1..=2).contains(&raw.items().len()) {
        return Err("must be one key or two: the first signs".to_owned());
    }
    KEYS.list(raw, |table| key(table, scheme?, parameter))
}

fn key(table: &mut Members<'_>, scheme: Scheme, parameter: &str) -> Option<Key> {
    let id = table.read("id", key_id);
    let member = match (table.has("key"), table.has("key_file")) {
        (true, false) => "key",
        (false, true) => "key_file",
        (true, true) => {
            table.refuse("key", "is given twice, here and by `key_file`: keep one");
            return None;
        }
        (false, false) => {
            table.refuse("key", "is absent, and `key_file` too");
            return None;
        }
    };
    let id = id?;
    table.read(member, |raw| {
        let given = raw.text()?;
        let text = match member {
            "key_file" => read_secret(Path::new(given), true)
                .map_err(|why| format!("cannot be taken: {why}"))?,
            _ => given.to_owned(),
        };
        // A private key has lines; what else a secret must be holds for all.
        secret(16)(&Raw::Text(text.replace(['\r', '\n'], " ")))?;
        Key::parse(scheme, &id, &text, parameter).map_err(|why| why.to_string())
    })
}

fn key_id(raw: &Raw) -> Read<String> {
    let text = raw.text()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !(1..=64).contains(&text.len()) || !text.bytes().all(plain) {
        return Err("must have 1 to 64 letters, digits, - and _".to_owned());
    }
    Ok(text.to_owned())
}

/// The name of a query parameter.
fn parameter(raw: &Raw) -> Read<String> {
    key_id(raw)
}
