//! The user's own record, password, PIN and sessions, and how operators manage users, partners and operators.

use std::sync::{Arc, RwLock};

use serde_json::{Value, json};

use crate::support::playback_fixture::PlaybackFixture;
use crate::support::raw_http::{Answer, ask, request};
use crate::support::server::{PASSWORD, TestServer, Viewer};
use crate::support::until::until;

impl TestServer {
    /// Sends a request about a user with the token of this user. `below` is the rest of the path.
    fn user_request(&self, viewer: &Viewer, method: &str, below: &str, body: &Value) -> Answer {
        let target = format!("/api/user/v1/users/{}{below}", viewer.id);
        self.user(&viewer.token, method, &target, body)
    }

    fn log_in(&self, email: &str, password: &str) -> Answer {
        let body = json!({"identity": email, "accessKey": password});
        self.partner("POST", "/api/login/v2/auth/email", &body)
    }

    /// Returns the PIN in the newest PIN mail.
    fn mailed_pin(&self) -> String {
        let mails = self.operator("GET", "mail", &Value::Null).json();
        let mails = mails.as_array().unwrap();
        let newest = mails.iter().find(|mail| mail["kind"] == "pin").unwrap();
        let id = newest["id"].as_str().unwrap();
        let mail = self
            .operator("GET", &format!("mail/{id}"), &Value::Null)
            .json();
        let text = mail["text"].as_str().unwrap().to_owned();
        let digits = |word: &&str| word.bytes().all(|b| b.is_ascii_digit());
        text.split_whitespace().find(digits).unwrap().to_owned()
    }
}

#[test]
fn updates_merge_only_members_that_users_may_change() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let change = json!({
        "name": "Anna", "locale": "pt_BR", "birthDate": "1990-02-03",
        "email": "Ann@Example.com", "tags": [], "userId": ann.id, "disabled": false, "shoeSize": 44,
    });
    let changed = server.user_request(&ann, "PUT", "", &change);
    assert_eq!(changed.status, 200);
    let expected = json!({
        "userId": ann.id, "email": "ann@example.com", "name": "Anna", "locale": "pt-BR",
        "birthDate": "1990-02-03", "createdTimestamp": 1_767_268_800, "tags": [],
        "parentalControl": {"enabled": false, "limit": 18},
    });
    assert_eq!(changed.json(), expected);
    assert_eq!(
        server.user_request(&ann, "PUT", "", &json!({})).json(),
        expected
    );
    assert_eq!(
        server.user_request(&ann, "GET", "", &Value::Null).json(),
        expected
    );
    for (member, value) in [
        ("birthDate", json!("2024-02-30")),
        ("name", json!(5)),
        ("parentalControl.limit", json!(100)),
    ] {
        let body = match member.split_once('.') {
            Some((outer, inner)) => json!({outer: {inner: value}}),
            None => json!({member: value}),
        };
        let answer = server.user_request(&ann, "PUT", "", &body);
        assert_eq!((answer.status, answer.field().as_str()), (400, member));
    }
}

#[test]
fn another_users_id_is_unknown_on_every_route() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let bob = server.sign_up("bob@example.com");
    let as_bob = Viewer {
        token: bob.token.clone(),
        ..ann.clone()
    };
    let password = json!({"password": PASSWORD, "currentPassword": PASSWORD, "newPassword": "a b c d e f", "newPinCode": "1234"});
    for (method, below) in [
        ("GET", ""),
        ("PUT", ""),
        ("DELETE", ""),
        ("PUT", "/password"),
        ("PUT", "/pin"),
        ("POST", "/pin/reset"),
        ("GET", "/sessions"),
        ("DELETE", "/sessions"),
        ("GET", "/export"),
        ("DELETE", &format!("/sessions/{}", ann.session)),
    ] {
        let answer = server.user_request(&as_bob, method, below, &password);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (404, "USER_NOT_FOUND"),
            "{method} {below}"
        );
    }
    let foreign = server.user_request(
        &bob,
        "DELETE",
        &format!("/sessions/{}", ann.session),
        &Value::Null,
    );
    assert_eq!(
        (foreign.status, foreign.code().as_str()),
        (404, "SESSION_NOT_FOUND")
    );
    assert_eq!(
        server.user_request(&ann, "GET", "", &Value::Null).status,
        200
    );
}

#[test]
fn a_new_password_ends_the_other_sessions() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let phone = crate::support::server::viewer(&server.log_in("ann@example.com", PASSWORD));
    let change = |current: &str, new: &str| {
        let body = json!({"currentPassword": current, "newPassword": new});
        server.user_request(&ann, "PUT", "/password", &body)
    };
    let wrong = change("wrong wrong", "goats gruff and gruffer");
    // 403, because clients log the viewer out after a 401.
    assert_eq!(
        (wrong.status, wrong.code().as_str()),
        (403, "PASSWORD_WRONG")
    );
    let weak = change(PASSWORD, "12345678");
    assert_eq!(
        (weak.code().as_str(), weak.field().as_str()),
        ("PASSWORD_TOO_COMMON", "newPassword")
    );
    assert_eq!(change(PASSWORD, "goats gruff and gruffer").status, 200);
    assert_eq!(
        server.user_request(&ann, "GET", "", &Value::Null).status,
        200
    );
    assert_eq!(
        server.user_request(&phone, "GET", "", &Value::Null).status,
        401
    );
    assert_eq!(server.log_in("ann@example.com", PASSWORD).status, 401);
    assert_eq!(
        server
            .log_in("ann@example.com", "goats gruff and gruffer")
            .status,
        200
    );
}

#[test]
fn changing_parental_settings_needs_the_pin() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let on = server.user_request(
        &ann,
        "PUT",
        "",
        &json!({"parentalControl": {"enabled": true, "limit": 15}}),
    );
    assert_eq!(
        on.json()["parentalControl"],
        json!({"enabled": true, "limit": 15})
    );
    let pin = server.mailed_pin();
    let wrong = if pin == "0000" { "1111" } else { "0000" };
    let off = |pin: Option<&str>| {
        let mut body = json!({"parentalControl": {"enabled": false}});
        if let Some(pin) = pin {
            body["pinCode"] = pin.into();
        }
        server.user_request(&ann, "PUT", "", &body)
    };
    assert_eq!(
        (off(None).status, off(None).code().as_str()),
        (403, "PIN_CODE_REQUIRED")
    );
    let refused = off(Some(wrong));
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (403, "PIN_CODE_WRONG")
    );
    assert_eq!(
        refused.json()["error"]["details"],
        json!({"attemptsLeft": 4})
    );
    // A change that needs no PIN counts no attempt.
    assert_eq!(
        server
            .user_request(&ann, "PUT", "", &json!({"name": "A", "pinCode": wrong}))
            .status,
        200
    );
    let change = json!({"pinCode": pin, "newPinCode": "246810"});
    assert_eq!(
        server.user_request(&ann, "PUT", "/pin", &change).status,
        200
    );
    for left in (0..4).rev() {
        assert_eq!(
            off(Some(wrong)).json()["error"]["details"]["attemptsLeft"],
            left
        );
    }
    let locked = off(Some("246810"));
    assert_eq!(
        (locked.status, locked.code().as_str()),
        (429, "PIN_CODE_LOCKED")
    );
    assert_eq!(locked.header("retry-after"), Some("900"));
    server.wait(900);
    assert_eq!(off(Some("246810")).status, 200);
    let reset = server.user_request(&ann, "POST", "/pin/reset", &Value::Null);
    assert_eq!((reset.status, reset.json()), (200, json!({})));
    let body = json!({"pinCode": server.mailed_pin(), "newPinCode": "1234"});
    assert_eq!(server.user_request(&ann, "PUT", "/pin", &body).status, 200);
}

#[test]
fn setting_the_first_pin_needs_the_password() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let set = |body: Value| {
        let answer = server.user_request(&ann, "PUT", "/pin", &body);
        (
            answer.status,
            answer.json()["error"]["code"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    assert_eq!(
        set(json!({"newPinCode": "1234"})),
        (400, "INVALID_REQUEST".into())
    );
    assert_eq!(
        set(json!({"newPinCode": "12", "password": PASSWORD})),
        (400, "INVALID_REQUEST".into())
    );
    assert_eq!(
        set(json!({"newPinCode": "1234", "password": "wrong wrong"})),
        (403, "PASSWORD_WRONG".into())
    );
    assert_eq!(
        set(json!({"newPinCode": "1234", "password": PASSWORD})),
        (200, String::new())
    );
    assert_eq!(
        set(json!({"newPinCode": "5678", "password": PASSWORD})),
        (403, "PIN_CODE_REQUIRED".into())
    );
}

#[test]
fn sessions_are_listed_and_ended() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    server.wait(5);
    let phone = crate::support::server::viewer(&server.log_in("ann@example.com", PASSWORD));
    let listed = server
        .user_request(&ann, "GET", "/sessions", &Value::Null)
        .json();
    let line = |viewer: &Viewer, began: i64, current: bool| json!({"kind": "login", "sessionId": viewer.session, "createdTimestamp": began, "expires": began + 60 * 86_400, "lastUsedTimestamp": began, "current": current});
    let began = 1_767_268_800;
    assert_eq!(
        listed,
        json!([line(&ann, began, true), line(&phone, began + 5, false)])
    );
    let one = format!("/sessions/{}", phone.session);
    assert_eq!(
        server.user_request(&ann, "GET", &one, &Value::Null).json(),
        line(&phone, began + 5, false)
    );
    assert_eq!(
        server
            .user_request(&ann, "DELETE", &one, &Value::Null)
            .status,
        204
    );
    assert_eq!(
        server.user_request(&phone, "GET", "", &Value::Null).status,
        401
    );
    assert_eq!(
        server
            .user_request(&ann, "DELETE", &one, &Value::Null)
            .code(),
        "SESSION_NOT_FOUND"
    );
    assert_eq!(
        server
            .user_request(&ann, "DELETE", "/sessions", &Value::Null)
            .status,
        204
    );
    assert_eq!(
        server.user_request(&ann, "GET", "", &Value::Null).status,
        401
    );
}

#[test]
fn an_account_is_exported_and_erased() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    server.user_request(&ann, "POST", "/pin/reset", &Value::Null);
    let export = server.user_request(&ann, "GET", "/export", &Value::Null);
    let json = export.json();
    assert_eq!(json["user"]["email"], "ann@example.com");
    assert_eq!(json["sessions"][0]["sessionId"], ann.session);
    assert_eq!(json["mails"][0]["kind"], "pin");
    // A person with the viewer's device must not find the PIN here.
    assert!(!String::from_utf8_lossy(&export.body).contains(&server.mailed_pin()));
    let refused = server.user_request(&ann, "DELETE", "", &json!({"password": "wrong wrong"}));
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (403, "PASSWORD_WRONG")
    );
    assert_eq!(
        server
            .user_request(&ann, "DELETE", "", &json!({"password": PASSWORD}))
            .status,
        204
    );
    assert_eq!(
        server.user_request(&ann, "GET", "", &Value::Null).status,
        401
    );
    assert_eq!(server.log_in("ann@example.com", PASSWORD).status, 401);
    assert_eq!(
        server.operator("GET", "mail", &Value::Null).json(),
        json!([])
    );
    assert_ne!(server.sign_up("ann@example.com").id, ann.id);
}

#[test]
fn operators_manage_users() {
    let server = TestServer::start();
    let body = json!({"email": "ann@example.com", "password": PASSWORD, "name": "Ann"});
    let added = server.operator("POST", "users", &body);
    assert_eq!(added.status, 200);
    let id = added.json()["userId"].as_str().unwrap().to_owned();
    let again = server.operator("POST", "users", &body);
    assert_eq!(
        (again.code().as_str(), again.field().as_str()),
        ("EMAIL_IN_USE", "email")
    );
    let weak = json!({"email": "bob@example.com", "password": "12345678"});
    assert_eq!(server.operator("POST", "users", &weak).field(), "password");
    let shown = server
        .operator("GET", "users/ann@example.com", &Value::Null)
        .json();
    assert_eq!(shown["userId"], id.as_str());
    let change = json!({"tags": ["vip"], "country": "DE", "parentalControl": {"enabled": true}});
    let changed = server
        .operator("PUT", &format!("users/{id}"), &change)
        .json();
    assert_eq!(
        (&changed["tags"], &changed["country"], &changed["hasPin"]),
        (&json!(["vip"]), &json!("DE"), &json!(true))
    );
    assert_eq!(
        server
            .operator(
                "PUT",
                &format!("users/{id}/pin"),
                &json!({"pinCode": "4711"})
            )
            .status,
        200
    );
    let ann = crate::support::server::viewer(&server.log_in("ann@example.com", PASSWORD));
    let sessions = server
        .operator("GET", &format!("users/{id}/sessions"), &Value::Null)
        .json();
    assert_eq!(sessions[0]["sessionId"], ann.session);
    let guarded = json!({"birthDate": "1990-01-01", "pinCode": "4711"});
    assert_eq!(server.user_request(&ann, "PUT", "", &guarded).status, 200);
    assert_eq!(
        server
            .operator("POST", &format!("users/{id}/logout"), &Value::Null)
            .status,
        200
    );
    assert_eq!(
        server.user_request(&ann, "GET", "", &Value::Null).status,
        401
    );
    assert_eq!(
        server
            .operator("PUT", &format!("users/{id}"), &json!({"disabled": true}))
            .json()["disabled"],
        true
    );
    assert_eq!(server.log_in("ann@example.com", PASSWORD).status, 401);
    let list = server
        .operator("GET", "users?partner=Acme", &Value::Null)
        .json();
    assert_eq!(list.as_array().unwrap().len(), 1);
    // An id says nothing about a place in another order.
    for (sort, status) in [("id", 200), ("-id", 400), ("email", 400)] {
        let target = format!("users?sort={sort}&after={id}");
        let page = server.operator("GET", &target, &Value::Null);
        assert_eq!(page.status, status, "{sort}");
    }
    assert_eq!(
        server
            .operator("DELETE", &format!("users/{id}"), &Value::Null)
            .status,
        204
    );
    assert_eq!(
        server
            .operator("GET", &format!("users/{id}"), &Value::Null)
            .code(),
        "USER_NOT_FOUND"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "one sequence of dependent steps")]
fn operators_manage_partners_and_operators() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let added = server
        .operator("POST", "partners/Acme/tokens", &Value::Null)
        .json();
    let token = added["accessToken"].as_str().unwrap();
    let body = json!({"identity": "ann@example.com", "accessKey": PASSWORD});
    let log_in =
        |token: &str| server.partner_with(token, "POST", "/api/login/v2/auth/email", &body);
    assert_eq!(log_in(token).status, 200);
    let revoke = format!(
        "partners/Acme/tokens/{}",
        added["tokenId"].as_str().unwrap()
    );
    assert_eq!(server.operator("DELETE", &revoke, &Value::Null).status, 204);
    assert_eq!(log_in(token).code(), "PARTNER_TOKEN_INVALID");
    assert_eq!(
        server.operator("DELETE", &revoke, &Value::Null).code(),
        "TOKEN_NOT_FOUND"
    );
    let tokens = server
        .operator("GET", "partners/Acme/tokens", &Value::Null)
        .json();
    assert_eq!(tokens.as_array().unwrap().len(), 1);
    let partners = server.operator("GET", "partners", &Value::Null).json();
    assert_eq!(
        (&partners[0]["name"], &partners[0]["users"]),
        (&json!("Acme"), &json!(1))
    );
    assert_eq!(
        server
            .operator("POST", "partners", &json!({"name": "Acme"}))
            .code(),
        "NAME_IN_USE"
    );
    assert_eq!(
        server
            .operator("DELETE", "partners/Acme", &Value::Null)
            .status,
        204
    );
    assert_eq!(
        server.user_request(&ann, "GET", "", &Value::Null).code(),
        "PARTNER_TOKEN_INVALID"
    );
    assert_eq!(
        server
            .operator("GET", &format!("users/{}", ann.id), &Value::Null)
            .code(),
        "USER_NOT_FOUND"
    );

    let shut = server.operator("POST", "partners", &json!({"name": "Shut"}));
    let token = shut.json()["accessToken"].as_str().unwrap().to_owned();
    let sign_up = |n: u32| {
        let body = json!({"identity": format!("u{n}@example.com"), "accessKey": PASSWORD});
        server
            .partner_with(&token, "PUT", "/api/login/v2/auth/email", &body)
            .status
    };
    assert_eq!(sign_up(1), 200);
    let change = |body: &Value| server.operator("PUT", "partners/Shut", body);
    assert_eq!(change(&json!({"disabled": true})).status, 200);
    assert_eq!(sign_up(2), 401);
    assert_eq!(change(&json!({})).status, 200);
    assert_eq!(change(&json!({"disabled": false})).status, 200);
    assert_eq!(sign_up(3), 200);

    let agent = server
        .operator("POST", "operators", &json!({"name": "Al", "role": "agent"}))
        .json();
    assert!(agent["token"].as_str().unwrap().starts_with("pgo_"));
    let operators = server.operator("GET", "operators", &Value::Null).json();
    assert_eq!(operators.as_array().unwrap().len(), 2);
    assert_eq!(
        server
            .operator("DELETE", "operators/Al", &Value::Null)
            .status,
        204
    );
    assert_eq!(
        server
            .operator("DELETE", "operators/Al", &Value::Null)
            .code(),
        "OPERATOR_NOT_FOUND"
    );
    let test = server
        .operator("POST", "mail/test", &json!({"to": "eva@example.com"}))
        .json();
    let mail = server.operator(
        "GET",
        &format!("mail/{}", test["id"].as_str().unwrap()),
        &Value::Null,
    );
    assert_eq!(
        (&mail.json()["kind"], &mail.json()["status"]),
        (&json!("test"), &json!("sink"))
    );
}

#[test]
fn a_user_export_contains_the_data_of_every_part() {
    let fixture = PlaybackFixture::new();
    let (server, ann) = (&fixture.server, &fixture.ann);
    let target = format!("users/{}/grants/premium", ann.id);
    assert_eq!(server.operator("PUT", &target, &json!({})).status, 200);
    let player = fixture.play(ann, "film", "tv");
    server.user_request(ann, "POST", "/pin/reset", &Value::Null);
    let events: Vec<_> = (0..300)
        .map(|at| {
            json!({
                "timestamp": 1_767_268_800, "action": "playback_position", "seqId": at,
                "context": {"device_id": "tv"}, "extra": {"filling": "x".repeat(400)},
            })
        })
        .collect();
    let events = Value::from(events);
    let bob = fixture.viewer("bob");
    let tracker = "/api/tracker/v1/telemetry-events";
    for viewer in [ann, &bob] {
        let sent = server.user(&viewer.token, "POST", tracker, &events);
        assert_eq!(sent.status, 202);
    }
    let export = server.user_request(ann, "GET", "/export", &Value::Null);
    assert_eq!(export.header("content-type"), Some("application/json"));
    assert_eq!(export.header("cache-control"), Some("no-store"));
    let json = export.json();
    assert_eq!(json["user"]["userId"], ann.id);
    assert_eq!(json["sessions"][0]["sessionId"], ann.session);
    assert_eq!(json["mails"][0]["kind"], "pin");
    assert_eq!(json["offers"][0]["offerId"], "premium");
    assert_eq!(json["devices"][0]["deviceId"], "tv");
    assert_eq!(json["playbackSessions"][0]["sessionId"], player.session);
    assert_eq!(json["entitlements"][0]["assetId"], "film");
    // More than one chunk, in order, and only the user's own.
    let exported = json["telemetry"].as_array().unwrap();
    let sequences: Vec<_> = exported.iter().map(|one| &one["event"]["seqId"]).collect();
    let sent: Vec<_> = events.as_array().unwrap().iter().collect();
    let expected: Vec<_> = sent.iter().map(|event| &event["seqId"]).collect();
    assert_eq!(sequences, expected);
    assert!(exported.iter().all(|one| one["userId"] == *ann.id));
    let new = fixture.viewer("new");
    let empty = server
        .user_request(&new, "GET", "/export", &Value::Null)
        .json();
    assert_eq!(empty["telemetry"], json!([]));
}

#[test]
fn mails_can_be_previewed_without_sending() {
    let server = TestServer::start();
    let preview = |query: &str| {
        let target = format!("mail/preview/{query}");
        server.operator("GET", &target, &Value::Null)
    };
    let swedish = preview("reset?locale=sv");
    assert_eq!(swedish.status, 200);
    assert_eq!(swedish.json()["subject"], "Välj ett nytt lösenord");
    let text = swedish.json()["text"].to_string();
    assert!(text.contains("https://tv.example/reset?token=pgr_example"));
    assert!(preview("pin").json()["html"].to_string().contains("1234"));
    // A language without translations falls back to the default.
    assert_eq!(preview("test?locale=fi").json(), preview("test").json());
    let unknown = preview("advert");
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "MAIL_NOT_FOUND")
    );
    let odd = preview("pin?locale=-");
    assert_eq!((odd.status, odd.field().as_str()), (400, "locale"));
    let queue = server.operator("GET", "mail", &Value::Null).json();
    assert_eq!(queue, json!([]));
}

/// A request that waits for a slow disk must not occupy a thread that others need to read.
#[test]
fn waiting_for_a_commit_occupies_no_worker_thread() {
    let server = TestServer::start();
    let [ann, ben, cy] =
        ["ann", "ben", "cy"].map(|name| server.sign_up(&format!("{name}@example.com")));
    let gate = Arc::new(RwLock::new(()));
    let shut = gate.write().unwrap();
    let held = std::iter::from_fn(|| {
        let gate = Arc::clone(&gate);
        let job = server.services.cold.run(move |()| drop(gate.read()));
        job.ok()
    });
    let held: Vec<_> = held.collect();
    assert!(held.len() > 1_000);

    let logout = server.user(
        &ann.token,
        "POST",
        "/api/login/v2/auth/logout",
        &Value::Null,
    );
    assert_eq!(logout.status, 200);
    let target = format!("/api/user/v1/users/{}/sessions", ben.id);
    assert_eq!(
        server
            .user(&ben.token, "DELETE", &target, &Value::Null)
            .status,
        204
    );
    let target = format!("/api/user/v1/users/{}/sessions/{}", cy.id, cy.session);
    assert_eq!(
        server
            .user(&cy.token, "DELETE", &target, &Value::Null)
            .status,
        204
    );
    let body = json!({"email": "ann@example.com"});
    let target = "/api/login/v2/password/send-reset-password";
    assert_eq!(server.partner("POST", target, &body).status, 200);

    let operate = |method: &str, target: &str, body: Value, status: u16| {
        let answer = server.operator(method, target, &body);
        assert_eq!(
            answer.status,
            status,
            "{method} {target}: {}",
            String::from_utf8_lossy(&answer.body)
        );
        answer
    };
    let user = |id: &str, rest: &str| format!("users/{id}{rest}");
    operate("POST", &user(&ann.id, "/reset-mail"), Value::Null, 200);
    operate("POST", &user(&ann.id, "/logout"), Value::Null, 200);
    operate("DELETE", &user(&cy.id, ""), Value::Null, 204);
    for (kind, body) in [
        ("partners", json!({"name": "Other"})),
        ("operators", json!({"name": "Other", "role": "agent"})),
    ] {
        operate("POST", kind, body, 200);
        let tokens = format!("{kind}/Other/tokens");
        let made = operate("POST", &tokens, Value::Null, 200).json();
        let token = made["tokenId"].as_str().unwrap();
        operate("DELETE", &format!("{tokens}/{token}"), Value::Null, 204);
    }
    operate("PUT", "partners/Other", json!({"disabled": true}), 200);
    operate("DELETE", "operators/Other", Value::Null, 204);
    drop(shut);
    drop(held);
}

#[test]
fn a_change_of_a_member_that_the_route_does_not_change_is_refused() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    for (member, value) in [
        ("email", json!("eve@example.com")),
        ("country", json!("US")),
        ("tags", json!(["vip"])),
        ("userId", json!("x")),
        ("createdTimestamp", json!(1)),
    ] {
        let refused = server.user_request(&ann, "PUT", "", &json!({"name": "Eve", member: value}));
        assert_eq!((refused.status, refused.field()), (400, member.to_owned()));
    }
    assert_ne!(
        server.user_request(&ann, "GET", "", &Value::Null).json()["name"],
        "Eve"
    );
    // The whole record may be sent back.
    let mut profile = server.user_request(&ann, "GET", "", &Value::Null).json();
    profile["name"] = json!("Ann");
    assert_eq!(
        server.user_request(&ann, "PUT", "", &profile).json()["name"],
        "Ann"
    );
    let unknown = json!({"mail": "ann@example.org"});
    let target = format!("users/{}", ann.id);
    assert_eq!(server.operator("PUT", &target, &unknown).status, 400);
}

#[test]
fn an_address_is_changed_by_its_user_and_by_operators() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@viewer.exmaple");
    server.sign_up("ben@example.com");
    let change = |email: &str, password: &str| {
        let body = json!({"email": email, "password": password});
        server.user_request(&ann, "PUT", "/email", &body)
    };
    let refused = change("ann@viewer.example", "wrong password");
    assert_eq!(
        refused.status_and_code(),
        (403, "PASSWORD_WRONG".to_owned())
    );
    let refused = change("BEN@example.com", PASSWORD);
    assert_eq!(refused.status_and_code(), (409, "EMAIL_IN_USE".to_owned()));
    assert_eq!(change("nobody", PASSWORD).field(), "email");
    // A pending reset link ends with the change.
    let send = json!({"email": "ann@viewer.exmaple"});
    server.partner("POST", "/api/login/v2/password/send-reset-password", &send);
    let token = server.mailed_token();
    let changed = change(" Ann@Viewer.example ", PASSWORD);
    assert_eq!(
        (changed.status, &changed.json()["email"]),
        (200, &json!("ann@viewer.example"))
    );
    let reset = json!({"token": token, "password": "goats and a meadow"});
    assert_eq!(
        server
            .partner("POST", "/api/login/v2/password/reset", &reset)
            .status,
        400
    );
    assert_eq!(server.log_in("ann@viewer.exmaple", PASSWORD).status, 401);
    let login = server.log_in("ann@viewer.example", PASSWORD);
    assert_eq!(
        (login.status, &login.json()["userId"]),
        (200, &json!(ann.id))
    );
    // The session of the change goes on, and both addresses are told.
    assert_eq!(
        server.user_request(&ann, "GET", "", &Value::Null).status,
        200
    );
    let mails = server.operator("GET", "mail", &Value::Null).json();
    let told: Vec<_> = mails
        .as_array()
        .unwrap()
        .iter()
        .filter(|mail| mail["kind"] == "email-changed")
        .map(|mail| mail["to"].clone())
        .collect();
    assert_eq!(
        json!(told),
        json!(["ann@viewer.example", "ann@viewer.exmaple"])
    );

    // An operator needs no password; the old address is free again.
    let target = format!("users/{}", ann.id);
    let moved = server.operator("PUT", &target, &json!({"email": "ann@example.org"}));
    assert_eq!(moved.json()["email"], "ann@example.org");
    let taken = server.operator("PUT", &target, &json!({"email": "ben@example.com"}));
    assert_eq!(taken.status_and_code(), (409, "EMAIL_IN_USE".to_owned()));
    server.sign_up("ann@viewer.example");
    let found = server.operator("GET", "users/ann@example.org", &Value::Null);
    assert_eq!(found.json()["userId"], json!(ann.id));
}

#[test]
fn lists_of_logins_show_program_device_and_last_use() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    server.wait(5);
    let body = json!({"identity": "ann@example.com", "accessKey": PASSWORD}).to_string();
    let headers = [
        ("Service-AccessToken", server.partner.as_str()),
        ("User-Agent", "TV app/2.1 \u{202e}(x)"),
        ("Service-Play-DeviceId", "tv-1"),
    ];
    let login = request("POST", "/api/login/v2/auth/email", &headers, &body);
    assert_eq!(ask(server.public, login).status, 200);
    let of_user = server
        .user_request(&ann, "GET", "/sessions", &Value::Null)
        .json();
    let target = format!("users/{}/sessions", ann.id);
    let of_operator = server.operator("GET", &target, &Value::Null).json();
    for list in [&of_user, &of_operator] {
        let newest = &list.as_array().unwrap()[1];
        assert_eq!(newest["program"], "TV app/2.1 (x)");
        assert_eq!(newest["deviceId"], "tv-1");
        assert_eq!(newest["lastUsedTimestamp"], newest["createdTimestamp"]);
        assert_eq!(list[0].get("deviceId"), None);
    }
    // A use is seen after an hour, at once and from the store. This is the log-in of the sign-up, five seconds older.
    server.wait(7_200);
    server.user_request(&ann, "GET", "", &Value::Null);
    let used = |server: &TestServer| {
        let list = server.operator("GET", &target, &Value::Null).json();
        let login = &list[0];
        login["lastUsedTimestamp"].as_i64().unwrap() - login["createdTimestamp"].as_i64().unwrap()
    };
    assert_eq!(used(&server), 7_205);
    assert_eq!(server.services.accounts.store_uses().unwrap(), 1);
    assert_eq!(used(&server), 7_205);
}

#[test]
fn a_user_has_one_export_at_a_time_and_others_are_bounded() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let export = || server.user_request(&ann, "GET", "/export", &Value::Null);
    let id = playgate_types::UserId::parse(&ann.id).unwrap();
    let running = server
        .services
        .slots
        .exports
        .take(id)
        .unwrap_or_else(|_| panic!("free"));
    let refused = export();
    assert_eq!(
        refused.status_and_code(),
        (429, "TOO_MANY_ATTEMPTS".to_owned())
    );
    assert_eq!(refused.header("Retry-After"), Some("10"));
    drop(running);
    let done = export();
    assert_eq!(
        (done.status, &done.json()["user"]["email"]),
        (200, &json!("ann@example.com"))
    );
    // The slot is free again as soon as the response has ended.
    until("another export", || export().status == 200);
}

#[test]
fn agents_remove_single_devices_and_end_single_streams() {
    let fixture = PlaybackFixture::new();
    let (server, viewer) = (&fixture.server, &fixture.ann);
    let session = fixture.play(viewer, "film", "tv-1").session;
    let target = |below: &str| format!("users/{}{below}", viewer.id);
    let listed = |below: &str| server.operator("GET", &target(below), &Value::Null).json();
    assert_eq!(listed("/devices")[0]["deviceId"], "tv-1");
    assert_eq!(listed("/streams")[0]["sessionId"], json!(session));
    assert_eq!(listed("")["deviceLimit"], 5);
    let of = |asset: &str| {
        let target = format!("sessions?asset={asset}");
        let sessions = server.operator("GET", &target, &Value::Null).json();
        sessions.as_array().unwrap().len()
    };
    assert_eq!((of("film"), of("news")), (1, 0));
    let end = format!("sessions/{session}");
    assert_eq!(server.operator("DELETE", &end, &Value::Null).status, 204);
    assert_eq!(listed("/streams"), json!([]));
    let device = target("/devices/tv-1");
    assert_eq!(server.operator("DELETE", &device, &Value::Null).status, 204);
    assert_eq!(server.operator("DELETE", &device, &Value::Null).status, 404);
    assert_eq!(listed("/devices"), json!([]));
}
