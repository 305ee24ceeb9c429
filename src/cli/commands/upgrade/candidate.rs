//! Lets another version check itself: a binary, or the one in a Debian package.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tar::Archive;
use tokio::task::spawn_blocking;

use super::check::UpgradeReport;
use crate::as_owner::start_confined;
use crate::global::Global;
use crate::output::{Exit, Failure};
use crate::process::THIS_PROGRAM;
use crate::process::run_limited::{self, run_limited};
use crate::process::temp_dir::TempDataDir;
use playgate_ports::named_file;

/// Time limit of a check. A million users take about half a minute.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);
const BINARY: &str = "./usr/bin/playgate";

/// Runs `upgrade check` of a binary. If that is impossible, the report says so as a problem of the binary.
pub(super) async fn check_binary(binary: &Path, global: &Global) -> UpgradeReport {
    // The version judges itself: only it knows which formats it can read.
    let inherited = named_file::reopenable(binary);
    let mut command = Command::new(inherited.as_deref().unwrap_or(binary));
    command.arg0(binary).args(["upgrade", "check", "--json"]);
    add_options(&mut command, global);
    let started = start_confined(|| run_limited::start(&mut command));
    report_of(started, binary).await
}

/// Lets a version check itself, for a command that has to stay root's: this program becomes the owner of the data
/// directory first.
pub(super) async fn check_binary_as_owner(binary: &Path, global: &Global) -> UpgradeReport {
    let mut command = Command::new(THIS_PROGRAM);
    command
        .args(["upgrade", "check", "--json", "--binary"])
        .arg(binary);
    add_options(&mut command, global);
    report_of(run_limited::start(&mut command), binary).await
}

fn add_options(command: &mut Command, global: &Global) {
    for (flag, value) in [
        ("--config", &global.config),
        ("--data-dir", &global.data_dir),
    ] {
        if let Some(value) = value {
            command.arg(flag).arg(value);
        }
    }
}

async fn report_of(started: io::Result<Child>, binary: &Path) -> UpgradeReport {
    let name = binary.display();
    let ended = match started {
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
    // As standard input: `dpkg-deb` may not be allowed to open the file that root has opened for this process, and would
    // report a missing one as a broken package.
    let open = || named_file::open(deb).map_err(|error| Failure::file(deb, &error));
    let fields = ["Package", "Architecture"];
    let fields = match tool(
        Command::new("dpkg-deb")
            .args(["--field", "-"])
            .args(fields)
            .stdin(open()?),
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
    let machine_architecture =
        tool(Command::new("dpkg").arg("--print-architecture"))?.unwrap_or_default();
    let architecture = field("Architecture");
    if architecture != machine_architecture.trim() {
        return Ok(not_a_package(
            deb,
            &format!(
                "it is for {architecture}, and this machine is {}",
                machine_architecture.trim()
            ),
        ));
    }
    // Other users of the machine must not be able to replace the program that is run.
    let folder = TempDataDir::temporary("upgrade")?;
    let binary = folder.path().join("playgate");
    Ok(match unpack(open()?, &binary) {
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
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = start_confined(|| command.spawn()).and_then(Child::wait_with_output);
    let output = output.map_err(|error| {
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

fn unpack(deb: File, target: &Path) -> io::Result<()> {
    let mut command = Command::new("dpkg-deb");
    command
        .args(["--fsys-tarfile", "-"])
        .stdin(deb)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = start_confined(|| command.spawn())?;
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
