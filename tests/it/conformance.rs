//! `playgate lab check` on a demo: what a client did, as its report tells it in four forms.

mod scenes;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::appliance::{binary, err, playgate};
use crate::support::raw_http::{Answer, ask, request};

struct Demo {
    place: TempDir,
    process: Child,
    public: SocketAddr,
    told: Value,
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn address(url: &Value) -> SocketAddr {
    let url = url.as_str().unwrap();
    url.strip_prefix("http://").unwrap().parse().unwrap()
}

impl Demo {
    fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let mut command = binary();
        command.args(["demo", "--json", "--listen", "127.0.0.1:0", "--data-dir"]);
        command
            .arg(place.path().join("data"))
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut first = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut first).unwrap();
        let told: Value = serde_json::from_str(&first).unwrap();
        Self {
            public: address(&told["baseUrl"]),
            place,
            process,
            told,
        }
    }

    fn call(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let token = self.told["partnerToken"].as_str().unwrap();
        let mut all = vec![("Service-AccessToken", token)];
        all.extend(headers);
        ask(self.public, request(method, target, &all, body))
    }

    /// Starts the encrypted film, fetches so many licenses, beats once and ends; the session.
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
        let mut command = playgate(&self.place.path().join("data"));
        command
            .args(["lab", "check", "--partner", "demo"])
            .args(arguments);
        command.current_dir(self.place.path()).output().unwrap()
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
        let body = json!({"identity": self.told["identity"], "accessKey": self.told["accessKey"]});
        let answer = self
            .call("POST", "/api/login/v2/auth/email", &[], &body.to_string())
            .json();
        format!("Bearer {}", answer["token"].as_str().unwrap())
    }
}

fn with_result<'a>(report: &'a Value, result: &str) -> Vec<&'a str> {
    let rules = report["rules"].as_array().unwrap().iter();
    let fitting = rules.filter(|rule| rule["result"] == result);
    fitting.map(|rule| rule["id"].as_str().unwrap()).collect()
}

/// Test cases, failures and skipped ones, as Python's own XML parser counts them, and the names of the failures.
fn junit(file: &Path) -> String {
    const COUNT: &str = "import sys, xml.etree.ElementTree as tree
suite = tree.parse(sys.argv[1]).getroot()
cases = suite.findall('testcase')
failed = [case.get('name') for case in cases if case.find('failure') is not None]
skipped = [case for case in cases if case.find('skipped') is not None]
assert (int(suite.get('tests')), int(suite.get('failures'))) == (len(cases), len(failed))
assert int(suite.get('skipped')) == len(skipped)
print(suite.tag, len(cases), *failed)";
    let output = Command::new("python3")
        .args(["-c", COUNT])
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", err(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
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
    assert_eq!(
        junit(&demo.place.path().join("report.xml")),
        "testsuite 36 one-license"
    );
    let page = std::fs::read_to_string(demo.place.path().join("report.html")).unwrap();
    assert!(page.contains("fetched 2 licenses for one start") && !page.contains("<script"));

    // Sessions are judged one by one.
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
        demo.place.path().join("profile.toml"),
        "[waived]\none-license = \"keys per track\"\n",
    )
    .unwrap();
    let (code, report) = demo.report(&["--profile", "profile.toml"]);
    assert_eq!(
        (code, with_result(&report, "waived")),
        (Some(0), vec!["one-license"])
    );
    for (text, said) in [
        (
            "[waived]\nnonsense = \"x\"\n",
            "there is no rule `nonsense`",
        ),
        ("[waived]\netag = \"\"\n", "waived without a reason"),
        ("[wavied]\n", "unknown field"),
    ] {
        std::fs::write(demo.place.path().join("profile.toml"), text).unwrap();
        let output = demo.check(&["--profile", "profile.toml"]);
        assert!(
            !output.status.success() && err(&output).contains(said),
            "{}",
            err(&output)
        );
    }
    let unknown = demo.check(&["--session", "AAAAAAAAAAAAAAAAAAAAAA"]);
    assert_eq!(unknown.status.code(), Some(3), "{}", err(&unknown));
    let nobody = playgate(&demo.place.path().join("data"))
        .args(["lab", "check", "--partner", "x"])
        .output()
        .unwrap();
    assert_eq!(nobody.status.code(), Some(3), "{}", err(&nobody));
}
