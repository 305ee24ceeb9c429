//! Content delivery networks: a list of tables, allowed in the file only. Their keys are converted to
//! signers here and are not kept as text.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use super::enums::word_of;
use super::schema::{Refusal, read_secret};
use super::setting::{Read, Setting};
use super::table_list::{distinct, tables};
use super::value_parsers::{base_url, duration, enum_value, secret, text};
use playgate_decode::{Node, TableDecoder};
use playgate_domain::playback::{CdnScheme, Scheme, SigningKey};

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

pub(super) fn networks(raw: &Node) -> Result<Vec<CdnScheme>, Refusal> {
    let mut prefixes = HashSet::new();
    tables(raw, "network", |table| {
        let prefix = table.required("prefix", |raw| {
            let prefix = base_url(raw)?;
            match prefixes.insert(prefix.clone()) {
                true => Ok(prefix),
                // The network of an address is the one with the longest prefix: two equal ones would be ambiguous.
                false => Err("is also the prefix of another network".to_owned()),
            }
        });
        network(table, prefix)
    })
}

fn network(table: &TableDecoder<'_>, prefix: Option<String>) -> Option<CdnScheme> {
    let name = table.required("name", text(64));
    let scheme = table.required("scheme", enum_value::<Scheme>);
    let lifetime = table.read("lifetime", duration(60..=2_592_000));
    let parameter = table.read("parameter", |raw| match scheme {
        None | Some(Scheme::Akamai) => key_id(raw),
        Some(_) => Err("is allowed only with the scheme `akamai`".to_owned()),
    });
    let parameter = parameter.unwrap_or_else(|| PARAMETER.to_owned());
    let nodes = table.required("keys", |raw| match raw.elements() {
        nodes @ ([_] | [_, _]) => Ok(nodes),
        _ => Err("must be one or two keys, of which the first signs".to_owned()),
    });
    let keys = nodes.unwrap_or_default().iter();
    let keys = keys.filter_map(|node| table.as_table("keys", node));
    let keys = distinct(keys, "id", |table| key(table, scheme, &parameter));
    let seconds = lifetime.unwrap_or(LIFETIME).as_secs();
    let lifetime = i64::try_from(seconds).unwrap_or(i64::MAX);
    // Only the first key signs. The second has been checked, so that swapping the two cannot fail.
    let key = keys.into_iter().next()?;
    Some(CdnScheme::new(&name?, &prefix?, scheme?, lifetime, key))
}

fn key(table: &TableDecoder<'_>, scheme: Option<Scheme>, parameter: &str) -> Option<SigningKey> {
    let id = table.required("id", key_id);
    let (member, node) = match (table.node("key"), table.node("key_file")) {
        (Some(node), None) => ("key", node),
        (None, Some(node)) => ("key_file", node),
        (Some(node), Some(_)) => {
            table.wrong(
                "key",
                node,
                "is set twice, here and by `key_file`: remove one",
            );
            return None;
        }
        (None, None) => {
            table.report("`key` or `key_file` is required");
            return None;
        }
    };
    let (id, scheme) = (id?, scheme?);
    table.read_node(member, node, |raw| {
        let given = raw.text()?;
        let text = match member {
            "key_file" => read_secret(Path::new(given), true)
                .map_err(|why| format!("cannot be used: {why}"))?,
            _ => given.to_owned(),
        };
        // A private key has several lines; the other rules for secrets apply to it too.
        secret(16)(&Node::loose(text.replace(['\r', '\n'], " ")))?;
        SigningKey::parse(scheme, &id, &text, parameter).map_err(|why| why.to_string())
    })
}

fn key_id(raw: &Node) -> Read<String> {
    let text = raw.text()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !(1..=64).contains(&text.len()) || !text.bytes().all(plain) {
        return Err("must be 1 to 64 letters, digits, - or _".to_owned());
    }
    Ok(text.to_owned())
}
