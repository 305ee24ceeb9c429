//! `playgate lab check` on a demo: reports in four formats judge what a client did.

mod scenes;

use std::process::Output;

use serde_json::{Value, json};

use crate::support::appliance::err;
use crate::support::demo::Demo;
use crate::support::lab_report::{junit, with_result};
use crate::support::process::InTime as _;
use crate::support::raw_http::{Answer, ask, request};

impl Demo {
    fn call(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut all = vec![("Service-AccessToken", self.text("partnerToken"))];
        all.extend(headers);
        ask(self.address("baseUrl"), request(method, target, &all, body))
    }

    /// Plays the encrypted film with this number of licenses, one heartbeat and a stop. Returns the session.
    fn play(&self, bearer: &str, licenses: usize) -> String {
        let user = ("Authorization", bearer);
        let entitled = self.call("POST", "/api/entitlement/v2/asset/film-open", &[user], "");
        let token = entitled.json()["token"].as_str().unwrap().to_owned();
        let mut headers = vec![
            user,
            ("Service-Play-DRM", "clearkey"),
            ("Service-Play-Protocol", "dash"),
            ("Service-Play-DevicePlatform", "linux"),
            ("Service-Play-DeviceType", "tv"),
            ("Service-Play-DeviceModel", "Telly 5"),
            ("Service-Play-DeviceId", "telly"),
            ("Service-Play-EntitlementId", token.as_str()),
        ];
        let target = "/api/playback/v2/preflight/asset/film-open";
        let preflight = self.call("POST", target, &headers, "").json();
        let session = preflight["headers"]["Service-Play-Session"]
            .as_str()
            .unwrap();
        headers.push(("Service-Play-Session", session));
        let challenge =
            json!({"kids": ["WtHA3gAAQACAAAAAAAAAAQ"], "type": "temporary"}).to_string();
        for _ in 0..licenses {
            let license = self.call(
                "POST",
                "/api/playback/v1/clearkey/license",
                &headers,
                &challenge,
            );
            assert_eq!(license.status, 200);
        }
        let mut beat = headers.clone();
        beat.extend([
            ("Service-Play-Timestamp", "1"),
            ("Service-Play-Bitrate", "1"),
            ("Service-Play-ResolutionWidth", "640"),
            ("Service-Play-ResolutionHeight", "360"),
        ]);
        assert_eq!(
            self.call("POST", "/api/playback/v1/heartbeat", &beat, "")
                .status,
            200
        );
        assert_eq!(
            self.call("DELETE", "/api/playback/v1/heartbeat", &headers, "")
                .status,
            204
        );
        session.to_owned()
    }

    fn check(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(&["lab", "check", "--partner", "demo"]);
        command.args(arguments).output_in_time()
    }

    fn report(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let mut all = vec!["--json"];
        all.extend(arguments);
        let output = self.check(&all);
        let json =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", err(&output)));
        (output.status.code(), json)
    }

    fn log_in(&self) -> String {
        let body =
            json!({"identity": self.details["identity"], "accessKey": self.details["accessKey"]});
        let answer = self
            .call("POST", "/api/login/v2/auth/email", &[], &body.to_string())
            .json();
        format!("Bearer {}", answer["token"].as_str().unwrap())
    }
}

#[test]
fn each_form_of_the_report_names_the_period() {
    let demo = Demo::start();
    let session = demo.play(&demo.log_in(), 1);
    let text = |arguments: &[&str]| String::from_utf8(demo.check(arguments).stdout).unwrap();
    let period = |text: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("checked   "));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let of_partner = period(&text(&["--html", "page.html", "--junit", "page.xml"]));
    assert_eq!(of_partner.matches(" UTC").count(), 2, "{of_partner}");
    for file in ["page.html", "page.xml"] {
        let content = std::fs::read_to_string(demo.file(file)).unwrap();
        assert!(content.contains(&of_partner), "{of_partner}: {content}");
    }
    let of_session = period(&text(&["--session", &session]));
    assert!(
        of_session.starts_with(&format!("session {session}, ")) && of_session.ends_with(" UTC"),
        "{of_session}"
    );
}

#[test]
fn a_client_is_judged_by_what_it_did() {
    let demo = Demo::start();
    let (code, silent) = demo.report(&[]);
    assert_eq!((code, &silent["verdict"]), (Some(0), &json!("incomplete")));
    assert_eq!(with_result(&silent, "failed"), [""; 0]);
    assert_eq!(with_result(&silent, "notSeen").len(), 36);

    let bearer = demo.log_in();
    let good = demo.play(&bearer, 1);
    let (code, report) = demo.report(&["--from", "-10m"]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(with_result(&report, "failed"), [""; 0]);
    for id in [
        "one-license",
        "first-heartbeat",
        "end-session",
        "headers-unchanged",
        "preflight-after-entitlement",
    ] {
        assert!(
            with_result(&report, "passed").contains(&id),
            "{id}: {report}"
        );
    }
    assert!(with_result(&report, "notSeen").contains(&"stop-on-552"));

    let bad = demo.play(&bearer, 2);
    let output = demo.check(&["--html", "report.html", "--junit", "report.xml"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("failed    must   one-license"), "{text}");
    assert_eq!(junit(&demo.file("report.xml")), "testsuite 36 one-license");
    let page = std::fs::read_to_string(demo.file("report.html")).unwrap();
    assert!(page.contains("fetched 2 licenses for one start") && !page.contains("<script"));

    // Each session is judged by itself.
    assert_eq!(demo.report(&["--session", &good]).0, Some(0));
    let (code, report) = demo.report(&["--session", &bad]);
    assert_eq!(
        (code, with_result(&report, "failed")),
        (Some(1), vec!["one-license"])
    );
    let evidence = report["rules"]
        .as_array()
        .unwrap()
        .iter()
        .find(|rule| rule["result"] == "failed")
        .unwrap();
    assert_eq!(evidence["evidence"].as_array().unwrap().len(), 2);

    std::fs::write(
        demo.file("profile.toml"),
        "[waived]\none-license = \"keys per track\"\n",
    )
    .unwrap();
    let (code, report) = demo.report(&["--profile", "profile.toml"]);
    assert_eq!(
        (code, with_result(&report, "waived")),
        (Some(0), vec!["one-license"])
    );
    for (text, expected) in [
        (
            "[waived]\nnonsense = \"x\"\n",
            "there is no rule `nonsense`",
        ),
        ("[waived]\netag = \"\"\n", "waived without a reason"),
        ("[wavied]\n", "unknown field"),
    ] {
        std::fs::write(demo.file("profile.toml"), text).unwrap();
        let output = demo.check(&["--profile", "profile.toml"]);
        assert!(
            !output.status.success() && err(&output).contains(expected),
            "{}",
            err(&output)
        );
    }
    let unknown = demo.check(&["--session", "AAAAAAAAAAAAAAAAAAAAAA"]);
    assert_eq!(unknown.status.code(), Some(3), "{}", err(&unknown));
    let nobody = demo
        .command(&["lab", "check", "--partner", "x"])
        .output_in_time();
    assert_eq!(nobody.status.code(), Some(3), "{}", err(&nobody));
}
