//! Names that the server knows: for completions, and for the answer to a name that it does not know.

use http::Method;
use serde_json::Value;

use super::{Admin, AdminError, path, request_body, with_query};
use crate::output::Failure;
use crate::output::members::{all, elements};
use playgate_decode::nearest;

/// Characters of a missing name that a message repeats.
const SHOWN_MAX: usize = 80;
/// Characters of an address by which similar addresses are searched.
const BEGINNING: usize = 3;

#[derive(Clone, Copy)]
pub(crate) enum KnownNames {
    /// Entries of a list, by a member of each.
    Listed(&'static [&'static str], &'static str),
    Users,
    /// Entries of the catalogue, by their kinds.
    Content(&'static [&'static str]),
}

pub(crate) const PARTNERS: KnownNames = KnownNames::Listed(&["partners"], "name");
pub(crate) const OPERATORS: KnownNames = KnownNames::Listed(&["operators"], "name");
pub(crate) const SOURCES: KnownNames = KnownNames::Listed(&["epg", "sources"], "name");
pub(crate) const BACKUPS: KnownNames = KnownNames::Listed(&["backups"], "name");

/// An error code, the kind of thing that it is about, the segment of the path or the parameter in front of its name, and the
/// names that there are.
const MISSING: [(&str, &str, &str, Option<KnownNames>); 11] = [
    ("PARTNER_NOT_FOUND", "partner", "partners", Some(PARTNERS)),
    ("PARTNER_NOT_FOUND", "partner", "partner", Some(PARTNERS)),
    (
        "OPERATOR_NOT_FOUND",
        "operator",
        "operators",
        Some(OPERATORS),
    ),
    ("USER_NOT_FOUND", "user", "users", Some(KnownNames::Users)),
    ("USER_NOT_FOUND", "user", "user", Some(KnownNames::Users)),
    (
        "OFFER_NOT_FOUND",
        "offer",
        "grants",
        Some(KnownNames::Content(&["offer"])),
    ),
    (
        "LIVESTREAM_NOT_FOUND",
        "livestream",
        "livestreams",
        Some(KnownNames::Content(&["livestream"])),
    ),
    ("BACKUP_NOT_FOUND", "backup", "backups", Some(BACKUPS)),
    (
        "EPG_SOURCE_NOT_FOUND",
        "EPG source",
        "sources",
        Some(SOURCES),
    ),
    ("BROADCAST_NOT_FOUND", "broadcast", "broadcasts", None),
    ("MAIL_NOT_FOUND", "message", "mail", None),
];

impl KnownNames {
    /// Asks the server. Of users, of whom there may be millions, only those that match `begun`.
    pub(crate) async fn ask(self, admin: &mut Admin, begun: &str) -> Result<Vec<String>, Failure> {
        let get = async |admin: &mut Admin, target: String| {
            let nothing = request_body::nothing();
            let asked = admin
                .send(Method::GET, &target, "application/json", nothing)
                .await?;
            // Without the names there is no suggestion.
            Ok::<_, Failure>(asked.unwrap_or_default())
        };
        Ok(match self {
            Self::Listed(segments, member) => {
                texts_of(all(&get(admin, path(segments)).await?), member)
            }
            Self::Users => {
                let search = Some(begun).filter(|begun| !begun.is_empty());
                let target = with_query(path(&["users"]), &[("search", search)]);
                texts_of(all(&get(admin, target).await?), "email")
            }
            Self::Content(kinds) => {
                let target = with_query(path(&["catalog"]), &[("format", Some("json"))]);
                let catalog = get(admin, target).await?;
                let kinds = kinds.iter();
                kinds
                    .flat_map(|kind| texts_of(elements(&catalog, kind), "id"))
                    .collect()
            }
        })
    }
}

fn texts_of(entries: &[Value], member: &str) -> Vec<String> {
    let entries = entries.iter();
    let texts = entries.filter_map(|entry| entry.get(member)?.as_str());
    texts.map(str::to_owned).collect()
}

/// The text of a missing name, and the nearest of those that there are.
pub(crate) fn no_such<'k>(what: &str, named: &str, known: impl Iterator<Item = &'k str>) -> String {
    let mut shown: String = named
        .chars()
        .filter(|c| !c.is_control())
        .take(SHOWN_MAX)
        .collect();
    if shown.len() < named.len() {
        shown.push('…');
    }
    match nearest(named, known) {
        // A name that exists is missing for another reason, such as the user of another partner.
        Some(near) if near != named => format!("no {what} `{shown}`; did you mean `{near}`?"),
        _ => format!("no {what} `{shown}`"),
    }
}

/// Finds what a refused request named and the server does not know.
fn missing(code: &str, target: &str) -> Option<(&'static str, String, Option<KnownNames>)> {
    MISSING
        .iter()
        .filter(|(of, ..)| *of == code)
        .find_map(|(_, what, behind, known)| {
            let mut words = target.split(['/', '?', '&', '=']);
            words.find(|word| word == behind)?;
            let named = decoded(words.next()?);
            Some((*what, named, *known))
        })
}

/// Undoes [`percent_encoded`](playgate_types::percent_encoded).
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        bytes.extend(u8::from_str_radix(digits, 16));
        bytes.extend(rest.bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Admin {
    /// Names what a request asked for and the server does not know, and what is most like it.
    pub(super) async fn explain_missing(&mut self, target: &str, refusal: AdminError) -> Failure {
        let found = missing(&refusal.code, target);
        let failure = Failure::from(refusal);
        let Some((what, named, known)) = found else {
            return failure;
        };
        let known = match known {
            Some(known) => {
                let begun: String = named.chars().take(BEGINNING).collect();
                known.ask(self, &begun).await.unwrap_or_default()
            }
            None => Vec::new(),
        };
        let known = known.iter().map(String::as_str);
        failure.with_message(no_such(what, &named, known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_name_is_found_in_the_path_or_the_query() {
        for (code, target, expected) in [
            (
                "PARTNER_NOT_FOUND",
                "/admin/v1/partners/North%20TV/tokens",
                Some(("partner", "North TV")),
            ),
            (
                "PARTNER_NOT_FOUND",
                "/admin/v1/users?limit=1&partner=Noth",
                Some(("partner", "Noth")),
            ),
            (
                "USER_NOT_FOUND",
                "/admin/v1/users/ann%40x.example/grants/a",
                Some(("user", "ann@x.example")),
            ),
            (
                "OFFER_NOT_FOUND",
                "/admin/v1/users/ann/grants/premum",
                Some(("offer", "premum")),
            ),
            ("REQUEST_NOT_FOUND", "/admin/v1/requests/x", None),
            ("PARTNER_NOT_FOUND", "/admin/v1/users", None),
        ] {
            let found = missing(code, target);
            let found = found
                .as_ref()
                .map(|(what, named, _)| (*what, named.as_str()));
            assert_eq!(found, expected, "{target}");
        }
    }

    #[test]
    fn the_nearest_name_is_suggested() {
        let no_such = |named| no_such("offer", named, ["North TV", "premium"].into_iter());
        assert_eq!(
            no_such("premum"),
            "no offer `premum`; did you mean `premium`?"
        );
        assert_eq!(no_such("x"), "no offer `x`");
        assert_eq!(no_such("premium"), "no offer `premium`");
        assert_eq!(no_such("a\u{1b}[31m"), "no offer `a[31m…`");
    }
}
