//! The sender of mails.

use std::fmt;

use playgate_types::Email;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox {
    pub name: Option<String>,
    pub email: Email,
}

impl Mailbox {
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let quotes = ['"', '“', '”', '„', '\''];
        let (name, address) = match text.split_once('<') {
            Some((name, rest)) => (name.trim().trim_matches(quotes), rest.strip_suffix('>')?),
            None => ("", text),
        };
        Some(Self {
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            email: Email::parse(address).ok()?,
        })
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} <{}>", self.email),
            None => write!(f, "{}", self.email),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_has_an_address_and_an_optional_name() {
        for (text, name) in [
            ("tv@example.org", None),
            ("<tv@example.org>", None),
            ("Playgate <tv@example.org>", Some("Playgate")),
            ("\"TV, Inc.\" <tv@example.org>", Some("TV, Inc.")),
            (" “Playgate” <tv@example.org> ", Some("Playgate")),
            ("Playgate <mailto:tv@example.org>", Some("Playgate")),
            ("mailto:tv@example.org", None),
        ] {
            let sender = Mailbox::parse(text).unwrap();
            assert_eq!(sender.email.as_str(), "tv@example.org");
            assert_eq!(sender.name.as_deref(), name, "{text}");
            assert_eq!(Mailbox::parse(&sender.to_string()), Some(sender));
        }
        for bad in [
            "",
            "TV",
            "TV <tv@example.org",
            "TV <tv@example.org> x",
            "a@b.c, d@e.f",
        ] {
            assert_eq!(Mailbox::parse(bad), None, "{bad}");
        }
    }
}
