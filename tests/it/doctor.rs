//! `playgate doctor`: its findings, remedies and support bundle.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::appliance::{Appliance, binary, err, playgate, real_time, sign_up};
use crate::support::process::InTime as _;
use crate::support::synthetic_guide::xmltv_time;

fn doctor(data: &Path, settings: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = playgate(data);
    command
        .arg("doctor")
        .args(arguments)
        .envs(settings.iter().copied());
    command.output_in_time()
}

/// Returns state and remedy of each finding on a part.
fn findings_on<'a>(found: &'a Value, part: &str) -> Vec<(&'a str, &'a str)> {
    let findings = found.as_array().unwrap().iter();
    findings
        .filter(|finding| finding["part"] == part)
        .map(|finding| {
            let fix = finding["fix"].as_str().unwrap_or_default();
            (finding["state"].as_str().unwrap(), fix)
        })
        .collect()
}

#[test]
fn doctor_reports_each_check_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let appliance = Appliance::start(&data);
    let output = doctor(&data, &[], &["--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for part in ["configuration", "disk", "addresses", "service"] {
        assert_eq!(findings_on(&found, part), [("ok", "")], "{found}");
    }
    assert_eq!(
        findings_on(&found, "backups"),
        [("warning", "playgate backup create")]
    );
    assert_eq!(
        findings_on(&found, "partners"),
        [("warning", "playgate partner add NAME")]
    );
    assert!(output.status.success(), "{found}");
    let text = doctor(&data, &[], &[]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("-> playgate partner add NAME"), "{text}");

    sign_up(&appliance);
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let port = gone.port().to_string();
    let sink = format!("http://127.0.0.1:{port}/");
    let settings = [
        ("PLAYGATE_SMTP_HOST", "127.0.0.1"),
        ("PLAYGATE_SMTP_PORT", &port),
        ("PLAYGATE_MAIL_FROM", "playgate@example.org"),
        ("PLAYGATE_TELEMETRY_FORWARD_URL", &sink),
        ("PLAYGATE_LISTEN", "0.0.0.0:8080"),
        ("PLAYGATE_HTTP_TRUSTED_PROXIES", "10.0.0.1"),
    ];
    let output = doctor(&data, &settings, &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        findings_on(&found, "disk")[1].1.starts_with("chmod o= "),
        "{found}"
    );
    for (part, state, fix) in [
        ("mail", "problem", "playgate mail test"),
        ("forwarding", "warning", "`telemetry.forward.url`"),
        ("addresses", "warning", "`public_url`"),
        ("proxy", "warning", "`listen`"),
    ] {
        let finding = findings_on(&found, part)[0];
        assert!(
            finding.0 == state && finding.1.contains(fix),
            "{part}: {found}"
        );
    }
    assert_eq!(findings_on(&found, "partners"), []);
    assert!(String::from_utf8_lossy(&output.stderr).contains("2 problems found"));

    // Without a server the store is still checked.
    drop(appliance);
    let output = doctor(&data, &[], &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [(state, fix)] = findings_on(&found, "service")[..] else {
        panic!("{found}");
    };
    assert!(
        state == "problem" && fix.contains("systemctl start playgate"),
        "{found}"
    );
    assert_eq!(findings_on(&found, "store"), []);

    let output = doctor(&data, &[("PLAYGATE_LISTNE", "x")], &["--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(findings_on(&found, "configuration")[0].0, "problem");
    assert_eq!(output.status.code(), Some(1));
}

/// Operators can work before the configuration is repaired, while a server runs with the previous one. Missing media
/// files are reported before a viewer misses them.
#[test]
fn commands_work_with_a_running_server_despite_a_broken_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let config = folder.path().join("playgate.toml");
    fs::write(&config, format!("data_dir = \"{}\"\n", data.display())).unwrap();
    let file = config.to_str().unwrap();
    let mut appliance = Appliance::start_with(&data, &["--config", file]);
    let run = |arguments: &[&str]| {
        let mut command = binary();
        command.args(["--config", file]).args(arguments);
        let output = command.output_in_time();
        (output.status.code().unwrap(), err(&output))
    };
    let catalog = folder.path().join("catalog.toml");
    let film = "[[asset]]\nid = \"film\"\nplaylist = { dash = \"origin:film/a.mpd\" }\n";
    fs::write(&catalog, film).unwrap();
    let (code, text) = run(&["catalog", "import", catalog.to_str().unwrap()]);
    assert!(
        code == 0 && text.contains("origin:film/a.mpd of film"),
        "{text}"
    );

    let broken = format!("data_dir = \"{}\"\nlistn = 1\n", data.display());
    fs::write(&config, broken).unwrap();
    let (code, text) = run(&["partner", "add", "one"]);
    assert!(
        code == 0 && text.contains("configuration is invalid"),
        "{text}"
    );
    let (code, text) = run(&["catalog", "import", catalog.to_str().unwrap()]);
    assert!(
        code == 0 && text.contains("configuration is invalid"),
        "{text}"
    );
    let mut command = binary();
    let output = command
        .args(["--config", file, "doctor", "--json"])
        .output_in_time();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        findings_on(&found, "configuration")[0].0,
        "problem",
        "{found}"
    );
    assert_eq!(findings_on(&found, "service"), [("ok", "")], "{found}");
    appliance.kill();
    let (code, text) = run(&["partner", "list"]);
    assert!(code == 2 && text.contains("listn"), "{text}");

    fs::write(&config, format!("data_dir = \"{}\"\n", data.display())).unwrap();
    let output = binary()
        .args(["--config", file, "doctor", "--json"])
        .output_in_time();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(findings_on(&found, "media")[0].0, "warning", "{found}");
    // An asset that is granted but cannot play, here without a license server.
    let [(state, fix)] = findings_on(&found, "playback")[..] else {
        panic!("{found}");
    };
    assert!(
        state == "warning" && fix.contains("license.widevine.url"),
        "{found}"
    );
}

#[test]
fn the_support_bundle_contains_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let appliance = Appliance::start(&data);
    let (partner, bearer) = sign_up(&appliance);
    let file = folder.path().join("bundle.tar.gz");
    let settings = [
        ("PLAYGATE_SMTP_HOST", "127.0.0.1"),
        ("PLAYGATE_SMTP_USERNAME", "mailer"),
        ("PLAYGATE_SMTP_PASSWORD", "canary-of-the-password"),
        ("PLAYGATE_MAIL_FROM", "playgate@example.org"),
    ];
    let arguments = ["--bundle", file.to_str().unwrap()];
    doctor(&data, &settings, &arguments);
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let mut tar = Command::new("tar");
    assert!(
        tar.arg("-xzf")
            .arg(&file)
            .arg("-C")
            .arg(folder.path())
            .status_in_time()
            .success()
    );
    let part = |name: &str| fs::read_to_string(folder.path().join("playgate").join(name)).unwrap();
    assert!(
        part("configuration.txt").contains("smtp.password = ***"),
        "{}",
        part("configuration.txt")
    );
    assert!(part("metrics.txt").contains("playgate_"));
    assert!(part("changes.json").contains("admin_add_partner"));
    assert!(part("readyz.json").contains("\"ready\":true"));
    assert!(part("findings.json").contains("\"mail\"") && part("machine.txt").contains("MemTotal"));
    let (_, token) = bearer.split_once(' ').unwrap();
    for entry in fs::read_dir(folder.path().join("playgate")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for secret in ["canary-of-the-password", &partner, token, "ann@example.com"] {
            assert!(!text.contains(secret), "{secret} in {}", path.display());
        }
    }
    // An existing file is not overwritten.
    let again = doctor(&data, &settings, &arguments);
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists"));
}

#[test]
fn doctor_reports_country_offers_and_unrated_broadcasts() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let run = |arguments: &[&str]| {
        let output = playgate(&data).args(arguments).output_in_time();
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
    };
    run(&["partner", "add", "test"]);
    let found = |settings: &[(&str, &str)]| -> Value {
        let output = doctor(&data, settings, &["--json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let before = found(&[]);
    assert!(
        findings_on(&before, "countries").is_empty() && findings_on(&before, "ratings").is_empty(),
        "{before}"
    );
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let catalogue = "[[livestream]]\nid = \"news\"\n\n[[offer]]\nid = \"o\"\ntype = \"pass\"\npack = \"all\"\ncountries = [\"SE\"]\n";
    run(&["catalog", "import", &file("c.toml", catalogue)]);
    let now = real_time().0;
    let (start, stop) = (xmltv_time(now), xmltv_time(now + 3_600));
    let guide = format!(
        "<tv><programme channel=\"news\" start=\"{start}\" stop=\"{stop}\"><title>T</title></programme></tv>"
    );
    let guide = guide.as_str();
    run(&["epg", "import", &file("g.xml", guide), "--accept"]);
    for fallback in ["true", "false"] {
        let after = found(&[("PLAYGATE_GEO_PROFILE_FALLBACK", fallback)]);
        let [(state, fix)] = findings_on(&after, "countries")[..] else {
            panic!("{after}");
        };
        assert!(
            state == "warning" && fix.contains("geo.database"),
            "{after}"
        );
        let text = after.to_string();
        assert_eq!(
            text.contains("no user may play them"),
            fallback == "false",
            "{text}"
        );
        assert!(
            text.contains("1 of 1 broadcasts (100 %) have no age rating"),
            "{text}"
        );
    }
    let with_header = found(&[
        ("PLAYGATE_GEO_HEADER", "CF-IPCountry"),
        ("PLAYGATE_HTTP_TRUSTED_PROXIES", "127.0.0.1"),
    ]);
    assert!(
        findings_on(&with_header, "countries").is_empty(),
        "{with_header}"
    );
}
