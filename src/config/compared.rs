//! The settings that the members of a fleet compare with each other.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use ring::{digest, hmac};

use super::Effective;
use super::secret::MASK;
use playgate_decode::{Node, Value};

/// Keys whose values belong to one machine: its addresses, paths, capacity and log.
const OF_MACHINE: [&str; 26] = [
    "listen",
    "data_dir",
    "tls.cert",
    "tls.key",
    "tls.listen",
    "ops.listen",
    "ops.hosts",
    "limits.connections",
    "schedule.zoneinfo",
    "http.messages",
    "origin.media_dir",
    "mail.templates",
    "mail.brand.logo",
    "backup.dir",
    "geo.database",
    "log.format",
    "log.level",
    "log.access",
    "fleet.endpoints",
    "fleet.ca",
    "fleet.username",
    "fleet.password",
    "fleet.client_cert",
    "fleet.client_key",
    "fleet.listen",
    "fleet.advertise",
];
const OF_MEMBER: &str = "fleet.may_own";
/// Hexadecimal digits of a digest that are compared and shown.
const DIGITS: usize = 8;

/// Returns the settings that must be equal on all members, and the values to compare. A value that may not be shown is
/// replaced by a digest with the key of the fleet, so that nobody who lacks the key can guess it.
pub fn compared(effective: &[Effective], key: &[u8; 32]) -> BTreeMap<String, String> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let settings = effective
        .iter()
        .filter(|one| !OF_MACHINE.contains(&&*one.key) && one.key != OF_MEMBER);
    let values = settings.map(|one| {
        let value = match one.digest {
            Some(plain) => {
                let digest = HEXLOWER.encode(hmac::sign(&key, &plain).as_ref());
                format!("digest {}", digest.get(..DIGITS).unwrap_or_default())
            }
            None => one.value.clone().unwrap_or_default(),
        };
        (one.key.clone(), value)
    });
    values.collect()
}

/// Whether the shown form of a value lacks a part: a secret, or members of a table.
pub(super) fn is_shortened(raw: &Node, shown: Option<&str>) -> bool {
    shown.is_some_and(|shown| shown.contains(MASK)) || has_table(raw)
}

fn has_table(raw: &Node) -> bool {
    match &raw.value {
        Value::Table(_) => true,
        Value::List(items) => items.iter().any(has_table),
        Value::Text(_)
        | Value::Loose(_)
        | Value::Integer(_)
        | Value::Boolean(_)
        | Value::Time(_)
        | Value::Other(_) => false,
    }
}

pub(super) fn raw_digest(raw: &Node) -> [u8; 32] {
    let mut text = String::new();
    write_canonical(raw, &mut text);
    let mut whole = [0; 32];
    whole.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
    whole
}

/// Writes a value without its place in the file, and the members of a table in one order.
fn write_canonical(raw: &Node, out: &mut String) {
    match &raw.value {
        Value::Text(text) | Value::Loose(text) | Value::Time(text) => write_quoted(text, out),
        Value::Integer(number) => write_quoted(&number.to_string(), out),
        Value::Boolean(flag) => write_quoted(&flag.to_string(), out),
        Value::List(items) => {
            out.push('[');
            items.iter().for_each(|item| write_canonical(item, out));
            out.push(']');
        }
        Value::Table(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|a, b| a.name.cmp(&b.name));
            out.push('{');
            for member in members {
                write_quoted(&member.name, out);
                write_canonical(&member.node, out);
            }
            out.push('}');
        }
        Value::Other(kind) => out.push_str(kind),
    }
}

fn write_quoted(text: &str, out: &mut String) {
    out.push_str(&format!("{text:?}"));
}
