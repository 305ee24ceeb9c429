//! After an account has been erased, nothing of its user is left: not in the store, not in the queue
//! of mails, not in the telemetry.

use std::path::Path;

use playgate::store::{Options, Store};
use serde_json::{Value, json};

use crate::support::appliance::files;
use crate::support::server::{PASSWORD, TestServer};

const EMAIL: &str = "forget.me@example.com";
const NAME: &str = "Forgetta Mia";
/// In an event, as a player might send something personal.
const MARK: &str = "forget-this-living-room-tv";

/// Files of a directory that hold anything of the user.
fn telling(directory: &Path) -> Vec<String> {
    let marks = [EMAIL, NAME, MARK];
    files(directory)
        .into_iter()
        .filter(|(_, content)| marks.iter().any(|mark| content.contains(mark)))
        .map(|(path, _)| path.display().to_string())
        .collect()
}

#[test]
fn erasing_a_user_leaves_no_trace() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_owned();
    let on_disk = |_: &Path| {
        let schema = playgate::domain::schema();
        Store::open(&place, schema, Options::default()).unwrap()
    };
    let server = TestServer::over(on_disk, &[]);
    let body = json!({
        "identity": EMAIL, "accessKey": PASSWORD, "name": NAME, "birthDate": "1990-02-03",
    });
    let sign_up = server.partner("PUT", "/api/login/v2/auth/email", &body);
    let user = crate::support::server::viewer(&sign_up);
    let other = server.sign_up("stays@example.com");
    let own = format!("/api/user/v1/users/{}", user.id);
    server.user(
        &user.token,
        "POST",
        &format!("{own}/pin/reset"),
        &Value::Null,
    );
    let send = "/api/login/v2/password/send-reset-password";
    server.partner("POST", send, &json!({"email": EMAIL}));
    for viewer in [&user, &other] {
        let event = json!([{
            "timestamp": 1_767_268_800, "action": "start", "seqId": 1,
            "context": {"device_id": if viewer.id == user.id { MARK } else { "tv" }},
        }]);
        let tracker = "/api/tracker/v1/telemetry-events";
        let sent = server.user(&viewer.token, "POST", tracker, &event);
        assert_eq!(sent.status, 202);
    }
    let data = server.services.config.server.data_dir.clone();
    let telemetry = data.join("telemetry");
    // The search finds what is there.
    assert!(!telling(&telemetry).is_empty() && !telling(&place).is_empty());

    let erased = server.user(&user.token, "DELETE", &own, &json!({"password": PASSWORD}));
    assert_eq!(erased.status, 204);
    // What the job does within ten seconds.
    while server.services.telemetry.run_erasures().unwrap() > 0 {}
    assert_eq!(telling(&telemetry), Vec::<String>::new());
    let nowhere = ["users", "mail", "telemetry/events", "sessions"].map(|target| {
        let answer = server.operator("GET", target, &Value::Null);
        String::from_utf8(answer.body).unwrap()
    });
    for answer in &nowhere {
        assert!(
            ![EMAIL, NAME, MARK, &user.id]
                .iter()
                .any(|mark| answer.contains(*mark))
        );
    }
    assert!(nowhere[0].contains("stays@example.com") && nowhere[2].contains(&other.id));
    // What the disk still holds goes when the files are made anew.
    let compact = server.operator("POST", "store/compact", &Value::Null);
    assert_eq!(compact.status, 200, "{}", compact.json());
    assert_eq!(telling(&place), Vec::<String>::new());
}
