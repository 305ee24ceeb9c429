//! The audit log: what it records of operators' changes, and which name it records for the caller.

use serde_json::{Value, json};

use crate::support::appliance::{Appliance, sign_up};
use crate::support::process::InTime as _;
use crate::support::raw_http::{Answer, ask, request};
use crate::support::server::TestServer;

fn as_operator(server: &TestServer, token: &str, method: &str, path: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let target = format!("/admin/v1/{path}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("X-Request-Id", "ticket-7"),
    ];
    ask(server.ops, request(method, &target, &headers, ""))
}

/// Returns action, target and status of the changes, oldest first.
fn changes(server: &TestServer) -> Vec<(String, String, Value)> {
    let listed = server.operator("GET", "audit", &Value::Null).json();
    let changes = listed.as_array().unwrap().iter().rev();
    let entries = changes.map(|change| {
        let text = |name: &str| change[name].as_str().unwrap().to_owned();
        (text("action"), text("target"), change["status"].clone())
    });
    entries.collect()
}

#[test]
fn audit_entries_name_actor_target_and_outcome() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let before = changes(&server).len();
    let made = server.operator("POST", "operators", &json!({"name": "Al", "role": "agent"}));
    let agent = made.json()["token"].as_str().unwrap().to_owned();

    // A read, a call that the role may not make, an invalid one and dry runs are no changes.
    assert_eq!(as_operator(&server, &agent, "GET", "users").status, 200);
    assert_eq!(as_operator(&server, &agent, "POST", "backups").status, 403);
    assert_eq!(
        server
            .operator("POST", "partners", &json!({"nome": 1}))
            .status,
        400
    );

    for (user, status) in [("ann@example.com", 200), ("bob@example.com", 404)] {
        let logout = as_operator(&server, &agent, "POST", &format!("users/{user}/logout"));
        assert_eq!(logout.status, status);
    }
    for tried in ["catalog/import", "epg/import", "epg/sources/none/refresh"] {
        server.operator("POST", &format!("{tried}?dryRun=true"), &json!({}));
    }
    // On a route without a dry run, `dryRun` must not hide the change.
    let hidden = format!("users/{}/logout?dryRun=true", ann.id);
    assert_eq!(server.operator("POST", &hidden, &Value::Null).status, 200);
    let entries: Vec<_> = changes(&server).split_off(before);
    let al = made.json()["operatorId"].as_str().unwrap().to_owned();
    let change = |action: &str, target: &str, status: u16| {
        (action.to_owned(), target.to_owned(), json!(status))
    };
    let expected = [
        change("admin_add_operator", &format!("operators/{al}"), 200),
        change(
            "admin_logout_user",
            &format!("users/{}/logout", ann.id),
            200,
        ),
        change("admin_logout_user", "users/-/logout", 404),
        change("admin_logout_user", &hidden, 200),
    ];
    assert_eq!(entries, expected);

    let listed = server.operator("GET", "audit?limit=3", &Value::Null).json();
    let (newest, oldest) = (&listed[0], &listed[2]);
    assert_eq!(
        (&oldest["name"], &oldest["role"]),
        (&json!("Al"), &json!("agent"))
    );
    assert_eq!(oldest["requestId"], "ticket-7");
    // The entry has the id; the answer adds the names that it has now.
    assert_eq!(newest["subject"], "ann@example.com");
    assert!(newest["partner"].is_string());
    assert_eq!(listed[1].get("subject"), None, "there is no such user");
    assert!(oldest["timestamp"].is_u64());
    let older = server.operator(
        "GET",
        &format!("audit?before={}", newest["number"]),
        &Value::Null,
    );
    assert_eq!(older.json()[0], listed[1]);
    for wrong in ["audit?before=x", "audit?limit=0", "audit?limit=1001"] {
        assert_eq!(server.operator("GET", wrong, &Value::Null).status, 400);
    }
    assert_eq!(as_operator(&server, &agent, "GET", "audit").status, 403);
}

#[test]
fn commands_are_audited_with_and_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut appliance = Appliance::start(folder.path());
    let (partner, _) = sign_up(&appliance);
    appliance.run_ok(&["user", "logout", "ann@example.com"]);
    let mut behind_sudo = appliance.command(&["partner", "disable", "test"]);
    behind_sudo.env("SUDO_UID", "4242");
    assert!(behind_sudo.status_in_time().success());
    appliance.kill();
    appliance.run_ok(&["partner", "enable", "test"]);
    let listed = appliance.run_json_with_code(&["audit", "list", "--json"], 0);
    let actions: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["action"])
        .collect();
    assert_eq!(
        actions,
        [
            "admin_change_partner",
            "admin_change_partner",
            "admin_logout_user",
            "admin_add_partner"
        ]
    );
    let me = rustix::process::getuid();
    // Root's `sudo` user is only a claim of the command; the kernel vouches for the uid.
    let claimed = listed[1].get("claimed").and_then(Value::as_str);
    assert_eq!(claimed, me.is_root().then_some("4242"));
    let me = format!("local administrator, uid {}", me.as_raw());
    for change in listed.as_array().unwrap() {
        assert_eq!(change["name"], me);
        assert!(change.get("operatorId").is_none() && change["status"].as_u64().unwrap() < 300);
    }
    let text = listed.to_string();
    assert!(!text.contains(&partner), "{text}");
    // The record has the id alone: the address is that of now.
    for change in listed.as_array().unwrap() {
        assert!(!change["target"].as_str().unwrap().contains("ann@"));
    }
    assert_eq!(
        appliance.run_json_with_code(&["audit", "list", "--limit", "1", "--json"], 0)[0],
        listed[0]
    );
}

#[test]
fn admin_socket_callers_cannot_choose_their_audit_name() {
    let folder = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(folder.path());
    let me = rustix::process::getuid().as_raw();
    let uid = me.to_string();
    let long = "a".repeat(65);
    for claim in [
        "Local ann",
        "Local 4242",
        &format!("Local {uid}"),
        "Local ",
        "Bearer x",
    ] {
        appliance.over_socket(
            "PUT",
            "/admin/v1/partners/nobody",
            &[("Authorization", claim)],
            r#"{"disabled":true}"#,
        );
    }
    appliance.over_socket(
        "DELETE",
        "/admin/v1/partners/nobody",
        &[("Authorization", &format!("Local {long}"))],
        "",
    );
    let listed = appliance.run_json_with_code(&["audit", "list", "--json"], 0);
    let mut entries: Vec<_> = listed.as_array().unwrap().iter().rev().collect();
    entries.retain(|entry| entry["target"] == "partners/nobody");
    let claims: Vec<_> = entries
        .iter()
        .map(|entry| entry.get("claimed").cloned())
        .collect();
    let claimed = |text: &str| Some(json!(text));
    assert_eq!(
        claims,
        [claimed("ann"), claimed("4242"), None, None, None, None]
    );
    for entry in entries {
        assert_eq!(entry["name"], format!("local administrator, uid {me}"));
    }
}
