//! Tries this version: checks the configuration, and opens, upgrades and verifies a copy of the store.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::client::Admin;
use crate::commands::backup::offline_change;
use crate::global::{Global, load_and_check};
use crate::output::{self, CommandResult, Failure};
use playgate_app::{App, Parts, Ports, StoreOpener, backup_settings, has_store, open_store};
use playgate_config::{Config, Loaded};
use playgate_domain::backups::{BackupDirectory, BackupError, Restoring, examine};
use playgate_process::data_file;
use playgate_store::{FleetAccess, FormatUpgrade, StoreError, bytes_below, copy_store};
use playgate_types::VERSION;

/// The directory of the copy, in the data directory: it needs the same disk and the same access rights.
const DIRECTORY: &str = "upgrade-check";

/// The result of a check. It is the interface between two versions: members may be added and never change.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct UpgradeReport {
    pub ok: bool,
    pub version: String,
    /// Why the version cannot serve; empty if it can.
    pub problems: Vec<String>,
    pub records: u64,
    /// Time to open the store, upgrade its format and fill the tables in memory.
    pub start_seconds: f64,
    pub verify_seconds: f64,
    /// Peak memory of the check. A server needs about as much.
    pub memory_bytes: u64,
    pub disk_bytes: u64,
}

impl UpgradeReport {
    pub(super) fn failed(problem: String) -> Self {
        Self {
            problems: vec![problem],
            ..Self::default()
        }
    }

    pub(super) fn print(&self, as_json: bool) -> CommandResult {
        const MIB: u64 = 1024 * 1024;
        if as_json {
            let report = serde_json::to_value(self);
            output::json(&report.map_err(|error| Failure::failed(error.to_string()))?)?;
        }
        let version = match self.version.as_str() {
            "" => "this version",
            version => version,
        };
        if !self.ok {
            let problems = self.problems.join("\n  ");
            return Err(Failure::failed(format!(
                "{version} cannot serve here\n  {problems}"
            )));
        }
        if !as_json {
            output::line(&format!(
                "{version} can serve here: {} records, start {:.1} s, verification {:.1} s, \
                 memory {} MiB, disk {} MiB",
                self.records,
                self.start_seconds,
                self.verify_seconds,
                self.memory_bytes.div_ceil(MIB),
                self.disk_bytes.div_ceil(MIB),
            ))?;
        }
        Ok(())
    }
}

pub(super) async fn check(global: &Global) -> Result<UpgradeReport, Failure> {
    let mut report = UpgradeReport {
        version: VERSION.to_owned(),
        ..UpgradeReport::default()
    };
    match load_and_check(&global.inputs()?) {
        Err(problems) => {
            let problems = problems.0.iter();
            report.problems = problems
                .map(|problem| format!("configuration: {problem}"))
                .collect();
        }
        // `Global::load` also drops root privileges, before a file is created.
        Ok(_) => match try_store(&global.load()?, &mut report).await {
            Ok(()) => report.ok = true,
            Err(failure) => report
                .problems
                .push(format!("store: {}", failure.message())),
        },
    }
    Ok(report)
}

async fn try_store(loaded: &Loaded, report: &mut UpgradeReport) -> CommandResult {
    let config = &loaded.config;
    // A new installation has no store: only the configuration is checked.
    if !has_store(config) {
        return Ok(());
    }
    // On the same disk as the data, so that the copy shows whether there is room for the upgrade.
    let directory = CheckDirectory::create(&config.server.data_dir)?;
    let mut copied = config.clone();
    // The server's own data and backups must not be touched.
    copied.server.data_dir = directory.data();
    copied.backup.dir = directory.data().join("backups");
    copy(loaded, &copied).await?;
    open_and_verify(copied, report)?;
    report.disk_bytes = bytes_below(&directory.data())?;
    Ok(())
}

/// Copies the store through the running server, if there is one, and the key files.
async fn copy(loaded: &Loaded, to: &Config) -> CommandResult {
    let (from, to_data) = (&loaded.config.server.data_dir, &to.server.data_dir);
    match Admin::running(loaded).await? {
        Some(mut admin) => copy_from_server(&mut admin, to).await?,
        None => copy_store(from, to_data, &playgate_records::schema())?,
    }
    // Without its keys the copy could not open sealed records.
    let keys = from.join("keys");
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| Failure::file(&path, &error)
    };
    if !keys.is_dir() {
        return Ok(());
    }
    create_private(&to_data.join("keys"))?;
    for entry in data_file::list(&keys).map_err(failed(&keys))? {
        let target = to_data.join("keys").join(entry.file_name());
        // It keeps the mode, so the copied keys stay private.
        data_file::copy(&entry.path(), &target).map_err(failed(&entry.path()))?;
    }
    Ok(())
}

async fn copy_from_server(admin: &mut Admin, to: &Config) -> CommandResult {
    let ports = Ports::for_machine(to);
    let restore = |snapshot: &Path| {
        let restoring = Restoring {
            instance: ports.entropy.array(),
            timeline: ports.entropy.array(),
            // The copy is a new installation, to which the snapshot is foreign.
            adopt: true,
            change: offline_change("upgrade_check", DIRECTORY.to_owned(), &*ports.clock),
        };
        let directory = BackupDirectory::new_offline(backup_settings(to), playgate_records::schema);
        directory.restore_offline(snapshot, restoring).map(drop)
    };
    admin
        .read_new_snapshot(restore, |error| {
            matches!(error, BackupError::Store(StoreError::Io(_)))
        })
        .await
}

/// Starts the service on the copy, without listeners and background jobs.
fn open_and_verify(config: Config, report: &mut UpgradeReport) -> CommandResult {
    let begin = Instant::now();
    let ports = Ports::for_machine(&config);
    let opener = StoreOpener {
        lock: None,
        // The copy need not survive a power cut.
        sync: false,
        accept_loss: false,
        upgrade: FormatUpgrade::Run,
        fleet: FleetAccess::Refuse,
        examine: Arc::new(|path: &Path| examine(path, &playgate_records::schema())),
        on_failure: Arc::new(
            |error| tracing::error!(%error, "the upgrade check failed: its copy of the store cannot be written or read"),
        ),
    };
    let store = open_store(&config, &ports, opener)?;
    let app = App::open(Parts {
        config,
        store,
        ports,
        listener: None,
        tls: None,
        sync: false,
        on_failure: Box::new(|error| {
            tracing::error!(
                error,
                "the upgrade check failed: its copy of the store cannot be written or read"
            )
        }),
        examine: Arc::new(|path: &Path| examine(path, &playgate_records::schema())),
        restart: None,
        is_standby: false,
    })?;
    report.start_seconds = rounded(begin.elapsed());
    let begin = Instant::now();
    let health = app.services.store_admin.verify()?;
    report.verify_seconds = rounded(begin.elapsed());
    report.records = health.tables.iter().map(|table| table.records).sum();
    // The peak of this process, which has done nothing but open and verify the copy.
    report.memory_bytes = peak_memory().unwrap_or_default();
    if health.is_sound() {
        return Ok(());
    }
    Err(Failure::failed(
        "the verification found damage; `playgate store verify` lists it",
    ))
}

fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = peak.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The directory for the copy. A lock allows one check at a time; leftovers of a killed check are removed.
struct CheckDirectory {
    path: PathBuf,
    _lock: File,
}

impl CheckDirectory {
    fn create(data_dir: &Path) -> Result<Self, Failure> {
        let path = data_dir.join(DIRECTORY);
        create_private(&path)?;
        let lock = path.join("lock");
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        let opened = data_file::open(&options, &lock);
        let opened = opened.map_err(|error| Failure::file(&lock, &error))?;
        // The lock ends with the process, even if it is killed.
        if opened.try_lock().is_err() {
            return Err(Failure::failed("another upgrade check is running"));
        }
        let directory = Self {
            path,
            _lock: opened,
        };
        let data = directory.data();
        match fs::remove_dir_all(&data) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::file(&data, &error));
            }
            _ => create_private(&data)?,
        }
        Ok(directory)
    }

    fn data(&self) -> PathBuf {
        self.path.join("data")
    }
}

impl Drop for CheckDirectory {
    fn drop(&mut self) {
        // Leftovers only cost space, until the next check removes them.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn create_private(path: &Path) -> CommandResult {
    let made = DirBuilder::new().mode(0o700).recursive(true).create(path);
    made.map_err(|error| Failure::file(path, &error))
}
