//! `playgate lab run certification` and the CI job of the documentation, with an app that follows the interface and
//! with one that makes a mistake.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::appliance::{binary, err};
use crate::support::demo::Demo;
use crate::support::external_tools::program;
use crate::support::lab_report::{junit, with_result};
use crate::support::process::{InTime as _, KilledOnDrop, Lines, signal};
use crate::support::until::until_some;
use crate::terminal::on_terminal;

const APP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/lab_client/app.py");
/// How much faster than real time the server's clock runs.
const PACE: &str = "20";
/// The heartbeat interval of ten seconds in that clock.
const BEAT: &str = "0.5";

/// A certification that starts the app, at the pace of the accelerated clock.
fn certify(demo: &Demo, only: &str, more: &[&str]) -> Command {
    let app = format!("exec python3 '{APP}'");
    let mut command = demo.command(&["lab", "run", "certification", "--only", only]);
    command.args(["--command", &app]).args(more);
    command.env("PACE", BEAT);
    command
}

fn assert_undisturbed(demo: &Demo) {
    assert_eq!(demo.ok(&["lab", "fault", "list", "--json"]), json!([]));
    assert_eq!(demo.ok(&["clock", "show", "--json"])["offset"], 0);
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", err(output)))
}

fn rule<'a>(report: &'a Value, id: &str) -> &'a Value {
    let mut rules = report["rules"].as_array().unwrap().iter();
    rules.find(|rule| rule["id"] == id).unwrap()
}

#[test]
fn a_good_client_passes_the_certification_and_a_bad_one_is_named_with_its_rule() {
    let demo = Demo::start();
    demo.ok(&["clock", "scale", PACE, "--json"]);
    let all = "asset-gone,blackout,license-server,pin-border,revoked,stolen-stream,token-expired";
    let files = ["--json", "--html", "good.html", "--junit", "good.xml"];
    let output = certify(&demo, all, &files).output_in_time();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let good = report(&output);
    // Some situations, such as a full account, are in no scenario.
    assert_eq!(good["verdict"], "incomplete");
    assert_eq!(with_result(&good, "failed"), [""; 0]);
    for seen in [
        "login-after-401",
        "pin-on-heartbeat",
        "stay-on-552",
        "stop-on-410",
        "back-off-5xx",
        "heartbeat-interval",
        "end-session",
        "one-license",
    ] {
        assert_eq!(rule(&good, seen)["result"], "passed", "{seen}: {good}");
    }
    let scenarios = good["scenarios"].as_array().unwrap();
    let names: Vec<_> = scenarios.iter().map(|one| one["id"].clone()).collect();
    assert_eq!(json!(names), json!(all.split(',').collect::<Vec<_>>()));
    assert!(scenarios.iter().all(|one| one["passed"] == json!(true)));
    assert_eq!(junit(&demo.file("good.xml")), "testsuites 8");
    let page = fs::read_to_string(demo.file("good.html")).unwrap();
    assert!(page.contains("<code>stolen-stream</code>") && !page.contains("class=\"failed\""));

    let mut bad = certify(
        &demo,
        "asset-gone,license-server",
        &["--junit", "bad.xml", "--html", "bad.html"],
    );
    let bad = bad.env("MISTAKE", "two-licenses").output_in_time();
    assert_eq!(bad.status.code(), Some(1));
    let stderr = err(&bad);
    assert!(stderr.contains("the client broke one-license"), "{stderr}");
    let text = String::from_utf8(bad.stdout).unwrap();
    assert!(text.contains("passed    scenario license-server"), "{text}");
    assert!(
        text.contains("license-server: fetched 2 licenses for one start"),
        "{text}"
    );
    assert_eq!(junit(&demo.file("bad.xml")), "testsuites 3 one-license");
    let page = fs::read_to_string(demo.file("bad.html")).unwrap();
    assert!(page.contains("fetched 2 licenses"), "{page}");

    // A waiver with a reason applies to its own run only.
    fs::write(
        demo.file("waived.toml"),
        "[waived]\none-license = \"keys per track\"\n",
    )
    .unwrap();
    let waived = ["--json", "--profile", "waived.toml"];
    let mut waived = certify(&demo, "license-server", &waived);
    let waived = waived.env("MISTAKE", "two-licenses").output_in_time();
    assert_eq!(waived.status.code(), Some(0), "{}", err(&waived));
    assert_eq!(with_result(&report(&waived), "waived"), ["one-license"]);
    let again = certify(&demo, "license-server", &["--json"]).output_in_time();
    assert_eq!(with_result(&report(&again), "failed"), [""; 0]);
    demo.ok(&["clock", "scale", "1", "--json"]);
    assert_eq!(demo.ok(&["lab", "fault", "list", "--json"]), json!([]));
}

#[test]
fn a_second_certification_on_the_night_of_the_clock_change_judges_its_own_requests_only() {
    let demo = Demo::start();
    let run = |mistake: &str| {
        let mut command = certify(&demo, "clock-change", &["--json"]);
        command.env_remove("PACE").env("MISTAKE", mistake);
        let output = command.output_in_time();
        (output.status.code(), report(&output))
    };
    let (code, bad) = run("two-licenses");
    assert_eq!(
        (code, with_result(&bad, "failed")),
        (Some(1), vec!["one-license"])
    );
    // At the same time of the moved clock, so the requests of both runs overlap in time.
    let (code, good) = run("");
    assert_eq!(
        (code, with_result(&good, "failed")),
        (Some(0), Vec::new()),
        "{good}"
    );
    assert_eq!(good["sessions"], 1);
    assert_undisturbed(&demo);
}

#[test]
fn a_client_that_does_not_come_ends_the_certification_and_a_single_run_with_the_reason() {
    let demo = Demo::start();
    let run = |arguments: &[&str]| {
        let mut command = demo.command(&["lab", "run"]);
        command
            .args(arguments)
            .args(["--junit", "silent.xml"])
            .output_in_time()
    };
    let scenarios = ["--only", "asset-gone,blackout,restart"];
    let output = run(&[
        &["certification", "--limit", "2s", "--json"][..],
        &scenarios,
    ]
    .concat());
    assert_eq!(output.status.code(), Some(1));
    let stderr = err(&output);
    assert!(
        stderr.contains("\"message\":\"no request of the client came"),
        "{stderr}"
    );
    assert!(stderr.contains("a token of partner demo?"), "{stderr}");
    let silent = report(&output);
    assert_eq!(silent["verdict"], "failed");
    assert_eq!(silent["scenarios"].as_array().unwrap().len(), 1);
    assert_eq!(silent["notRun"], json!(["blackout", "restart"]));
    assert!(
        junit(&demo.file("silent.xml")).contains("2. on entitlement 404"),
        "{silent}"
    );

    let output = run(&["blackout", "--wait", "--limit", "1s"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = err(&output);
    let why = "error: Blackout and back: no request of the client within 1s\n  hint: does it use";
    assert!(stderr.contains(why), "{stderr}");

    // A command that fails has started no client, so the run ends without waiting for the limit.
    let output = run(&["certification", "--command", "echo no device >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = err(&output);
    assert!(
        stderr.contains("the command ended with exit status: 7"),
        "{stderr}"
    );
    assert_undisturbed(&demo);
}

#[test]
fn a_certification_at_a_terminal_says_what_to_do_in_the_app() {
    let demo = Demo::start();
    let scenarios = ["--only", "stolen-stream", "--limit", "1s"];
    let mut command = demo.command(&["lab", "run", "certification"]);
    let Some((code, shown)) = on_terminal(command.args(scenarios), "\n") else {
        return;
    };
    assert_eq!(code, 1, "{shown}");
    for line in [
        "1 of 1: Stolen stream (stolen-stream)",
        "In the app: Start a livestream or a film, and let it play. Do not start it again",
        "Stop playback in the app. Then press Enter.",
        "failed    scenario stolen-stream: no request of the client within 1s",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
}

#[test]
fn a_certification_with_impossible_options_is_refused_before_it_changes_anything() {
    let demo = Demo::start();
    fs::write(demo.file("wrong.toml"), "[wavied]\n").unwrap();
    for (arguments, why) in [
        (
            &["certification", "--only", "blackuot"][..],
            "no scenario `blackuot`; did you mean `blackout`?",
        ),
        (
            &["certification", "--profile", "wrong.toml"],
            "unknown field",
        ),
        (&["certification", "--limit", "0s"], "must be above 0"),
        (
            &["certification", "--limit", "5s", "--only", "clock-change"],
            "ends the scenario before its step at 20s",
        ),
        (
            &["blackout", "--html", "x.html"],
            "need `lab run certification`",
        ),
    ] {
        let mut command = demo.command(&["lab", "run"]);
        let output = command.args(arguments).output_in_time();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(why), "{}", err(&output));
    }
    assert_eq!(demo.ok(&["requests", "list", "--json"]), json!([]));
    assert_undisturbed(&demo);
}

#[test]
fn an_interrupted_certification_ends_the_client_and_leaves_no_fault_and_no_moved_clock() {
    let demo = Demo::start();
    for (scenario, disturbs) in [("clock-change", "clock"), ("license-server", "fault")] {
        let mut command = demo.command(&["lab", "run", "certification", "--only", scenario]);
        command.args([
            "--command",
            "echo $$ > client.pid; while :; do sleep 0.1; done",
        ]);
        let mut run = KilledOnDrop(command.stderr(Stdio::piped()).spawn().unwrap());
        let mut notes = Lines::read(run.stderr.take().unwrap());
        assert!(notes.any(|line| line.contains("waiting for the first request")));
        let disturbed = match disturbs {
            "clock" => demo.ok(&["clock", "show", "--json"])["offset"] != 0,
            _ => demo.ok(&["lab", "fault", "list", "--json"]) != json!([]),
        };
        assert!(disturbed, "{scenario}");
        let client = demo.file("client.pid");
        let pid = until_some("the client", || {
            let pid = fs::read_to_string(&client).ok()?;
            pid.ends_with('\n').then(|| pid.trim().to_owned())
        });
        assert!(signal(run.id(), Signal::INT));
        assert_eq!(run.status_in_time().code(), Some(1));
        let rest: Vec<String> = notes.collect();
        let expected = "error: the run was interrupted";
        assert!(rest.iter().any(|line| line.contains(expected)), "{rest:?}");
        assert!(
            !Path::new("/proc").join(&pid).exists(),
            "the client runs on"
        );
        fs::remove_file(client).unwrap();
        assert_undisturbed(&demo);
    }
}

/// Returns the code block of a language below a heading of a page.
fn block(page: &str, heading: &str, language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(page);
    let text = fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once(&format!("## {heading}\n")).unwrap();
    let (_, rest) = rest.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_ci_job_of_the_documentation_passes_with_a_good_app_and_fails_on_one_rule() {
    if program("jq").is_none() {
        return;
    }
    let workflow = block("lab.md", "In CI", "yaml");
    assert!(workflow.contains("run: sh ci/lab.sh") && workflow.contains("report.xml"));
    let script = block("lab.md", "In CI", "sh");
    let run = |mistake: &str| {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::create_dir(place("ci")).unwrap();
        fs::write(place("ci/lab.sh"), &script).unwrap();
        fs::write(
            place("app-test"),
            format!("#!/bin/sh\nexec python3 '{APP}'\n"),
        )
        .unwrap();
        let mut job = Command::new("sh");
        // As in a workflow: the files of the checkout, with `playgate` in the path.
        let tools = Path::new(env!("CARGO_BIN_EXE_playgate")).parent().unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths(
            [tools.to_owned()]
                .into_iter()
                .chain(std::env::split_paths(&path)),
        );
        for (name, value) in binary().get_envs() {
            match value {
                Some(value) => job.env(name, value),
                None => job.env_remove(name),
            };
        }
        job.args(["-c", "chmod +x app-test && sh ci/lab.sh"])
            .current_dir(folder.path());
        let output = job
            .env("PATH", path.unwrap())
            .env("MISTAKE", mistake)
            .output_in_time();
        let page = fs::read_to_string(place("report.html")).unwrap_or_default();
        (output, junit(&place("report.xml")), page)
    };
    std::thread::scope(|scope| {
        let bad = scope.spawn(|| run("two-licenses"));
        let (good, cases, _) = run("");
        assert_eq!(
            (good.status.code(), &*cases),
            (Some(0), "testsuites 4"),
            "{}",
            err(&good)
        );
        let (bad, cases, page) = bad.join().unwrap();
        assert_eq!(
            (bad.status.code(), &*cases),
            (Some(1), "testsuites 4 one-license"),
            "{}",
            err(&bad)
        );
        assert!(
            err(&bad).contains("error: the client broke one-license"),
            "{}",
            err(&bad)
        );
        assert!(page.contains("fetched 2 licenses for one start"));
    });
}
