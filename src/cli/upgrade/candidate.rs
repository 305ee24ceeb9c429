//! Lets another version check itself: a binary, or the one in a Debian package.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use tar::Archive;
use tokio::time::{Instant, sleep};

use super::check::UpgradeReport;
use crate::cli::Global;
use crate::cli::exit::{CommandResult, Exit, Failure};

/// Time limit of a check. A million users take about half a minute.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum output read from a candidate, in bytes.
const OUTPUT_MAX: u64 = 1024 * 1024;
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
    let spawned = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let ended = match spawned {
        Ok(child) => wait(child).await,
        Err(error) => Err(error),
    };
    match ended {
        Err(error) => UpgradeReport::failed(format!("{name} does not start: {error}")),
        Ok(CandidateExit { status, out, err }) => serde_json::from_str(&out).unwrap_or_else(|_| {
            UpgradeReport::failed(format!(
                "{name} has no `upgrade check`, or it ended without a report ({status}): {}",
                err.trim()
            ))
        }),
    }
}

struct CandidateExit {
    status: String,
    out: String,
    err: String,
}

async fn wait(mut child: Child) -> io::Result<CandidateExit> {
    // A child that fills a pipe nobody reads would never end.
    let out = child.stdout.take().map(read_on_thread).transpose()?;
    let err = child.stderr.take().map(read_on_thread).transpose()?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status.to_string(),
            None if Instant::now() > deadline => {
                child.kill()?;
                child.wait()?;
                break format!("killed after {} minutes", PATIENCE.as_secs() / 60);
            }
            None => sleep(POLL_INTERVAL).await,
        }
    };
    let text = |reader: Option<JoinHandle<String>>| {
        reader
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default()
    };
    Ok(CandidateExit {
        status,
        out: text(out),
        err: text(err),
    })
}

fn read_on_thread(from: impl io::Read + Send + 'static) -> io::Result<JoinHandle<String>> {
    std::thread::Builder::new().spawn(move || {
        let mut text = Vec::new();
        // An incomplete output is not a report.
        let _ = from.take(OUTPUT_MAX).read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
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
    let folder = TemporaryFolder::create()?;
    let binary = folder.0.join("playgate");
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

/// A new directory in `TMPDIR` that no other user can write to, removed on drop.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn create() -> Result<Self, Failure> {
        let name = format!("playgate-upgrade.{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Fails if the directory exists: another user may own it.
        let made: CommandResult = DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| Failure::file(&path, &error));
        made.map(|()| Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A directory that cannot be removed is left to the cleanup of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
