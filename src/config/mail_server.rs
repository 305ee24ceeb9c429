//! `smtp.host` as people write it: a host, a host with a port, or the address that other programs have in one setting.

use playgate_types::pasted::unwrapped;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MailServer {
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// Whether its scheme stands for TLS from the first byte.
    pub(super) tls: bool,
    /// What has no single meaning, as a warning. A service that runs with it must still start after an upgrade.
    pub(super) doubt: Option<&'static str>,
}

impl MailServer {
    pub(super) fn parse(written: &str) -> Self {
        let text = unwrapped(written);
        let (scheme, rest) = text.split_once("://").unwrap_or(("", &text));
        let rest = rest.trim_end_matches('/');
        let scheme = scheme.to_ascii_lowercase();
        let (host, port) = port_of(rest);
        let doubt = match scheme.as_str() {
            _ if rest.contains('@') => Some(
                "`smtp.host` has a user in it: write the host name alone, and the user as `smtp.username`, the password as `smtp.password_file`",
            ),
            "" | "smtp" | "smtps" | "ssl" if !is_host(host) => {
                Some("`smtp.host` is not a host name; write a name such as \"mail.example.org\"")
            }
            "" | "smtp" | "smtps" | "ssl" => None,
            "tls" => Some(
                "`tls://` in `smtp.host` stands for two things: write the host name alone, with `smtp.security = \"starttls\"` (port 587) or \"tls\" (port 465)",
            ),
            _ => Some(
                "`smtp.host` is an address of something else than a mail server; write a name such as \"mail.example.org\"",
            ),
        };
        match doubt {
            // As it was written: nothing is guessed.
            Some(_) => Self {
                host: written.to_owned(),
                port: None,
                tls: false,
                doubt,
            },
            None => Self {
                host: host.to_owned(),
                port,
                tls: matches!(scheme.as_str(), "smtps" | "ssl"),
                doubt,
            },
        }
    }
}

fn port_of(text: &str) -> (&str, Option<u16>) {
    // An IPv6 address without brackets has several colons, and no port.
    let split = text.rsplit_once(':');
    let split = split.filter(|(host, port)| {
        !port.ends_with(']') && (host.ends_with(']') || !host.contains(':'))
    });
    let Some((host, port)) = split else {
        return (normalized_host(text), None);
    };
    match port.parse() {
        Ok(0) | Err(_) => (text, None),
        Ok(port) => (normalized_host(host), Some(port)),
    }
}

fn normalized_host(host: &str) -> &str {
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    // A final dot says that the name is complete; certificates have none.
    inner.unwrap_or(host).trim_end_matches('.')
}

fn is_host(text: &str) -> bool {
    let named = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_address = text.parse::<std::net::IpAddr>().is_ok();
    is_address || (!text.is_empty() && text.chars().all(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_server_is_understood_as_other_programs_write_it() {
        let plain = ("mail.example", None, false);
        for (written, (host, port, tls)) in [
            ("mail.example", plain),
            (" mail.example ", plain),
            ("\u{feff}mail.example\u{a0}", plain),
            ("<mail.example>", plain),
            ("“mail.example”", plain),
            ("mail.example.", plain),
            ("smtp://mail.example", plain),
            ("SMTP://mail.example/", plain),
            ("mail.example:2525", ("mail.example", Some(2_525), false)),
            (
                "smtp://mail.example:587",
                ("mail.example", Some(587), false),
            ),
            ("smtps://mail.example", ("mail.example", None, true)),
            ("ssl://mail.example:465", ("mail.example", Some(465), true)),
            ("192.0.2.1", ("192.0.2.1", None, false)),
            ("192.0.2.1:25", ("192.0.2.1", Some(25), false)),
            ("2001:db8::1", ("2001:db8::1", None, false)),
            ("[2001:db8::1]", ("2001:db8::1", None, false)),
            ("[2001:db8::1]:25", ("2001:db8::1", Some(25), false)),
            ("smtp-relay", ("smtp-relay", None, false)),
            ("post.bücher.example", ("post.bücher.example", None, false)),
        ] {
            let server = MailServer::parse(written);
            assert_eq!(server.doubt, None, "{written}");
            let read = (server.host.as_str(), server.port, server.tls);
            assert_eq!(read, (host, port, tls), "{written}");
        }
    }

    #[test]
    fn mail_server_that_has_no_single_meaning_is_left_alone_and_told() {
        for (written, told) in [
            ("tls://mail.example", "stands for two things"),
            ("https://mail.example/owa", "something else"),
            ("tv@mail.example", "has a user"),
            ("smtps://tv:secret@mail.example:465", "has a user"),
            ("mail example", "not a host name"),
            ("mail.example:smtp", "not a host name"),
            ("mail.example:0", "not a host name"),
            ("mail.example:99999", "not a host name"),
            ("mail.example/inbox", "not a host name"),
            ("mail.example, mail2.example", "not a host name"),
            ("smtp://", "not a host name"),
        ] {
            let server = MailServer::parse(written);
            assert!(server.doubt.unwrap().contains(told), "{written}");
            assert_eq!((server.host.as_str(), server.port), (written, None));
        }
    }
}
