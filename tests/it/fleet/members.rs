//! Each member by itself: what a client can do through a standby, its probes, and whether it may be the owner.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::operations::{doctor, ops};
use super::stale_reads::User;
use super::trial::Fleet;
use super::{playgate, send, send_within, until};
use crate::support::appliance::{binary, real_time};
use crate::support::certificates::certificates;
use crate::support::external_tools::{free_port, program};
use crate::support::process::{InTime as _, first_json_line, signal};

/// A request that is answered at once does not wait for an owner, which takes ten seconds.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Enough for a look at the connections while they run.
const REQUESTS: usize = 600;

/// The order of the parts matters, because members are stopped on the way.
#[test]
fn each_member_of_a_fleet_is_judged_by_itself() {
    let settings = [
        ("PLAYGATE_GEO_HEADER", "X-Country"),
        ("PLAYGATE_HTTP_TRUSTED_PROXIES", "127.0.0.1"),
    ];
    let Some(mut fleet) = Fleet::with(&settings) else {
        return;
    };
    let standby = (fleet.owner() + 1) % 3;
    a_client_takes_no_header_away_at_a_standby(&fleet, standby);
    probes_and_metrics_are_those_of_the_member(&fleet, standby);
    settings_that_refuse_the_data_are_found_at_a_standby(&mut fleet, standby);
    a_member_that_may_not_own_is_no_next_owner(&mut fleet, standby);
    requests_of_one_connection_share_one_to_the_owner(&mut fleet, standby);
    a_killed_member_is_shown_as_down(&mut fleet, standby);
    the_owner_hands_over_on_request(&fleet, standby);
    a_standby_lives_without_owner_and_etcd(&mut fleet);
}

/// Its processes would go on in the background, and hold ports and files.
#[test]
fn a_trial_that_is_killed_leaves_no_process() {
    if program("etcd").is_none() {
        return;
    }
    let mut command = binary();
    command
        .args(["fleet", "try", "--json"])
        .env_remove("PLAYGATE_OPS_LISTEN")
        .stdin(Stdio::null());
    let (mut trial, greeting) = first_json_line(&mut command);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let operator = format!("Bearer {}", text(&greeting["operatorToken"]));
    let members = greeting["members"].as_array().unwrap();
    assert_eq!(greeting["baseUrl"], members[0]["baseUrl"]);
    for member in members {
        let at = |name: &str| text(&member[name])["http://".len()..].parse().unwrap();
        let headers = [("Authorization", &*operator)];
        let (status, body) = send(at("opsUrl"), "GET", "/admin/v1/about", &headers, "").unwrap();
        assert_eq!(status, 200, "{body}");
        let headers = [(
            "Service-AccessToken",
            greeting["partnerToken"].as_str().unwrap(),
        )];
        let target = "/api/catalog/v1/livestreams";
        let (status, body) = send(at("baseUrl"), "GET", target, &headers, "").unwrap();
        assert_eq!(status, 200, "{body}");
    }
    let etcd = greeting["etcd"].as_array().unwrap();
    assert!(text(&greeting["endpoint"]) == text(&etcd[0]["endpoint"]) && etcd[0]["name"] == "one");
    let pids = members
        .iter()
        .chain(etcd)
        .map(|process| process["pid"].as_u64().unwrap());
    let pids: Vec<_> = pids.collect();
    let is_running = |pid: &u64| {
        let state = fs::read_to_string(format!("/proc/{pid}/stat"));
        state.is_ok_and(|state| !state.contains(") Z"))
    };
    // Control.
    assert!(pids.len() == 6 && pids.iter().all(is_running));
    assert!(signal(trial.id(), Signal::KILL));
    trial.status_in_time();
    until("the end of all processes", || {
        (!pids.iter().any(is_running)).then_some(())
    });
}

#[test]
fn an_invitation_to_an_address_of_this_machine_only_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let config = folder.path().join("playgate.toml");
    let write = |listen: &str| {
        let fleet = "[fleet]\nendpoints = [\"http://127.0.0.1:1\"]\n";
        let text = format!("data_dir = \"{}\"\n{fleet}{listen}\n", data.display());
        fs::write(&config, text).unwrap();
    };
    fs::create_dir_all(data.join("fleet")).unwrap();
    let member = json!({
        "version": 1, "fleet": "01".repeat(16), "member": "02".repeat(16), "name": "north",
        "key": "03".repeat(32),
    });
    fs::write(data.join("fleet/member.json"), member.to_string()).unwrap();
    write("");
    let refused = playgate(&config, &["fleet", "invite"]).unwrap_err();
    assert!(refused.contains("`fleet.listen`"), "{refused}");
    write("listen = \"0.0.0.0:7080\"");
    let refused = playgate(&config, &["fleet", "invite"]).unwrap_err();
    assert!(refused.contains("`fleet.advertise`"), "{refused}");
    // Control: the same address, if it is meant.
    write("listen = \"127.0.0.1:7080\"");
    let word = playgate(&config, &["fleet", "invite"]).unwrap();
    assert_eq!(word.split_whitespace().count(), 1, "{word}");
}

// -- The parts

/// As behind a proxy that adds the country of the client.
fn a_client_takes_no_header_away_at_a_standby(fleet: &Fleet, standby: usize) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("catalog.json");
    let catalog = json!({
        "asset": [{"id": "swedish", "pg_age": 0, "playlist": {"dash": "origin:film/manifest.mpd"}}],
        "offer": [{
            "id": "swedish", "type": "default", "pack": {"assets": ["swedish"]}, "countries": ["SE"],
        }],
    });
    fs::write(&file, catalog.to_string()).unwrap();
    let import = ["catalog", "import", "--merge", file.to_str().unwrap()];
    playgate(&fleet.members[0].config, &import).unwrap();
    let at = fleet.members[standby].address;
    let user = User::sign_up(fleet, at, "abroad@example.com");
    let ask = |further: &[(&str, &str)]| {
        let headers = [&user.headers()[..], further].concat();
        let target = "/api/entitlement/v2/asset/swedish";
        send(at, "POST", target, &headers, "").unwrap()
    };
    // Control: the header counts.
    let (status, body) = ask(&[("X-Country", "SE")]);
    assert_eq!(status, 200, "{body}");
    let abroad = ("X-Country", "US");
    for connection in ["close", "X-Country", "close, x-country, X-Forwarded-For"] {
        let (status, body) = ask(&[abroad, ("Connection", connection)]);
        assert!(
            status == 403 && body.contains("GEO_BLOCKED"),
            "{connection}: {body}"
        );
    }
}

fn probes_and_metrics_are_those_of_the_member(fleet: &Fleet, standby: usize) {
    let owner = fleet.owner();
    for (at, is_owner) in [(owner, true), (standby, false)] {
        let ops = ops(&fleet.members[at].config);
        let (status, body) = send(ops, "GET", "/livez", &[], "").unwrap();
        assert_eq!((status, &*body), (200, "ok\n"));
        let metrics = until("the state of the member", || {
            let metrics = send(ops, "GET", "/metrics", &[], "")?.1;
            metrics
                .contains("\nplaygate_fleet_following 1\n")
                .then_some(metrics)
        });
        let shows = |line: &str| metrics.lines().any(|one| one == line);
        assert!(
            shows(&format!("playgate_fleet_owner {}", u8::from(is_owner))),
            "{metrics}"
        );
        assert!(shows("playgate_fleet_owner_known 1"), "{metrics}");
        assert_eq!(
            metrics.contains("\nplaygate_fleet_head "),
            is_owner,
            "{metrics}"
        );
        let (status, body) = send(ops, "GET", "/readyz", &[], "").unwrap();
        assert_eq!(status, 200, "{body}");
        // The owner speaks for the fleet.
        let (status, body) = send(ops, "GET", "/readyz?fleet", &[], "").unwrap();
        assert_eq!(status, 200, "{body}");
    }
}

fn a_killed_member_is_shown_as_down(fleet: &mut Fleet, standby: usize) {
    fleet.wait_until_caught_up(standby);
    let config = fleet.members[fleet.owner()].config.clone();
    let member = &mut fleet.members[standby];
    let shown = |name: &str| {
        let status = playgate(&config, &["fleet", "status", "--json"]).unwrap();
        let status: Value = serde_json::from_str(&status).unwrap();
        let members = status["members"].as_array().unwrap();
        let found = members.iter().find(|one| one["name"] == *name);
        (found.unwrap().clone(), status)
    };
    // Control: it runs.
    let (up, _) = shown(&member.name);
    assert!(up["role"] == "standby" && up["downSince"].is_null(), "{up}");
    assert!((1..=8).contains(&up["leaseLeft"].as_u64().unwrap()), "{up}");
    let killed = real_time().0;
    member.process.kill();
    let (down, status) = until("a member that is down", || {
        let (one, status) = shown(&member.name);
        one["downSince"].is_i64().then_some((one, status))
    });
    let since = down["downSince"].as_i64().unwrap();
    assert!((killed..=real_time().0).contains(&since), "{down}");
    assert!(down["role"] == "down" && down["up"] == false, "{down}");
    assert_eq!(
        (&down["leaseLeft"], &down["commit"]),
        (&json!(0), &up["commit"])
    );
    assert!(down["epoch"].as_u64().unwrap() > 0, "{down}");
    let text = format!("member {} is down since", member.name);
    assert!(status["problems"].to_string().contains(&text), "{status}");
    let text = playgate(&config, &["fleet", "status"]).unwrap();
    let mut lines = text.lines();
    let line = lines.find(|line| line.starts_with(&*member.name)).unwrap();
    assert!(
        line.contains(" down ") && line.contains("lease ended"),
        "{line}"
    );
    member.process.start(&member.config, &[]);
    until("the member that runs again", || {
        let (one, _) = shown(&member.name);
        let is_up = one["role"] == "standby" && one["downSince"].is_null();
        (is_up && one["leaseLeft"].as_u64() > Some(0)).then_some(())
    });
    fleet.wait_until_caught_up(standby);
}

fn settings_that_refuse_the_data_are_found_at_a_standby(fleet: &mut Fleet, standby: usize) {
    let settings = [
        // The partner of the sample data is a lab partner.
        ("PLAYGATE_ENVIRONMENT", "production"),
        ("PLAYGATE_ACCOUNTS_PASSWORD_MIN", "12"),
    ];
    restart(fleet, standby, &settings);
    let name = fleet.members[standby].name.clone();
    let config = fleet.members[fleet.owner()].config.clone();
    let named = |texts: &[&str]| {
        let found = doctor(&config);
        let says = |text: &&str| {
            let mut findings = found.iter().map(|one| one["finding"].as_str().unwrap());
            findings.any(|finding| finding.contains(*text))
        };
        texts.iter().all(says)
    };
    let unfit = format!("member {name} cannot take over, since its settings refuse the data");
    let differs = [
        "`environment` differs: production on",
        "`accounts.password_min` differs: 12 on",
    ];
    until("what is wrong with the settings", || {
        named(&[&unfit, differs[0], differs[1]]).then_some(())
    });
    let (status, body) = send(
        ops(&fleet.members[standby].config),
        "GET",
        "/readyz",
        &[],
        "",
    )
    .unwrap();
    assert!(status == 200 && body.contains("lab partner"), "{body}");
    let refused = playgate(&config, &["fleet", "handover", "--to", &name]).unwrap_err();
    assert!(refused.contains("refuse the data"), "{refused}");
}

fn a_member_that_may_not_own_is_no_next_owner(fleet: &mut Fleet, standby: usize) {
    restart(fleet, standby, &[("PLAYGATE_FLEET_MAY_OWN", "false")]);
    let name = fleet.members[standby].name.clone();
    let config = fleet.members[fleet.owner()].config.clone();
    let refused = until("a refusal", || {
        let refused = playgate(&config, &["fleet", "handover", "--to", &name]).unwrap_err();
        // Until it has started.
        (!refused.contains("does not answer")).then_some(refused)
    });
    assert!(refused.contains("`fleet.may_own = false`"), "{refused}");
    let unknown = playgate(&config, &["fleet", "handover", "--to", "nobody"]).unwrap_err();
    assert!(
        unknown.contains("the fleet has no member nobody"),
        "{unknown}"
    );
}

/// Before, each request at the same time had a connection of its own, which no limit counted.
fn requests_of_one_connection_share_one_to_the_owner(fleet: &mut Fleet, standby: usize) {
    let Some(curl) = program("curl") else { return };
    let certificates = certificates();
    let [cert, key, ca] = ["here.pem", "here.key", "ca.pem"]
        .map(|name| certificates.path().join(name).display().to_string());
    let secure = format!("127.0.0.1:{}", free_port());
    let settings = [
        ("PLAYGATE_TLS_LISTEN", &*secure),
        ("PLAYGATE_TLS_CERT", &*cert),
        ("PLAYGATE_TLS_KEY", &*key),
    ];
    restart(fleet, standby, &settings);
    let ops = ops(&fleet.members[standby].config);
    let connections = || {
        let metrics = send(ops, "GET", "/metrics", &[], "")?.1;
        let mut lines = metrics.lines();
        let count = lines.find_map(|line| line.strip_prefix("playgate_fleet_owner_connections "));
        count?.parse::<u64>().ok()
    };
    until("the standby", || connections().filter(|count| *count == 0));
    // A standby forwards all requests of the lab partner of the sample data.
    let token = format!("Service-AccessToken: {}", fleet.partner);
    let target = format!("https://{secure}/api/catalog/v1/livestreams?n=[1-{REQUESTS}]");
    let mut running = Command::new(curl)
        .args(["-sS", "--http2", "--parallel", "--parallel-max", "60"])
        .args(["--cacert", &ca, "-H", &token, "-o", "/dev/null"])
        .args(["-w", "%{http_code}\n", &target])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut most = 0;
    while running.try_wait().unwrap().is_none() {
        most = most.max(connections().unwrap_or_default());
    }
    let output = running.output_in_time();
    let statuses = String::from_utf8_lossy(&output.stdout);
    let answered = statuses.lines().filter(|status| *status == "200");
    assert_eq!(answered.count(), REQUESTS, "{statuses}");
    assert_eq!(most, 1);
}

fn the_owner_hands_over_on_request(fleet: &Fleet, to: usize) {
    let from = fleet.owner();
    let [from_name, to_name] = [from, to].map(|at| fleet.members[at].name.clone());
    let arguments = ["fleet", "handover", "--to", &to_name, "--json"];
    // Any member takes the command.
    let handed = until("a handover", || {
        playgate(&fleet.members[to].config, &arguments).ok()
    });
    let handed: Value = serde_json::from_str(&handed).unwrap();
    assert_eq!(handed["result"], "handed over", "{handed}");
    assert_eq!([&handed["from"], &handed["to"]], [&*from_name, &*to_name]);
    assert_eq!(fleet.owner(), to);
    fleet.wait_until_equal();
    let again = playgate(&fleet.members[from].config, &arguments).unwrap_err();
    assert!(again.contains("is the owner already"), "{again}");
}

/// A supervisor would end it, and it still takes heartbeats.
fn a_standby_lives_without_owner_and_etcd(fleet: &mut Fleet) {
    let owner = fleet.owner();
    let ops = until("a standby that follows", || {
        let standbys = (0..3).filter(|at| *at != owner);
        let mut standbys = standbys.map(|at| ops(&fleet.members[at].config));
        standbys.find(|ops| {
            let answer = send(*ops, "GET", "/readyz", &[], "");
            answer.is_some_and(|(status, _)| status == 200)
        })
    });
    fleet.pause_etcd_majority();
    fleet.members[owner].process.kill();
    let (status, body) = until("the reason", || {
        let (status, _) = send_within(AT_ONCE, ops, "GET", "/livez", &[], "").unwrap();
        assert_eq!(status, 200);
        let answer = send_within(AT_ONCE, ops, "GET", "/readyz", &[], "").unwrap();
        (answer.0 != 200).then_some(answer)
    });
    assert!(status == 503 && body.contains("\"fleet\":"), "{body}");
    let metrics = send_within(AT_ONCE, ops, "GET", "/metrics", &[], "")
        .unwrap()
        .1;
    assert!(
        metrics.contains("\nplaygate_fleet_following 0\n"),
        "{metrics}"
    );
    // A member that starts now waits for etcd, and still ends on request.
    let member = &mut fleet.members[owner];
    member.process.start(&member.config, &[]);
    let ops = self::ops(&member.config);
    until("the reason of the member that starts", || {
        let (_, body) = send_within(AT_ONCE, ops, "GET", "/readyz", &[], "")?;
        body.contains("has not read the log").then_some(())
    });
    member.process.stop();
    fleet.resume_etcd_majority();
}

fn restart(fleet: &mut Fleet, at: usize, settings: &[(&str, &str)]) {
    let member = &mut fleet.members[at];
    member.process.stop();
    member.process.start(&member.config, settings);
    fleet.wait_until_equal();
}
