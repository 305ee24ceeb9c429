//! What operators of each role may read and do, and concurrent work of operators and clients.

use std::thread;

use playgate_types::Role;
use serde_json::{Value, json};

use crate::support::raw_http::{Answer, ask, request};
use crate::support::server::{PASSWORD, TestServer, token_in};
use crate::support::until::until;

fn get(server: &TestServer, token: &str, target: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let target = format!("/admin/v1/{target}");
    let headers = [("Authorization", bearer.as_str())];
    ask(server.ops, request("GET", &target, &headers, ""))
}

/// Returns id and text of the newest mail of a kind, as an administrator reads it.
fn mail(server: &TestServer, kind: &str) -> (String, String) {
    let listed = server.operator("GET", "mail", &Value::Null).json();
    let mails = listed.as_array().unwrap();
    let mail = mails.iter().find(|mail| mail["kind"] == kind).unwrap();
    let id = mail["id"].as_str().unwrap().to_owned();
    let shown = server.operator("GET", &format!("mail/{id}"), &Value::Null);
    assert_eq!(shown.json()["masked"], false);
    (id, shown.json()["text"].as_str().unwrap().to_owned())
}

fn mail_reads(server: &TestServer) -> Vec<(String, String)> {
    let listed = server
        .operator("GET", "audit?limit=1000", &Value::Null)
        .json();
    let entries = listed.as_array().unwrap().iter().rev();
    let shown = entries.filter(|entry| entry["action"] == "admin_show_mail");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = shown.map(|entry| (text(&entry["name"]), text(&entry["target"])));
    entries.collect()
}

#[test]
fn only_administrators_read_mail_secrets_and_each_read_is_audited() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let reset = json!({"email": "ann@example.com"});
    let sent = server.partner("POST", "/api/login/v2/password/send-reset-password", &reset);
    assert_eq!(sent.status, 200);
    let on = json!({"parentalControl": {"enabled": true}});
    assert_eq!(
        server
            .operator("PUT", &format!("users/{}", ann.id), &on)
            .status,
        200
    );
    let (reset, text) = mail(&server, "reset");
    let token = token_in(&text);
    let token = token.as_str();
    let (pin_mail, text) = mail(&server, "pin");
    let digits = |word: &&str| word.len() == 4 && word.bytes().all(|b| b.is_ascii_digit());
    let pin = text.split_whitespace().find(digits).unwrap();
    let by_admin = [("Eva", &reset), ("Eva", &pin_mail)];
    let by_admin = by_admin.map(|(name, id)| (name.to_owned(), format!("mail/{id}")));
    assert_eq!(mail_reads(&server), by_admin);

    for role in [Role::Agent, Role::Observer] {
        let reader = server.add_operator(role);
        for id in [&reset, &pin_mail] {
            let shown = get(&server, &reader, &format!("mail/{id}")).json();
            assert_eq!(shown["masked"], true);
            assert!(
                shown["text"].as_str().unwrap().contains("********"),
                "{shown}"
            );
        }
        for target in [
            "mail".to_owned(),
            "audit".to_owned(),
            format!("mail/{reset}"),
            format!("mail/{pin_mail}"),
            format!("users/{}", ann.id),
            "mail/preview/reset".to_owned(),
        ] {
            let answer = get(&server, &reader, &target);
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(!body.contains(token), "{target}: {body}");
            let members = body.replace("createdTimestamp", "");
            let shown = members.split(|c: char| !c.is_ascii_digit());
            // The preview has an invented PIN.
            assert!(target.contains("preview") || !shown.into_iter().any(|word| word == pin));
        }
        let role = get(&server, &reader, &format!("mail/{}", "x".repeat(22)));
        assert_eq!(role.status, 404);
    }
    assert_eq!(
        mail_reads(&server),
        by_admin,
        "what is masked is not recorded"
    );
}

/// The hash of a sign-up takes a while after its partner token was looked up.
#[test]
fn removing_a_partner_during_sign_ups_leaves_no_account() {
    let server = TestServer::with(&[("limits.sign_up_per_address", "10000")]);
    let made = server
        .operator("POST", "partners", &json!({"name": "Leaving"}))
        .json();
    let token = made["accessToken"].as_str().unwrap();
    let statuses: Vec<u16> = thread::scope(|scope| {
        let flood: Vec<_> = (0..16)
            .map(|n| {
                let server = &server;
                scope.spawn(move || {
                    let body = json!({
                        "identity": format!("user{n}@example.com"),
                        "accessKey": PASSWORD,
                    });
                    let headers = [("Service-AccessToken", token)];
                    let body = body.to_string();
                    let target = "/api/login/v2/auth/email";
                    ask(server.public, request("PUT", target, &headers, &body)).status
                })
            })
            .collect();
        // While the first hash is computed, almost all tokens have been looked up.
        until("the first account", || {
            !server.services.accounts.counts().is_empty() || flood.iter().any(|t| t.is_finished())
        });
        let removed = server.operator("DELETE", "partners/Leaving", &Value::Null);
        assert_eq!(removed.status, 204);
        flood
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(
        statuses.iter().all(|status| [200, 401].contains(status)),
        "{statuses:?}"
    );
    assert_eq!(
        server.services.accounts.list(None, None, 99).len(),
        0,
        "{statuses:?}"
    );
}
