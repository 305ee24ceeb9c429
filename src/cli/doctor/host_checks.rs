//! Checks of the host: clock, disk space, permissions, backups, systemd unit.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::{fs, io};

use rustix::fs::statvfs;

use super::finding::DoctorFinding;
use crate::process::run_limited::output_of;
use playgate_app::backup_settings;
use playgate_config::Config;
use playgate_domain::backups::{BackupDirectory, BackupError};
use playgate_domain::set_aside;
use playgate_ports::{Clock as _, SystemClock, zoneinfo};
use playgate_types::UnixSeconds;
use playgate_types::time::DAY;

/// 2026-01-01: an earlier system time is certainly wrong.
const NOT_BEFORE: UnixSeconds = UnixSeconds(1_767_225_600);
/// A disk is low on space if it is below both limits.
const LOW_PERCENT: u64 = 10;
const LOW_BYTES: u64 = 2 * GIB;
const GIB: u64 = 1024 * 1024 * 1024;

pub(super) fn findings(config: &Config) -> Vec<DoctorFinding> {
    let mut findings = vec![clock(), disk(&config.server.data_dir)];
    findings.extend(rights(&config.server.data_dir));
    findings.push(backups(config));
    findings.push(time_zones(config));
    findings.extend(aside(&config.server.data_dir));
    findings.extend(unit());
    findings.extend(version());
    findings
}

fn command_output(program: &str, arguments: &[&str]) -> Option<String> {
    let text = output_of(program, arguments)?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn clock() -> DoctorFinding {
    const FIX: &str = "timedatectl set-ntp true";
    if SystemClock.now() < NOT_BEFORE {
        return DoctorFinding::problem(
            "clock",
            "the system time is years behind: tokens and the schedule depend on it",
            FIX,
        );
    }
    match command_output(
        "timedatectl",
        &["show", "--property=NTPSynchronized", "--value"],
    )
    .as_deref()
    {
        Some("yes") => DoctorFinding::ok("clock", "synchronised by NTP"),
        Some(_) => DoctorFinding::warning("clock", "not synchronised by NTP", FIX),
        None => DoctorFinding::warning(
            "clock",
            "no time synchronisation found",
            "install chrony or systemd-timesyncd",
        ),
    }
}

fn time_zones(config: &Config) -> DoctorFinding {
    let rules = zoneinfo::choose(config.schedule.zoneinfo.as_deref());
    match rules.warning(SystemClock.now()) {
        Some(warning) => {
            DoctorFinding::warning("time zones", warning, "apt install --only-upgrade tzdata")
        }
        None => DoctorFinding::ok("time zones", format!("rules of {}", rules.summary())),
    }
}

/// Returns free and total bytes of the disk that holds, or would hold, a directory.
fn space(directory: &Path) -> io::Result<(u64, u64)> {
    // Before the first start the directory does not exist yet.
    let there = directory.ancestors().find(|path| path.exists());
    let disk = statvfs(there.unwrap_or(Path::new("/")))?;
    // `f_bavail` leaves out the blocks reserved for root, which the service cannot use.
    Ok((disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize))
}

fn disk(directory: &Path) -> DoctorFinding {
    let place = directory.display();
    match space(directory) {
        Ok((free, all)) => {
            let (gib, percent) = (free / GIB, free * 100 / all.max(1));
            let said = format!("{place}: {gib} GiB free, {percent} %");
            // Both limits: 10 % of a large disk is much, and a small disk may never have 2 GiB free.
            if free < LOW_BYTES && percent < LOW_PERCENT {
                let fix = "free space, move `data_dir` to a larger disk, or lower `telemetry.retention_days`";
                DoctorFinding::problem("disk", said, fix)
            } else {
                DoctorFinding::ok("disk", said)
            }
        }
        Err(error) => DoctorFinding::problem("disk", format!("{place}: {error}"), "mount the disk"),
    }
}

fn rights(directory: &Path) -> Option<DoctorFinding> {
    let mode = fs::metadata(directory).ok()?.permissions().mode();
    // The directory holds hashes of passwords and tokens, and the users' addresses.
    (mode & 0o007 != 0).then(|| {
        let place = directory.display();
        let said = format!("{place} is accessible to all users of this machine");
        DoctorFinding::problem("disk", said, format!("chmod o= {place}"))
    })
}

fn backups(config: &Config) -> DoctorFinding {
    const FIX: &str = "playgate backup create";
    let (data, copies) = (&config.server.data_dir, &config.backup.dir);
    // Other files in the directory are not backups.
    let listed =
        BackupDirectory::new_offline(backup_settings(config), playgate_records::schema).list();
    let newest = listed.map(|backups| backups.iter().map(|backup| backup.created).max());
    match newest {
        Err(BackupError::NoDirectory(_)) | Ok(None) => {
            DoctorFinding::warning("backups", "no backup found", FIX)
        }
        Err(error) => DoctorFinding::problem("backups", error.to_string(), FIX),
        Ok(Some(created)) if SystemClock.now().since(created) > 2 * DAY => {
            let days = SystemClock.now().since(created) / DAY;
            let said = format!("the newest backup is {days} days old");
            DoctorFinding::warning("backups", said, FIX)
        }
        Ok(Some(_)) if on_one_disk(data, copies) => DoctorFinding::warning(
            "backups",
            "backups are on the same disk as the data",
            "set `backup.dir` to a directory on another disk",
        ),
        Ok(Some(_)) => DoctorFinding::ok("backups", "the newest backup is less than two days old"),
    }
}

/// Replaced stores and engines, which nothing deletes but a later one of their kind.
fn aside(data_dir: &Path) -> Option<DoctorFinding> {
    let names: Vec<_> = set_aside::replaced(data_dir)
        .iter()
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    (!names.is_empty()).then(|| {
        let place = data_dir.join("aside");
        let place = place.display();
        let said = format!(
            "{place} keeps what a restore or a repair replaced ({}), with users that were erased since; the service deletes it {} \
             days after",
            names.join(", "),
            set_aside::KEPT_DAYS
        );
        let fix = format!("rm -r {place}/* once you do not need it any more");
        DoctorFinding::warning("aside", said, fix)
    })
}

fn on_one_disk(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let disk = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).ok();
    disk(one).is_some() && disk(one) == disk(other)
}

fn unit() -> Option<DoctorFinding> {
    // Without systemd, as in a container, there is no unit to check.
    if !sd_notify::booted().unwrap_or(false) {
        return None;
    }
    let state = |property: &str| {
        let property = format!("--property={property}");
        command_output(
            "systemctl",
            &["show", "playgate.service", &property, "--value"],
        )
    };
    let [load, active, enabled] = ["LoadState", "ActiveState", "UnitFileState"].map(state);
    Some(
        match (load.as_deref(), active.as_deref(), enabled.as_deref()) {
            (Some("loaded"), Some("failed"), _) => DoctorFinding::problem(
                "unit",
                "failed",
                "journalctl -u playgate -n 50; then systemctl restart playgate",
            ),
            (Some("loaded"), Some("active"), Some("enabled")) => {
                DoctorFinding::ok("unit", "running, enabled at boot")
            }
            (Some("loaded"), Some("active"), _) => DoctorFinding::warning(
                "unit",
                "running, but not enabled at boot",
                "systemctl enable playgate",
            ),
            (Some("loaded"), ..) => {
                DoctorFinding::warning("unit", "not running", "systemctl enable --now playgate")
            }
            _ => DoctorFinding::ok(
                "unit",
                "no systemd unit: the service is started in another way",
            ),
        },
    )
}

/// Checks whether apt knows a newer version, from the lists on this machine: nothing asks the network.
fn version() -> Option<DoctorFinding> {
    // The file exists after an upgrade was refused or rolled back, until the next one.
    if Path::new("/usr/lib/playgate/replaced/playgate").exists() {
        return Some(DoctorFinding::warning(
            "version",
            "the last upgrade was rolled back, and the previous version is running",
            "dpkg --configure playgate (shows the cause), or install a newer version",
        ));
    }
    // The output is parsed, so it must be in English in every locale.
    newer_version(&output_of(
        "env",
        &["LC_ALL=C", "apt-cache", "policy", "playgate"],
    )?)
}

/// Judges the output of `apt-cache policy`; `None` if the package is not installed.
fn newer_version(policy: &str) -> Option<DoctorFinding> {
    let value = |name: &str| {
        let mut lines = policy.lines();
        lines.find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "))
    };
    let installed = value("Installed").filter(|version| *version != "(none)")?;
    let candidate = value("Candidate")?;
    Some(if installed == candidate {
        DoctorFinding::ok("version", format!("{installed}, the newest in apt's lists"))
    } else {
        DoctorFinding::warning(
            "version",
            format!("{installed} is installed, and {candidate} is available"),
            "apt install --only-upgrade playgate (docs/upgrading.md)",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_config::{Inputs, load};

    #[test]
    fn other_files_are_not_counted_as_backups() {
        let folder = tempfile::tempdir().unwrap();
        let copies = folder.path().join("backups");
        fs::create_dir(&copies).unwrap();
        fs::write(copies.join("notes.txt"), "not a backup").unwrap();
        let data = folder.path().to_str().unwrap().to_owned();
        let inputs = Inputs {
            file: None,
            demo: true,
            environment: Vec::new(),
            flags: vec![("data_dir", "--data-dir", data)],
            terminal: false,
        };
        let finding = backups(&load(&inputs).unwrap().config);
        assert_eq!(finding.finding, "no backup found");
    }

    #[test]
    fn replaced_stores_are_reported_until_they_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(aside(folder.path()), None);
        let kept = folder.path().join("aside/store.1");
        fs::create_dir_all(&kept).unwrap();
        let finding = aside(folder.path()).unwrap();
        assert!(finding.finding.contains("store.1"), "{finding:?}");
        fs::remove_dir(&kept).unwrap();
        assert_eq!(aside(folder.path()), None);
    }

    #[test]
    fn a_newer_version_in_the_lists_of_apt_is_reported() {
        let policy = |installed: &str, candidate: &str| {
            format!(
                "playgate:\n  Installed: {installed}\n  Candidate: {candidate}\n  Version table:\n"
            )
        };
        let finding = newer_version(&policy("0.1.0", "0.1.1")).unwrap();
        assert_eq!(finding.state, crate::doctor::finding::CheckState::Warning);
        assert!(
            finding.finding.contains("0.1.1 is available"),
            "{finding:?}"
        );
        let finding = newer_version(&policy("0.1.1", "0.1.1")).unwrap();
        assert_eq!(finding.state, crate::doctor::finding::CheckState::Ok);
        assert_eq!(newer_version(&policy("(none)", "0.1.1")), None);
        assert_eq!(newer_version(""), None);
    }
}
