//! Lets another version check itself: a binary, or the one in a Debian package.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tar::Archive;
use tokio::task::spawn_blocking;

use super::check::UpgradeReport;
use crate::cli::Global;
use crate::cli::demo::TempDataDir;
use crate::cli::exit::{Exit, Failure};
use crate::cli::run_limited::{self, run_limited};

/// Time limit of a check. A million users take about half a minute.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);
const BINARY: &str = "./usr/bin/playgate";

/// Runs `upgrade check` of a binary. If that is impossible, the report says so as a problem of the binary.
pub(super) async fn check_binary(binary: &Path, global: &Global) -> UpgradeReport {
    let name = binary.display();
    // The version judges itself: only it knows which formats it can read.
    let mut command = Command::new(binary);
    command.args(["upgrade", "check", "--json"]);
    for (flag, value) in [
        ("--config", &global.config),
        ("--data-dir", &global.data_dir),
    ] {
        if let Some(value) = value {
            command.arg(flag).arg(value);
        }
    }
    let ended = match run_limited::start(&mut command) {
        Ok(child) => spawn_blocking(move || run_limited(child, TIMEOUT))
            .await
            .unwrap_or_else(|panic| Err(panic.into())),
        Err(error) => Err(error),
    };
    match ended {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => UpgradeReport::failed(format!(
            "{name}: `upgrade check` did not end within {} minutes",
            TIMEOUT.as_secs() / 60
        )),
        Err(error) => UpgradeReport::failed(format!("{name} does not start: {error}")),
        Ok(ended) => serde_json::from_str(&ended.out).unwrap_or_else(|_| {
            UpgradeReport::failed(format!(
                "{name} has no `upgrade check`, or it ended without a report ({}): {}",
                ended.status,
                ended.err.trim()
            ))
        }),
    }
}

pub(super) async fn check_deb(deb: &Path, global: &Global) -> Result<UpgradeReport, Failure> {
    // `dpkg-deb` would report a missing file as a broken package.
    File::open(deb).map_err(|error| Failure::file(deb, &error))?;
    let fields = ["Package", "Architecture"];
    let fields = match tool(
        Command::new("dpkg-deb")
            .arg("--field")
            .arg(deb)
            .args(fields),
    )? {
        Ok(fields) => fields,
        Err(why) => return Ok(not_a_package(deb, &why)),
    };
    let field = |name: &str| {
        let mut lines = fields.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap_or_default()
    };
    if field("Package") != "playgate" {
        return Ok(not_a_package(deb, "it is not a package of Playgate"));
    }
    let own = tool(Command::new("dpkg").arg("--print-architecture"))?.unwrap_or_default();
    let architecture = field("Architecture");
    if architecture != own.trim() {
        return Ok(not_a_package(
            deb,
            &format!(
                "it is for {architecture}, and this machine is {}",
                own.trim()
            ),
        ));
    }
    // Other users of the machine must not be able to replace the program that is run.
    let folder = TempDataDir::temporary("upgrade")?;
    let binary = folder.path().join("playgate");
    Ok(match unpack(deb, &binary) {
        Ok(()) => check_binary(&binary, global).await,
        Err(error) => not_a_package(deb, &error.to_string()),
    })
}

fn not_a_package(deb: &Path, why: &str) -> UpgradeReport {
    UpgradeReport::failed(format!("{} cannot be installed: {why}", deb.display()))
}

/// Runs a Debian tool and returns its output, or its error text if it failed.
fn tool(command: &mut Command) -> Result<Result<String, String>, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| {
        Failure::new(Exit::Failed, format!("{name}: {error}"))
            .hint("a package can be checked where dpkg is installed; elsewhere use `--binary`")
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr).trim().to_owned())
    })
}

fn unpack(deb: &Path, target: &Path) -> io::Result<()> {
    let mut child = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(deb)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut found = false;
    if let Some(archive) = child.stdout.take() {
        let mut archive = Archive::new(archive);
        for entry in archive.entries()? {
            let mut entry = entry?;
            // Only this file is written: names in an archive may lead out of any folder.
            if entry.path()? == Path::new(BINARY) {
                let mut file = File::options()
                    .write(true)
                    .create_new(true)
                    .mode(0o700)
                    .open(target)?;
                io::copy(&mut entry, &mut file)?;
                found = true;
            }
        }
    }
    // A truncated package fails here at the latest.
    let status = child.wait()?;
    match (status.success(), found) {
        (true, true) => Ok(()),
        (true, false) => Err(io::Error::other("it contains no usr/bin/playgate")),
        (false, _) => Err(io::Error::other("it is damaged or incomplete")),
    }
}
