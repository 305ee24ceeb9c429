//! E-mail addresses of accounts.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Malformed;
use super::pasted::unwrapped;

/// A normalised e-mail address: without what surrounds a pasted one, the domain in lower-case ASCII, the local part in lower case. Two
/// spellings of one mailbox are one account.
///
/// The local part must be ASCII: a look-alike letter from another script would make a different account that
/// a reader cannot tell apart, and mail to it needs SMTPUTF8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Email(String);

impl Email {
    pub const MAX: usize = 254;

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        // Bounds the work of IDNA.
        if text.len() > Self::MAX * 4 {
            return Err(Malformed("an e-mail address has at most 254 octets"));
        }
        let text = unwrapped(text);
        let text = without_comment(address_in(without_label(&text)))
            .trim_end_matches(['.', ',', ';', ':']);
        let (local, domain) = text
            .rsplit_once('@')
            .ok_or(Malformed("an e-mail address has the form name@domain"))?;
        // Keyboards of telephones put a space after a word that they know.
        let (local, domain) = (local.trim_end(), domain.trim_start());
        let domain = idna::domain_to_ascii_strict(domain)
            .map_err(|_| Malformed("the domain of the e-mail address is not valid"))?;
        // `user@localhost` would be delivered on this machine.
        let dotted = domain.contains('.') && !domain.ends_with('.');
        if !dotted || !local_is_plain(local) {
            return Err(Malformed("an e-mail address has the form name@domain"));
        }
        // RFC 5321 allows case-sensitive local parts; no provider has them, and two accounts for one mailbox
        // would be a trap.
        let address = format!("{}@{domain}", local.to_ascii_lowercase());
        if address.len() > Self::MAX {
            return Err(Malformed("an e-mail address has at most 254 octets"));
        }
        Ok(Self(address))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The address in `mailto:ann@example.com?subject=…` or `Ann <ann@example.com>`.
fn address_in(text: &str) -> &str {
    let named = text.strip_suffix('>').and_then(|text| text.split_once('<'));
    let text = match named {
        // Mail programs also put the address itself before it. Another address there would be a trap.
        Some((name, inner)) if !name.contains('@') || inner.ends_with(name.trim()) => inner.trim(),
        _ => text,
    };
    let scheme = |text: &str| text.eq_ignore_ascii_case("mailto:");
    match text.split_at_checked(7).filter(|(head, _)| scheme(head)) {
        Some((_, rest)) => rest.split_once('?').map_or(rest, |(address, _)| address),
        None => text,
    }
}

/// `E-Mail: ann@example.com`, as copied from a card.
fn without_label(text: &str) -> &str {
    let word = |label: &str| {
        label
            .chars()
            .all(|c| c.is_alphabetic() || matches!(c, '-' | ' '))
    };
    match text.split_once(':') {
        // Not a scheme: what follows the one of a page is no address.
        Some((label, rest))
            if word(label) && !rest.starts_with('/') && !label.eq_ignore_ascii_case("mailto") =>
        {
            rest.trim()
        }
        _ => text,
    }
}

/// `ann@example.com (Ann)`: a comment of RFC 5322.
fn without_comment(text: &str) -> &str {
    let commented = text
        .strip_suffix(')')
        .and_then(|text| text.split_once(" ("));
    match commented {
        Some((address, comment)) if !comment.contains('@') => address.trim_end(),
        _ => text,
    }
}

fn local_is_plain(local: &str) -> bool {
    // A dot-atom of RFC 5321: it needs no quoting, so an address cannot inject a second header or recipient.
    !local.is_empty()
        && local.len() <= 64
        && local.split('.').all(|atom| {
            !atom.is_empty()
                && atom
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b))
        })
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Redacted: an address is personal data and must not be logged with a structure.
impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Email(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_mailbox_are_one_address() {
        for text in [
            "ann@example.com",
            " Ann@EXAMPLE.com ",
            "ANN@example.com\n",
            "\u{a0}ann@example.com\u{a0}",
            "\u{feff}ann@example.com",
            "ann@\u{200b}example.com",
            "\u{202a}ann@example.com\u{202c}",
            "ann@exam\u{ad}ple.com",
            "a\u{200d}nn@example.com",
            "mailto:ann@example.com",
            "MAILTO:ann@example.com?subject=Hello",
            "<ann@example.com>",
            "<mailto:ann@example.com>",
            "Ann <ann@example.com>",
            "\"Ann, TV\" <ann@example.com>",
            "ann@example.com <mailto:ann@example.com>",
            "\"ann@example.com\"",
            "“ann@example.com”",
            "„ann@example.com“",
            "ann@example.com.",
            "ann@example.com,",
            "ann@example.com;",
            "ann @ example.com",
            "ann@example.com (Ann)",
            "E-Mail: ann@example.com",
            "Email:ann@example.com",
            "‹ann@example.com›",
        ] {
            let address = Email::parse(text).unwrap_or_else(|why| panic!("{text:?}: {why}"));
            assert_eq!(address.as_str(), "ann@example.com");
        }
        assert_eq!(
            Email::parse("a@bücher.example").unwrap().as_str(),
            "a@xn--bcher-kva.example"
        );
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        let long = format!("{}@example.com", "a".repeat(65));
        for bad in [
            "",
            "@",
            "a",
            "a@",
            "@b.c",
            "a b@c.d",
            "a@b",
            "a@b.",
            "a@b..c",
            ".a@b.c",
            "a.@b.c",
            "a\r\nBcc: x@y.z@b.c",
            "a@b.c, d@e.f",
            "a@b.c; d@e.f",
            "a@b.c <d@e.f>",
            "<a@b.c> <d@e.f>",
            "a@b.c>",
            "a@b.c (d@e.f)",
            "https://a@b.c",
            "x@y.z: a@b.c",
            "ann＠example.com",
            "ａｎｎ@example.com",
            "a@b .c",
            "a b@c.d",
            "mailto:a@b.c,d@e.f",
            "\"a\"@b.c",
            "аnn@example.com",
            &long,
        ] {
            assert!(Email::parse(bad).is_err(), "{bad:?}");
        }
    }
}
