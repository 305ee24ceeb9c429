//! One scenario per rule over the real interface. Played correctly, no rule fails and the rule has been observed; with
//! the mistake that the rule is about, that rule fails and no other.
//!
//! The lab clock replaces waiting, and lab faults cause rare situations.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::support::demo::Demo;
use crate::support::lab_report::with_result;
use crate::support::raw_http::{Answer, ask, request};

/// Seconds between two scenarios, so that none is in the period of another.
const SCENARIO_GAP: i64 = 1_200;
/// Seconds that a scenario plays at most.
const SCENARIO_TIME: i64 = 300;

struct Client<'a> {
    demo: &'a Demo,
    ops: SocketAddr,
    moved: Cell<i64>,
    began: Cell<i64>,
    bearer: RefCell<String>,
    user: RefCell<String>,
    entitlement: RefCell<String>,
    device: RefCell<String>,
    events: Cell<u64>,
}

struct Playing {
    headers: Vec<(String, String)>,
    asset: String,
}

impl<'a> Client<'a> {
    fn new(demo: &'a Demo) -> Self {
        Self {
            demo,
            ops: demo.address("opsUrl"),
            moved: Cell::new(0),
            began: Cell::new(0),
            bearer: RefCell::default(),
            user: RefCell::default(),
            entitlement: RefCell::default(),
            device: RefCell::new("telly".to_owned()),
            events: Cell::new(0),
        }
    }

    fn operate(&self, method: &str, target: &str, body: &Value) -> Answer {
        let token = self.demo.text("operatorToken");
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        let answer = ask(
            self.ops,
            request(method, target, &headers, &body.to_string()),
        );
        assert!(answer.status < 300, "{method} {target}: {}", answer.status);
        answer
    }

    fn wait(&self, seconds: i64) {
        self.moved.set(self.moved.get() + seconds);
        self.operate(
            "PUT",
            "/admin/v1/clock",
            &json!({"offset": self.moved.get()}),
        );
    }

    fn now(&self) -> i64 {
        let clock = self.operate("GET", "/admin/v1/clock", &Value::Null);
        clock.json()["now"].as_i64().unwrap()
    }

    /// Starts a new period, which excludes all requests until now.
    fn start_period(&self) {
        self.wait(SCENARIO_GAP);
        let left = self.end_of_program() - self.now();
        if left < SCENARIO_TIME {
            // Whatever the time of day: only the scenario of the border plays across one.
            self.wait(left + 1);
        }
        self.began.set(self.now());
    }

    fn end_of_program(&self) -> i64 {
        let open = self.id("/livestreams/open");
        let target = format!("/api/schedule/v1/broadcasts/live?livestreams={open}");
        let live = self.demo.call("GET", &target, &[], "").json();
        live[open]["current"]["stop"].as_i64().unwrap()
    }

    /// Makes the next request of this route fail with `code`.
    fn refuse(&self, route: &str, code: &str) {
        let fault = json!({"route": route, "times": 1, "do": {"refuse": code}});
        self.operate("POST", "/admin/v1/partners/demo/faults", &fault);
    }

    fn id(&self, pointer: &str) -> &str {
        self.demo
            .details
            .pointer(pointer)
            .unwrap()
            .as_str()
            .unwrap()
    }

    fn call(&self, method: &str, target: &str, more: &[(&str, &str)], body: &str) -> Answer {
        let bearer = self.bearer.borrow();
        let mut headers = vec![("Authorization", bearer.as_str())];
        headers.extend(more);
        self.demo.call(method, target, &headers, body)
    }

    fn log_in(&self) {
        let body = json!({"identity": self.id("/identity"), "accessKey": self.id("/accessKey")});
        let target = "/api/login/v2/auth/email";
        let answer = self
            .demo
            .call("POST", target, &[], &body.to_string())
            .json();
        let text = |name: &str| answer[name].as_str().unwrap().to_owned();
        *self.bearer.borrow_mut() = format!("Bearer {}", text("token"));
        *self.user.borrow_mut() = text("userId");
    }

    fn entitle(&self, asset: &str, session: Option<&Playing>, pin: bool) -> u16 {
        let body = match pin {
            true => json!({"pinCode": self.id("/pinCode")}).to_string(),
            false => String::new(),
        };
        let headers = session.map(|playing| playing.header("Service-Play-Session"));
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let target = format!("/api/entitlement/v2/asset/{asset}");
        let answer = self.call("POST", &target, &headers, &body);
        if answer.status == 200 {
            *self.entitlement.borrow_mut() = answer.json()["token"].as_str().unwrap().to_owned();
        }
        answer.status
    }

    fn preflight(&self, asset: &str) -> Option<Playing> {
        let (entitlement, device) = (
            self.entitlement.borrow().clone(),
            self.device.borrow().clone(),
        );
        let mut headers: Vec<(String, String)> = [
            ("Service-Play-DRM", "clearkey"),
            ("Service-Play-Protocol", "dash"),
            ("Service-Play-DevicePlatform", "linux"),
            ("Service-Play-DeviceType", "tv"),
            ("Service-Play-DeviceModel", "Telly 5"),
            ("Service-Play-DeviceId", &device),
            ("Service-Play-EntitlementId", &entitlement),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let borrowed: Vec<_> = headers
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let target = format!("/api/playback/v2/preflight/asset/{asset}");
        let answer = self.call("POST", &target, &borrowed, "");
        let map = answer.json()["headers"].clone();
        headers.push((
            "Service-Play-Session".to_owned(),
            map["Service-Play-Session"].as_str()?.to_owned(),
        ));
        Some(Playing {
            headers,
            asset: asset.to_owned(),
        })
    }

    fn start(&self, asset: &str) -> Playing {
        assert_eq!(self.entitle(asset, None, false), 200, "{asset}");
        self.preflight(asset).unwrap()
    }

    fn license(&self, playing: &Playing) {
        let challenge = json!({"kids": ["WtHA3gAAQACAAAAAAAAAAQ"], "type": "temporary"});
        let target = "/api/playback/v1/clearkey/license";
        let answer = self.call("POST", target, &playing.borrowed(), &challenge.to_string());
        assert_eq!(answer.status, 200);
    }

    fn beat_with(&self, playing: &Playing, more: &[(&str, &str)]) -> u16 {
        // A given header replaces the usual one; an empty value removes it.
        let changed = |name: &str| more.iter().any(|(other, _)| *other == name);
        let mut headers = playing.borrowed();
        let entitlement = self.entitlement.borrow().clone();
        let position = self.now().to_string();
        headers.extend([
            ("Service-Play-Timestamp", &*position),
            ("Service-Play-Bitrate", "1"),
            ("Service-Play-ResolutionWidth", "640"),
            ("Service-Play-ResolutionHeight", "360"),
        ]);
        headers.retain(|(name, _)| !changed(name) && *name != "Service-Play-EntitlementId");
        headers.push(("Service-Play-EntitlementId", &entitlement));
        headers.extend(more.iter().filter(|(_, value)| !value.is_empty()));
        self.call("POST", "/api/playback/v1/heartbeat", &headers, "")
            .status
    }

    fn beat(&self, playing: &Playing) -> u16 {
        self.beat_with(playing, &[])
    }

    fn beats(&self, playing: &Playing, times: usize, every: i64) {
        for _ in 0..times {
            self.wait(every);
            self.beat(playing);
        }
    }

    fn end(&self, playing: &Playing) {
        let headers = playing.borrowed();
        assert_eq!(
            self.call("DELETE", "/api/playback/v1/heartbeat", &headers, "")
                .status,
            204
        );
    }

    fn play(&self, asset: &str) {
        let playing = self.start(asset);
        self.beat(&playing);
        self.end(&playing);
    }

    fn event(&self, action: &str) -> Value {
        self.events.set(self.events.get() + 1);
        let (device, asset) = (self.device.borrow().clone(), self.id("/vod/open"));
        json!({
            "timestamp": self.now(), "action": action, "seqId": self.events.get(),
            "context": {"device_id": device, "asset_id": asset}, "extra": {"player_version": "1"},
        })
    }

    fn report(&self, events: &[Value]) -> u16 {
        let target = "/api/tracker/v1/telemetry-events";
        self.call("POST", target, &[], &json!(events).to_string())
            .status
    }

    fn report_event(&self, action: &str) {
        assert_eq!(self.report(&[self.event(action)]), 202);
    }

    fn get(&self, target: &str, more: &[(&str, &str)]) -> Answer {
        self.demo.call("GET", target, more, "")
    }

    fn devices(&self) -> u16 {
        let target = format!("/api/user/v1/users/{}/devices", self.user.borrow());
        self.call("GET", &target, &[], "").status
    }

    /// Plays a livestream until a heartbeat that fails with `code`.
    fn refused_beat(&self, code: &str) -> Playing {
        let playing = self.start(self.id("/livestreams/open"));
        self.beat(&playing);
        self.wait(10);
        self.refuse("heartbeat", code);
        assert_ne!(self.beat(&playing), 200);
        playing
    }
}

impl Playing {
    fn borrowed(&self) -> Vec<(&str, &str)> {
        let headers = self.headers.iter();
        headers.map(|(name, value)| (&**name, &**value)).collect()
    }

    fn header(&self, name: &str) -> (String, String) {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .unwrap()
            .clone()
    }
}

type Scenario = (&'static str, fn(&Client<'_>, bool));

const LIVE: &str = "/api/schedule/v1/broadcasts/live?livestreams=a,b&offset=";

fn film<'a>(c: &'a Client<'_>) -> &'a str {
    c.id("/vod/open")
}

fn log_in_after(c: &Client<'_>, log_ins: usize) {
    let playing = c.refused_beat("USER_TOKEN_INVALID");
    for _ in 0..log_ins {
        c.log_in();
    }
    c.wait(10);
    c.beat(&playing);
    c.end(&playing);
}

fn go_on_after(c: &Client<'_>, code: &str, entitled: bool) {
    let playing = c.refused_beat(code);
    if entitled {
        assert_eq!(c.entitle(&playing.asset, Some(&playing), false), 200);
    }
    // Longer than a viewer needs to type the PIN.
    c.beats(&playing, 7, 10);
    c.end(&playing);
}

const SCENARIOS: &[Scenario] = &[
    ("token-reused", |c, wrong| {
        c.play(film(c));
        if wrong {
            c.log_in();
        }
        c.play(film(c));
    }),
    ("login-after-401", |c, wrong| {
        log_in_after(c, if wrong { 0 } else { 1 })
    }),
    ("one-login-per-401", |c, wrong| {
        log_in_after(c, if wrong { 2 } else { 1 })
    }),
    ("no-logout-on-403", |c, wrong| {
        assert_eq!(c.entitle(c.id("/vod/premium"), None, false), 403);
        c.wait(1);
        if wrong {
            assert_eq!(
                c.call("POST", "/api/login/v2/auth/logout", &[], "").status,
                200
            );
        } else {
            assert_eq!(c.devices(), 200);
        }
    }),
    ("pin-once", |c, wrong| {
        let adult = c.id("/vod/adult");
        assert_eq!(c.entitle(adult, None, false), 403);
        assert_eq!(c.entitle(adult, None, true), 200);
        let playing = c.preflight(adult).unwrap();
        c.beat(&playing);
        c.wait(10);
        if wrong {
            assert_eq!(c.entitle(adult, Some(&playing), true), 200);
        }
        c.beat(&playing);
        c.end(&playing);
    }),
    ("headers-unchanged", |c, wrong| {
        let playing = c.start(film(c));
        let model = if wrong { "Telly 6" } else { "Telly 5" };
        c.beat_with(&playing, &[("Service-Play-DeviceModel", model)]);
        c.end(&playing);
    }),
    ("stable-device-id", |c, wrong| {
        for id in ["telly", "telly-1", "telly-2"] {
            if wrong {
                *c.device.borrow_mut() = id.to_owned();
            }
            c.play(film(c));
        }
    }),
    ("heartbeat-interval", |c, wrong| {
        let playing = c.start(film(c));
        c.beat(&playing);
        c.beats(&playing, 5, if wrong { 5 } else { 10 });
        c.end(&playing);
    }),
    ("first-heartbeat", |c, wrong| {
        let playing = c.start(film(c));
        c.wait(if wrong { 15 } else { 5 });
        c.beat(&playing);
        c.end(&playing);
    }),
    ("heartbeat-complete", |c, wrong| {
        let playing = c.start(film(c));
        let bitrate = if wrong { "fast" } else { "1" };
        c.beat_with(&playing, &[("Service-Play-Bitrate", bitrate)]);
        c.end(&playing);
    }),
    ("position-unit", |c, wrong| {
        let playing = c.start(c.id("/livestreams/open"));
        let position = if wrong {
            "12".to_owned()
        } else {
            c.now().to_string()
        };
        c.beat_with(&playing, &[("Service-Play-Timestamp", &position)]);
        c.end(&playing);
    }),
    ("stop-on-552", |c, wrong| {
        c.report_event("playback_started");
        let playing = c.refused_beat("NO_LIVE_RIGHTS");
        c.report_event(if wrong {
            "playback_buffering"
        } else {
            "playback_paused"
        });
        c.beats(&playing, 2, 10);
        c.report_event("playback_stopped");
        c.end(&playing);
    }),
    ("stay-on-552", |c, wrong| {
        let playing = c.refused_beat("NO_LIVE_RIGHTS");
        c.beats(&playing, 1, 10);
        c.end(&playing);
        if wrong {
            c.play(c.id("/livestreams/open"));
        }
    }),
    ("stop-on-410", |c, wrong| {
        let playing = c.refused_beat("SESSION_ENDED");
        c.beats(&playing, usize::from(wrong), 10);
    }),
    ("preflight-on-404", |c, wrong| {
        let playing = c.refused_beat("SESSION_NOT_FOUND");
        c.beats(&playing, usize::from(wrong), 10);
    }),
    ("renew-entitlement", |c, wrong| {
        go_on_after(c, "ENTITLEMENT_EXPIRED", !wrong)
    }),
    ("pin-on-heartbeat", |c, wrong| {
        go_on_after(c, "PIN_CODE_REQUIRED", !wrong)
    }),
    ("end-session", |c, wrong| {
        let playing = c.start(film(c));
        c.beat(&playing);
        if !wrong {
            c.end(&playing);
        }
        c.wait(60);
        c.devices();
    }),
    ("show-409", |c, wrong| {
        c.refuse("preflight", "STREAM_LIMIT_REACHED");
        assert_eq!(c.entitle(film(c), None, false), 200);
        assert!(c.preflight(film(c)).is_none());
        c.wait(if wrong { 2 } else { 8 });
        let playing = c.preflight(film(c)).unwrap();
        c.beat(&playing);
        c.end(&playing);
    }),
    ("retry-after", |c, wrong| {
        let body = json!({"identity": "nobody@example.com", "accessKey": "not the password"});
        let guess = || {
            c.demo
                .call("POST", "/api/login/v2/auth/email", &[], &body.to_string())
        };
        assert!((0..50).any(|_| guess().status == 429));
        c.wait(if wrong { 1 } else { 1_000 });
        guess();
    }),
    ("no-retry-4xx", |c, wrong| {
        for _ in 0..1 + usize::from(wrong) {
            assert_eq!(c.entitle(c.id("/vod/premium"), None, false), 403);
        }
    }),
    ("back-off-5xx", |c, wrong| {
        c.refuse("devices", "INTERNAL");
        assert_eq!(c.devices(), 500);
        c.wait(if wrong { 0 } else { 3 });
        assert_eq!(c.devices(), 200);
    }),
    ("one-license", |c, wrong| {
        let playing = c.start(film(c));
        for _ in 0..1 + usize::from(wrong) {
            c.license(&playing);
        }
        c.beat(&playing);
        c.end(&playing);
    }),
    ("entitlement-at-border", |c, wrong| {
        let open = c.id("/livestreams/open");
        c.wait(c.end_of_program() - c.now() - 15);
        c.began.set(c.now());
        let playing = c.start(open);
        c.beat(&playing);
        c.beats(&playing, 2, 10);
        if !wrong {
            assert_eq!(c.entitle(open, Some(&playing), false), 200);
        }
        c.beats(&playing, 3, 10);
        c.end(&playing);
    }),
    ("entitlement-in-session", |c, wrong| {
        let playing = c.start(film(c));
        c.beat(&playing);
        c.wait(10);
        c.entitle(film(c), Some(&playing).filter(|_| !wrong), false);
        // A heartbeat of the same millisecond is not after it.
        c.wait(1);
        c.beat(&playing);
        c.wait(1);
        c.end(&playing);
    }),
    ("offset-in-bounds", |c, wrong| {
        let offset = if wrong { "-90000" } else { "-60" };
        c.get(&format!("{LIVE}{offset}"), &[]);
    }),
    ("preflight-after-entitlement", |c, wrong| {
        assert_eq!(c.entitle(film(c), None, false), 200);
        if wrong {
            // The entitlement is still valid, but the client does not ask for one at this start.
            c.wait(30);
            c.began.set(c.now());
            c.devices();
        }
        let playing = c.preflight(film(c)).unwrap();
        c.beat(&playing);
        c.end(&playing);
    }),
    ("etag", |c, wrong| {
        let target = "/api/catalog/v1/livestreams";
        let first = c.get(target, &[]);
        let tag = first.header("etag").unwrap().to_owned();
        let conditions = [("If-None-Match", tag.as_str())];
        for _ in 0..2 {
            c.get(target, if wrong { &[] } else { &conditions });
        }
    }),
    ("deprecated-routes", |c, wrong| {
        let open = c.id("/livestreams/open");
        let target = match wrong {
            true => format!("/api/schedule/v1/livestreams/{open}/live"),
            false => format!("/api/schedule/v1/broadcasts/live?livestreams={open},b"),
        };
        assert_eq!(c.get(&target, &[]).status, 200);
    }),
    ("ids-batched", |c, wrong| {
        let ids = if wrong {
            &["a", "b", "c"][..]
        } else {
            &["a,b,c"]
        };
        for id in ids {
            c.get(&format!("/api/schedule/v1/broadcasts?broadcasts={id}"), &[]);
        }
    }),
    ("telemetry-sequence", |c, wrong| {
        c.report_event("app_opened");
        c.events.set(c.events.get() + u64::from(wrong));
        c.report_event("app_closed");
    }),
    ("telemetry-clock", |c, wrong| {
        let mut event = c.event("app_opened");
        event["timestamp"] = json!(c.now() - if wrong { 90 } else { 5 });
        c.report(&[event]);
    }),
    ("telemetry-pairs", |c, wrong| {
        c.report_event("playback_started");
        if !wrong {
            c.report_event("playback_stopped");
        }
    }),
    ("telemetry-batches", |c, wrong| {
        let (first, at) = (c.events.get() + 1, c.now());
        let numbers = first..first + 500 + u64::from(wrong);
        c.events.set(numbers.end - 1);
        let event = |number| {
            json!({"timestamp": at, "action": "app_opened", "seqId": number,
                "context": {"device_id": "telly"}})
        };
        let events: Vec<_> = numbers.map(event).collect();
        assert_eq!(c.report(&events), 202);
    }),
    ("telemetry-secrets", |c, wrong| {
        let mut event = c.event("app_opened");
        if wrong {
            event["extra"]["accessToken"] = json!("pgu_nFAyjl96SoVyVODhyKO");
        }
        c.report(&[event]);
    }),
    ("telemetry-drop", |c, wrong| {
        let target = "/api/tracker/v1/telemetry-events";
        for _ in 0..1 + usize::from(wrong) {
            assert_eq!(c.call("POST", target, &[], "{").status, 400);
            c.wait(20);
        }
    }),
];

/// Returns the report for the period since the scenario began.
fn report_of_scenario(c: &Client<'_>) -> Value {
    let from = c.began.get().to_string();
    let (_, report) = c.demo.report(&["--from", &from]);
    report
}

#[test]
fn each_rule_is_named_by_its_mistake_and_by_no_other() {
    let demo = Demo::start();
    let c = Client::new(&demo);
    let mut failures = Vec::new();
    for (rule, scenario) in SCENARIOS {
        for wrong in [false, true] {
            c.start_period();
            c.log_in();
            *c.device.borrow_mut() = "telly".to_owned();
            scenario(&c, wrong);
            c.wait(1);
            let report = report_of_scenario(&c);
            let expected = if wrong { &[*rule][..] } else { &[] };
            let failed = with_result(&report, "failed");
            let seen = wrong || with_result(&report, "passed").contains(rule);
            if failed != expected || !seen {
                let all = report["rules"].as_array().unwrap().iter();
                let why: Vec<_> = all.filter(|rule| rule["result"] == "failed").collect();
                failures.push(format!("{rule}, wrong {wrong}, seen {seen}: {why:#?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let (_, report) = demo.report(&[]);
    let rules = report["rules"].as_array().unwrap().iter();
    let known: Vec<_> = rules.map(|rule| rule["id"].as_str().unwrap()).collect();
    let tried: Vec<_> = SCENARIOS.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(tried, known);
}
