//! After an account is erased, nothing of its user is left in the store, the mail queue and the telemetry.

use std::path::Path;

use playgate_store::{Options, Store};
use serde_json::{Value, json};

use crate::support::appliance::files;
use crate::support::server::{PASSWORD, TestServer};

const EMAIL: &str = "forget.me@example.com";
const NAME: &str = "Forgetta Mia";
/// A text in an event, as a player might send something personal.
const MARK: &str = "forget-this-living-room-tv";

/// Returns the files of a directory that contain anything of the user.
fn files_with_traces(directory: &Path) -> Vec<String> {
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
    let store_dir = directory.path().to_owned();
    let on_disk = |_: &Path| {
        let schema = playgate_records::schema();
        Store::open(&store_dir, schema, Options::default()).unwrap()
    };
    let server = TestServer::with_store(on_disk, &[]);
    let body = json!({
        "identity": EMAIL, "accessKey": PASSWORD, "name": NAME, "birthDate": "1990-02-03",
    });
    let sign_up = server.partner("PUT", "/api/login/v2/auth/email", &body);
    let user = crate::support::server::viewer(&sign_up);
    let other = server.sign_up("stays@example.com");
    let user_path = format!("/api/user/v1/users/{}", user.id);
    server.user(
        &user.token,
        "POST",
        &format!("{user_path}/pin/reset"),
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
    // Control: the search finds the user before the erasure.
    assert!(!files_with_traces(&telemetry).is_empty() && !files_with_traces(&store_dir).is_empty());

    let erased = server.user(
        &user.token,
        "DELETE",
        &user_path,
        &json!({"password": PASSWORD}),
    );
    assert_eq!(erased.status, 204);
    // The job does this within ten seconds.
    while server.services.telemetry.run_erasures().unwrap() > 0 {}
    assert_eq!(files_with_traces(&telemetry), Vec::<String>::new());
    let answers = ["users", "mail", "telemetry/events", "sessions"].map(|target| {
        let answer = server.operator("GET", target, &Value::Null);
        String::from_utf8(answer.body).unwrap()
    });
    for answer in &answers {
        assert!(
            ![EMAIL, NAME, MARK, &user.id]
                .iter()
                .any(|mark| answer.contains(*mark))
        );
    }
    assert!(answers[0].contains("stays@example.com") && answers[2].contains(&other.id));
    // The disk may contain old data until its files are rewritten.
    let compact = server.operator("POST", "store/compact", &Value::Null);
    assert_eq!(compact.status, 200, "{}", compact.json());
    assert_eq!(files_with_traces(&store_dir), Vec::<String>::new());
}
