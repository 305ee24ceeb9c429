//! The support bundle: findings, metrics, configuration with masked secrets, audit log and the end of the
//! log in one file. It must contain no table of the store and no token.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use tar::{Builder, Header};

use super::finding::DoctorFinding;
use crate::client::{Admin, path};
use crate::output::{CommandResult, Failure};
use crate::process::run_limited::output_of;
use crate::process::system_log;
use playgate_config::Loaded;
use playgate_ports::{Clock as _, SystemClock, named_file, zoneinfo};

/// Properties of the systemd unit. The environment is left out: it may hold secrets.
const UNIT: &str = "--property=ActiveState,SubState,Result,NRestarts,ExecMainStatus,MemoryCurrent,FragmentPath,DropInPaths";

pub(super) async fn write(
    file: &Path,
    findings: &[DoctorFinding],
    loaded: Option<&Loaded>,
    service: Option<&mut Admin>,
) -> CommandResult {
    let mut parts = vec![
        ("findings.json", json!(findings).to_string()),
        ("machine.txt", machine(loaded)),
    ];
    parts.extend(loaded.map(|loaded| ("configuration.txt", configuration(loaded))));
    if let Some(service) = service {
        for (name, place) in [
            ("readyz.json", "/readyz".to_owned()),
            ("metrics.txt", "/metrics".to_owned()),
            ("backups.json", path(&["backups"])),
            ("sources.json", path(&["epg", "sources"])),
            ("changes.json", path(&["audit"])),
        ] {
            // A part that cannot be fetched contains the error instead.
            let text = service.text(&place).await;
            parts.push((name, text.unwrap_or_else(|failure| failure.to_string())));
        }
    }
    parts.extend(system_log::handed_down_or_read().map(|log| ("log.txt", log)));
    pack(file, &parts).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::failed(format!("{} exists already", file.display()))
                .hint("name another file or remove it: files are never overwritten")
        }
        _ => Failure::file(file, &error),
    })
}

fn pack(file: &Path, parts: &[(&str, String)]) -> io::Result<()> {
    // The log may contain personal data: readable by its owner only, and never through a prepared link.
    let file = named_file::create_new(file)?;
    let mut archive = Builder::new(GzEncoder::new(file, Compression::default()));
    let now = u64::try_from(SystemClock.now().0).unwrap_or(0);
    for (name, text) in parts {
        let mut header = Header::new_gnu();
        header.set_size(u64::try_from(text.len()).unwrap_or(u64::MAX));
        header.set_mode(0o600);
        header.set_mtime(now);
        archive.append_data(&mut header, format!("playgate/{name}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish()?.sync_all()
}

fn configuration(loaded: &Loaded) -> String {
    let mut text = String::new();
    for each in &loaded.effective {
        let value = each.value.as_deref().unwrap_or("-");
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{} = {value}    # {}", each.key, each.origin);
    }
    text
}

fn machine(loaded: Option<&Loaded>) -> String {
    let zones = loaded.and_then(|loaded| loaded.config.schedule.zoneinfo.as_deref());
    let mut text = format!(
        "playgate {}\ntime zone rules {}\n",
        playgate_types::VERSION,
        zoneinfo::choose(zones).summary()
    );
    for file in [
        "/etc/os-release",
        "/proc/version",
        "/proc/meminfo",
        "/proc/loadavg",
    ] {
        if let Ok(content) = fs::read_to_string(file) {
            let _ = writeln!(text, "\n== {file}\n{content}");
        }
    }
    let data = loaded.and_then(|loaded| loaded.config.server.data_dir.to_str());
    for (program, arguments) in [
        // Other file systems do not matter, and one of a dead server would block `df`.
        ("df", &["-h", "--", data.unwrap_or("/")][..]),
        ("systemctl", &["show", "playgate.service", UNIT][..]),
    ] {
        if let Some(output) = output_of(program, arguments) {
            let _ = writeln!(text, "\n== {program}\n{output}");
        }
    }
    text
}
