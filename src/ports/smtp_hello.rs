//! The name with which the client greets a mail server (RFC 5321, 4.1.1.1).
//!
//! Many servers refuse recipients, or every mail, to a client that gives a bare host name.

use std::fs;

use lettre::transport::smtp::extension::ClientId;

/// The configured name, else the first full one of: the machine's name, its name in `/etc/hosts`, the service's public
/// name, the domain of the sender.
pub(super) fn hello(configured: Option<&str>, service: Option<&str>, sender: &str) -> ClientId {
    if let Some(name) = configured {
        return ClientId::Domain(name.to_owned());
    }
    let machine = ClientId::default().to_string();
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let found = [
        Some(machine.as_str()),
        name_in_hosts(&hosts, &machine),
        service,
        Some(sender),
    ]
    .into_iter()
    .flatten()
    .find(|name| is_full(name));
    // An address literal, which the RFC wants of a client without a name.
    found.map_or_else(ClientId::default, |name| ClientId::Domain(name.to_owned()))
}

fn is_full(name: &str) -> bool {
    let labels = name.split('.');
    let plain = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let local = name.ends_with(".localdomain") || name.ends_with(".localhost");
    labels.clone().count() > 1
        && labels.clone().all(plain)
        && !local
        // The last label of an IPv4 address is a number.
        && name.rsplit('.').next().is_some_and(|last| !last.bytes().all(|b| b.is_ascii_digit()))
}

fn name_in_hosts<'a>(hosts: &'a str, machine: &str) -> Option<&'a str> {
    hosts.lines().find_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let names = line.split_whitespace().skip(1);
        let is_of_machine = names.clone().any(|name| name == machine);
        let mut full = names.filter(|name| is_full(name) && name.starts_with(machine));
        full.next().filter(|_| is_of_machine)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_name_has_labels_and_is_no_address() {
        for full in ["mail.example.org", "a.b", "xn--bcher-kva.example"] {
            assert!(is_full(full), "{full}");
        }
        for incomplete in [
            "",
            "box",
            "10.0.0.1",
            "[127.0.0.1]",
            "localhost.localdomain",
            "a..b",
            "a_b.c",
        ] {
            assert!(!is_full(incomplete), "{incomplete}");
        }
    }

    #[test]
    fn the_machine_is_found_in_the_hosts_file() {
        let hosts = "127.0.0.1 localhost\n# 10.0.0.1 box.old.example box\n127.0.1.1\tbox.example.net box # own\n";
        assert_eq!(name_in_hosts(hosts, "box"), Some("box.example.net"));
        assert_eq!(name_in_hosts(hosts, "other"), None);
    }

    #[test]
    fn a_name_of_the_settings_wins() {
        let name = |configured| hello(configured, None, "example.org").to_string();
        assert_eq!(name(Some("[192.0.2.1]")), "[192.0.2.1]");
        assert!(name(None).contains('.'), "{}", name(None));
    }
}
