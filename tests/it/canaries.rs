//! Plants secrets in sign-up, login, playback and reset, and then searches for them: in the log at its most verbose
//! level, in error responses, in the metrics, and in every file of the data directory.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use serde_json::{Value, json};

use crate::support::appliance::{Appliance, files};
use crate::support::raw_http::Answer;
use crate::support::server::token_in;

const AUTH: &str = "/api/login/v2/auth/email";
const RESET: &str = "/api/login/v2/password/reset";
const EMAIL: &str = "canary@example.com";
/// The id of the first request, which the log may contain.
const REQUEST_ID: &str = "canary-request-id";
const PASSWORD: &str = "canary in the coal mine";
const WRONG: &str = "canary in the gold mine";
const NEXT: &str = "canary out of the mine";
const PINS: [&str; 3] = ["739154", "805261", "917403"];
const KEY: &str = "CanaryDrmKey!#42";
const KID: &str = "00112233445566778899aabbccddeeff";

/// The planted secrets, and the error bodies, which must not contain them.
struct PlantedSecrets {
    appliance: Appliance,
    partner: String,
    secrets: Vec<(&'static str, String)>,
    refusals: String,
    asked: u32,
}

impl PlantedSecrets {
    fn plant(&mut self, what: &'static str, secret: &str) -> String {
        self.secrets.push((what, secret.to_owned()));
        secret.to_owned()
    }

    fn ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let id = match self.asked {
            0 => REQUEST_ID.to_owned(),
            n => format!("r{n}"),
        };
        self.asked += 1;
        let mut all = vec![
            ("Service-AccessToken", self.partner.as_str()),
            ("X-Request-Id", id.as_str()),
        ];
        all.extend(headers);
        let body = match body {
            Value::Null => String::new(),
            Value::String(raw) => raw.clone(),
            body => body.to_string(),
        };
        let answer = self.appliance.ask(method, target, &all, &body);
        if answer.status >= 400 {
            self.refusals += &String::from_utf8_lossy(&answer.body);
        }
        answer
    }

    /// Sends a request as the user with this token.
    fn ask_as_user(&mut self, token: &str, method: &str, target: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {token}");
        self.ask(method, target, &[("Authorization", &bearer)], body)
    }
}

fn text(answer: &Answer, name: &str) -> String {
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json()[name].as_str().unwrap().to_owned()
}

/// Sign-up, wrong and right logins, PINs. Returns the user's token and path.
fn accounts(planted: &mut PlantedSecrets) -> (String, String) {
    let sign_up = json!({"identity": EMAIL, "accessKey": PASSWORD, "name": "Ann"});
    let made = planted.ask("PUT", AUTH, &[], &sign_up);
    let user_path = format!("/api/user/v1/users/{}", text(&made, "userId"));
    planted.plant("a user token", &text(&made, "token"));
    for odd in [
        json!({"identity": EMAIL, "accessKey": WRONG}),
        json!({"identity": 5, "accessKey": PASSWORD}),
        json!({"identity": EMAIL, "accessKey": [PASSWORD]}),
        json!({"identity": EMAIL, PASSWORD: 1}),
        json!(format!(
            "{{\"identity\":\"{EMAIL}\",\"accessKey\":\"{PASSWORD}\""
        )),
        json!(format!(
            "{{\"accessKey\":\"{PASSWORD}\",\"accessKey\":\"{WRONG}\"}}"
        )),
    ] {
        assert!(planted.ask("POST", AUTH, &[], &odd).status >= 400);
    }
    let again = json!({"identity": EMAIL, "accessKey": PASSWORD});
    let token = text(&planted.ask("POST", AUTH, &[], &again), "token");
    let token = planted.plant("a user token", &token);
    let pin = json!({"newPinCode": PINS[0], "password": PASSWORD});
    let target = format!("{user_path}/pin");
    assert_eq!(
        planted.ask_as_user(&token, "PUT", &target, &pin).status,
        200
    );
    let wrong = json!({"pinCode": PINS[2], "newPinCode": PINS[1]});
    assert_eq!(
        planted.ask_as_user(&token, "PUT", &target, &wrong).status,
        403
    );
    let pin = json!({"pinCode": PINS[0], "newPinCode": PINS[1]});
    assert_eq!(
        planted.ask_as_user(&token, "PUT", &target, &pin).status,
        200
    );
    let on = json!({"parentalControl": {"enabled": true, "limit": 15}, "pinCode": PINS[1]});
    assert_eq!(
        planted.ask_as_user(&token, "PUT", &user_path, &on).status,
        200
    );
    (token, user_path)
}

/// Entitlement with a PIN, preflight, license, playlist, heartbeats, telemetry.
fn playback(planted: &mut PlantedSecrets, token: &str) {
    let target = "/api/entitlement/v2/asset/film";
    for wrong in [
        Value::Null,
        json!({"pinCode": PINS[2]}),
        json!({"pinCode": PINS}),
    ] {
        assert!(planted.ask_as_user(token, "POST", target, &wrong).status >= 400);
    }
    let given = planted.ask_as_user(token, "POST", target, &json!({"pinCode": PINS[1]}));
    let entitlement = planted.plant("an entitlement", &text(&given, "token"));
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Service-Play-DRM", "clearkey"),
        ("Service-Play-Protocol", "dash"),
        ("Service-Play-EntitlementId", entitlement.as_str()),
        ("Service-Play-DevicePlatform", "linux"),
        ("Service-Play-DeviceType", "tv"),
        ("Service-Play-DeviceModel", "Model"),
        ("Service-Play-DeviceId", "tv"),
    ];
    let preflight = "/api/playback/v2/preflight/asset/film";
    let started = planted.ask("POST", preflight, &headers, &Value::Null);
    let playlist = text(&started, "playlist");
    let (_, file) = playlist.split_once("/origin/v1/").unwrap();
    let signed = planted.plant("an address of the origin", file.split('/').next().unwrap());
    let session = started.json()["headers"]["Service-Play-Session"].clone();
    let session = session.as_str().unwrap();
    let mut beat = headers.to_vec();
    beat.extend([
        ("Service-Play-Session", session),
        ("Service-Play-Timestamp", "1"),
        ("Service-Play-Bitrate", "1"),
        ("Service-Play-ResolutionWidth", "1"),
        ("Service-Play-ResolutionHeight", "1"),
    ]);
    let heartbeat = "/api/playback/v1/heartbeat";
    assert_eq!(
        planted.ask("POST", heartbeat, &beat, &Value::Null).status,
        200
    );
    let kid = BASE64URL_NOPAD.encode(&HEXLOWER.decode(KID.as_bytes()).unwrap());
    let license = "/api/playback/v1/clearkey/license";
    let got = planted.ask("POST", license, &beat, &json!({"kids": [kid]}));
    // The license response is the one place for the key.
    let key = BASE64URL_NOPAD.encode(KEY.as_bytes());
    assert!(got.status == 200 && got.json().to_string().contains(&key));
    let foreign = json!({"kids": ["AAAAAAAAAAAAAAAAAAAAAA"]});
    assert_eq!(planted.ask("POST", license, &beat, &foreign).status, 403);
    for target in [
        format!("/origin/v1/{signed}/film/none.mpd"),
        format!("/origin/v1/{signed}x/film/manifest.mpd"),
        format!("/api/schedule/v1/m3u?accessToken={token}"),
        format!("/api/{token}"),
    ] {
        let headers = [
            ("Authorization", "Basic none"),
            ("Service-AccessToken", token),
        ];
        let answer = planted.appliance.ask("GET", &target, &headers[..1], "");
        assert!(answer.status >= 400, "{target}: {}", answer.status);
        planted.refusals += &String::from_utf8_lossy(&answer.body);
        let answer = planted.appliance.ask("POST", &target, &headers, "{");
        assert!(answer.status >= 400, "{target}: {}", answer.status);
        planted.refusals += &String::from_utf8_lossy(&answer.body);
    }
    let events = json!([{"timestamp": 1_767_268_800, "action": "start", "seqId": 1}]);
    let tracker = "/api/tracker/v1/telemetry-events";
    assert_eq!(
        planted.ask_as_user(token, "POST", tracker, &events).status,
        202
    );
}

/// A reset by mail; each token is also sent in the place of another kind.
fn reset(planted: &mut PlantedSecrets, token: &str) {
    let send = "/api/login/v2/password/send-reset-password";
    assert_eq!(
        planted
            .ask("POST", send, &[], &json!({"email": EMAIL}))
            .status,
        200
    );
    let mails = planted.appliance.run_json(&["mail", "list", "--json"]);
    let newest = mails[0]
        .as_array()
        .unwrap()
        .iter()
        .find(|mail| mail["kind"] == "reset");
    let id = newest.unwrap()["id"].as_str().unwrap().to_owned();
    let mail = planted.appliance.run_json(&["mail", "show", &id, "--json"]);
    let mailed = token_in(mail[0]["text"].as_str().unwrap());
    let mailed = planted.plant("a reset token", &mailed);
    for odd in [
        json!({"token": token, "password": NEXT}),
        json!({"token": mailed, "password": "password"}),
        json!({"token": [mailed], "password": NEXT}),
        json!({"token": mailed, "password": {"new": NEXT}}),
    ] {
        assert_eq!(planted.ask("POST", RESET, &[], &odd).status, 400);
    }
    assert_eq!(
        planted
            .ask_as_user(&mailed, "GET", "/api/user/v1/users/x", &Value::Null)
            .status,
        401
    );
    // The page of the link has the token in its address and in its form.
    let page = format!("/reset?token={mailed}");
    assert_eq!(planted.ask("GET", &page, &[], &Value::Null).status, 200);
    let form = format!("token={mailed}&password=password&again=password");
    let weak = planted.appliance.ask("POST", "/reset", &[], &form);
    assert_eq!(weak.status, 400);
    let body = json!({"token": mailed, "password": NEXT});
    assert_eq!(planted.ask("POST", RESET, &[], &body).status, 200);
    let body = json!({"identity": EMAIL, "accessKey": NEXT});
    let again = planted.ask("POST", AUTH, &[], &body);
    planted.plant("a user token", &text(&again, "token"));
}

/// Returns which secrets `content` contains.
fn find_secrets(secrets: &[(&str, String)], place: &str, content: &str) -> Vec<String> {
    let here = secrets
        .iter()
        .filter(|(_, secret)| content.contains(secret.as_str()));
    here.map(|(what, _)| format!("{what} in {place}")).collect()
}

fn catalogue(directory: &Path) -> String {
    let path = directory.join("catalogue.toml");
    let key = HEXLOWER.encode(KEY.as_bytes());
    let content = format!(
        "[[asset]]\nid = \"film\"\npg_age = 18\nplaylist = {{ dash = \"origin:film/manifest.mpd\" }}\n\
         keys = [{{ kid = \"{KID}\", key = \"{key}\" }}]\n\
         [[offer]]\nid = \"all\"\ntype = \"default\"\npack = {{ assets = [\"film\"] }}\n"
    );
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn planted_secrets_reach_no_log_error_metric_or_file() {
    let outside = tempfile::tempdir().unwrap();
    let data_dir = tempfile::tempdir().unwrap();
    let log = outside.path().join("log");
    let settings = [
        ("PLAYGATE_LOG_LEVEL", "trace"),
        ("PLAYGATE_LOG_FORMAT", "json"),
        ("PLAYGATE_LOG_ACCESS", "true"),
        ("PLAYGATE_PLAYBACK_CLEARKEY", "true"),
        ("PLAYGATE_ACCOUNTS_ARGON2_MEMORY_KIB", "8192"),
    ];
    let to_log = Stdio::from(fs::File::create(&log).unwrap());
    let appliance = Appliance::with_log(data_dir.path(), &settings, to_log);
    let added = appliance.run_json(&["partner", "add", "Acme", "--json"]);
    let second = appliance.run_json(&["partner", "token", "add", "Acme", "--json"]);
    let eva = appliance.run_json(&["operator", "add", "Eva", "--role", "admin", "--json"]);
    appliance.run_ok(&["catalog", "import", &catalogue(outside.path())]);
    let of = |values: &[Value], name: &str| values[0][name].as_str().unwrap().to_owned();
    let mut planted = PlantedSecrets {
        partner: of(&added, "accessToken"),
        appliance,
        secrets: Vec::new(),
        refusals: String::new(),
        asked: 0,
    };
    planted.plant("a partner's token", &of(&added, "accessToken"));
    planted.plant("a partner's token", &of(&second, "accessToken"));
    planted.plant("an operator's token", &of(&eva, "token"));
    for password in [PASSWORD, WRONG, NEXT] {
        planted.plant("a password", password);
    }
    let key = HEXLOWER.encode(KEY.as_bytes());
    for form in [
        KEY.to_owned(),
        key.to_uppercase(),
        key,
        BASE64.encode(KEY.as_bytes()),
        BASE64URL_NOPAD.encode(KEY.as_bytes()),
    ] {
        planted.plant("a content key", &form);
    }

    let (token, user_path) = accounts(&mut planted);
    playback(&mut planted, &token);
    assert_eq!(
        planted
            .ask_as_user(&token, "GET", &format!("{user_path}/export"), &Value::Null)
            .status,
        200
    );
    reset(&mut planted, &token);
    let metrics = planted.appliance.metrics();
    planted.appliance.kill();

    let log = fs::read_to_string(&log).unwrap();
    let stored = files(data_dir.path());
    // Control: the same search finds texts that may be there.
    assert!(log.contains(REQUEST_ID));
    assert!(stored.iter().any(|(_, content)| content.contains(EMAIL)));
    assert!(metrics.contains("playgate_password_hashes_total"));
    assert!(planted.refusals.contains("INVALID_CREDENTIALS"));
    assert!(planted.secrets.len() > 15);

    let mut everywhere = Vec::new();
    // Fractions of seconds contain six digits by chance, so in the log PINs are searched for as words only.
    let words = PINS.iter().flat_map(|pin| {
        let words = [
            format!("\"{pin}"),
            format!(" {pin}"),
            format!(":{pin}"),
            format!("={pin}"),
        ];
        words.map(|word| ("a PIN", word))
    });
    let secrets: Vec<_> = planted.secrets.iter().cloned().chain(words).collect();
    everywhere.extend(find_secrets(&secrets, "the log", &log));
    everywhere.extend(find_secrets(&secrets, "a refusal", &planted.refusals));
    everywhere.extend(find_secrets(&secrets, "the metrics", &metrics));
    let pins = PINS.map(|pin| ("a PIN", pin.to_owned()));
    let secrets: Vec<_> = planted.secrets.iter().cloned().chain(pins).collect();
    for (path, content) in &stored {
        everywhere.extend(find_secrets(&secrets, &path.display().to_string(), content));
    }
    assert!(everywhere.is_empty(), "{everywhere:#?}");
}
