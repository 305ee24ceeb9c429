//! Each response of a test is in the request journal exactly once, or left out by the rule of its route, and no record
//! contains a token or the test password.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex};

use http::Method;
use playgate_http::RouteSet;
use playgate_http::routing::route::JournalRule;
use playgate_records::journal::{JournalFilter, JournalRecord};
use playgate_types::PartnerKind;

use crate::support::openapi_conformance::{asked, route};
use crate::support::raw_http::Answer;
use crate::support::server::{PASSWORD, TestServer};

struct SeenAnswer {
    id: String,
    method: Method,
    target: String,
    status: u16,
}

static SEEN: LazyLock<Mutex<HashMap<SocketAddr, Vec<SeenAnswer>>>> = LazyLock::new(Mutex::default);

/// Forgets earlier responses at the addresses of a new server, because only those of a `TestServer` are checked.
pub fn forget(addresses: [SocketAddr; 2]) {
    let mut seen = SEEN.lock().unwrap();
    for address in addresses {
        seen.remove(&address);
    }
}

pub fn note(address: SocketAddr, request: &[u8], answer: &Answer) {
    let id = answer.header("x-request-id");
    if let (Some(id), Some((method, target))) = (id, asked(request)) {
        let seen = SeenAnswer {
            id: id.to_owned(),
            method,
            target: target.to_owned(),
            status: answer.status,
        };
        SEEN.lock().unwrap().entry(address).or_default().push(seen);
    }
}

impl SeenAnswer {
    /// `None` if the response alone does not decide.
    fn is_kept(&self) -> Option<bool> {
        let path = self.target.split('?').next().unwrap();
        let refused = self.status >= 400;
        match route(RouteSet::Public, &self.method, path).map(|route| route.journal) {
            Some(JournalRule::Everything) => Some(true),
            Some(JournalRule::Changes) => None,
            Some(JournalRule::Refusals) | None => Some(refused),
        }
    }

    /// Returns whether the request may delete journal records: of a user, of a lab partner, or by age.
    fn erases(&self) -> bool {
        let path = self.target.split('?').next().unwrap();
        match path.starts_with("/admin/") {
            // A clock moved ahead ends the retention of records.
            true => {
                self.method != Method::GET && (path.ends_with("/reset") || path.contains("clock"))
            }
            false => {
                self.method == Method::DELETE && self.target.starts_with("/api/user/v1/users/")
            }
        }
    }
}

pub fn check(server: &TestServer) {
    // A later server may reuse either address.
    let [ops, seen] = {
        let mut seen = SEEN.lock().unwrap();
        [server.ops, server.public].map(|address| seen.remove(&address).unwrap_or_default())
    };
    let (services, journal) = (&server.services, &server.services.journal);
    journal.flush().unwrap();
    let records: Vec<JournalRecord> = journal
        .records(JournalFilter::default())
        .map(|record| record.unwrap())
        .collect();
    for record in &records {
        let text = format!("{record:?}");
        let secrets = [
            PASSWORD,
            &server.partner,
            &server.admin,
            "pgu_",
            "pge_",
            "pgr_",
            "pgo_",
        ];
        let found = secrets.iter().find(|secret| text.contains(**secret));
        assert_eq!(found, None, "a secret in the journal: {text}");
    }
    let counts = journal.counts();
    let complete = counts.dropped + counts.unwritten + counts.limited == 0
        && !ops.iter().chain(&seen).any(SeenAnswer::erases);
    let mut times: HashMap<&str, usize> = HashMap::new();
    for answer in &seen {
        *times.entry(&answer.id).or_default() += 1;
    }
    for answer in &seen {
        let found: Vec<_> = records
            .iter()
            .filter(|record| record.id == answer.id)
            .collect();
        // A test may send the same id twice, and a lab partner's requests are all kept.
        let in_lab = found.iter().any(|record| {
            let partner = record
                .partner
                .and_then(|partner| services.partners.kind(&partner));
            partner == Some(PartnerKind::Lab)
        });
        let masked = answer.id.contains("pg") && answer.id.contains('_');
        if times[answer.id.as_str()] > 1 || in_lab || masked {
            continue;
        }
        let SeenAnswer {
            id,
            method,
            target,
            status,
        } = answer;
        let what = format!("{method} {target}: {status}, {id}");
        match answer.is_kept() {
            Some(true) if complete => assert_eq!(found.len(), 1, "{what}"),
            Some(false) => assert_eq!(found.len(), 0, "{what}"),
            Some(true) | None => assert!(found.len() <= 1, "{what}"),
        }
        for record in found {
            assert_eq!(record.status, *status, "{what}");
        }
    }
}
