//! A data directory that is set back to an earlier state, as a snapshot of a virtual machine or a file-level restore
//! does, while the backups are elsewhere: two histories use the same commit numbers.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::appliance::{Appliance, Launch, Started};
use crate::harness::disk::run;
use crate::harness::rng::Rng;
use crate::harness::tail;
use crate::workload::{Mix, Workload};

/// Two intervals of the backup job, and some more.
const TWO_BACKUP_INTERVALS: Duration = Duration::from_millis(11_000);

struct Scene {
    folder: TempDir,
    workload: Workload,
    rng: Rng,
    launch: Launch,
    /// The backup that was made after the state that the data directory is set back to.
    later: PathBuf,
}

impl Scene {
    /// `kept` is the number of backups to keep; the nightly backup is on only if `nightly`.
    fn new(name: &str, kept: &str, nightly: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let backups = folder.path().join("backups");
        fs::create_dir(&backups).unwrap();
        let at = if nightly { "00:00" } else { "off" };
        let launch = Launch::new(&folder.path().join("data"))
            .with("PLAYGATE_BACKUP_DIR", backups.to_str().unwrap())
            .with("PLAYGATE_BACKUP_KEEP", kept)
            .with("PLAYGATE_BACKUP_AT", at);
        let rng = Rng::for_test(name);
        let mut appliance = launch.ready();
        let mut scene = Self {
            workload: Workload::new(&launch, &appliance).unwrap(),
            folder,
            rng,
            launch,
            later: PathBuf::new(),
        };
        scene.work(&appliance);
        scene.back_up();
        scene.work(&appliance);
        assert_eq!(appliance.end(), Some(0), "{}", appliance.log());
        scene.copy("data", "earlier");
        let mut appliance = scene.launch.ready();
        scene.work(&appliance);
        scene.later = scene.back_up();
        scene.work(&appliance);
        assert_eq!(appliance.end(), Some(0), "{}", appliance.log());
        scene
    }

    fn work(&mut self, appliance: &Appliance) {
        self.workload
            .work(&appliance.address, Mix::Usual, &self.rng, || {
                thread::park_timeout(Duration::from_millis(300));
            });
        assert_eq!(self.workload.problems(), Vec::<String>::new());
    }

    fn copy(&self, from: &str, to: &str) {
        let [from, to] = [from, to].map(|name| self.folder.path().join(name));
        let _ = fs::remove_dir_all(&to);
        run(Command::new("cp").arg("-a").args([&from, &to])).unwrap();
    }

    fn back_up(&self) -> PathBuf {
        let made = self.launch.run(&["backup", "create", "--json"]);
        let stderr = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "{stderr}");
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        made["path"].as_str().unwrap().into()
    }

    fn backups(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("backups")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Changes the store as it is now; the ledger does not include this.
    fn add_partner(&self, appliance: &Appliance) {
        let added = self.launch.run(&["partner", "add", "another", "--json"]);
        assert!(
            added.status.success(),
            "{}",
            String::from_utf8_lossy(&added.stderr)
        );
        assert!(
            appliance
                .readiness()
                .is_some_and(|(status, _)| status == 200)
        );
    }

    fn lose_engine_and_snapshot(&self) {
        let store = self.folder.path().join("data/store");
        for entry in fs::read_dir(&store).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with("sled.") || name == "base" {
                fs::remove_dir_all(path).unwrap();
            }
        }
    }
}

#[test]
fn a_rollback_starts_a_new_timeline_and_keeps_every_backup() {
    let scene = Scene::new("rollback", "2", true);
    let before = scene.backups();
    scene.copy("earlier", "data");
    let appliance = scene.launch.ready();
    assert!(
        appliance.log().contains("set back to an earlier state"),
        "{}",
        appliance.log()
    );
    thread::park_timeout(TWO_BACKUP_INTERVALS);
    assert_eq!(scene.backups().len(), before.len(), "a storm of backups");
    for _ in 0..3 {
        scene.back_up();
    }
    assert!(scene.later.exists(), "the good backup is gone");
}

#[test]
fn with_one_kept_backup_the_newest_is_kept() {
    let scene = Scene::new("keep one", "1", false);
    scene.copy("earlier", "data");
    let appliance = scene.launch.ready();
    scene.add_partner(&appliance);
    let made = scene.back_up();
    assert!(made.exists(), "it says that it made {}", made.display());
    let verified = scene
        .launch
        .run(&["backup", "verify", made.to_str().unwrap()]);
    assert!(verified.status.success());
}

#[test]
fn a_log_is_not_replayed_on_a_backup_of_another_timeline() {
    let scene = Scene::new("abandoned", "1", false);
    scene.copy("earlier", "data");
    let mut appliance = scene.launch.ready();
    scene.add_partner(&appliance);
    appliance.kill();
    scene.lose_engine_and_snapshot();
    assert_eq!(scene.backups(), [scene.later.as_path()]);
    match scene.launch.start() {
        Started::Waiting(log) => assert!(log.contains("of another history"), "{}", tail(&log)),
        Started::Ready(appliance) => panic!("two histories are mixed:\n{}", appliance.log()),
        Started::Hung(log) | Started::Ended(_, log) => panic!("{}", tail(&log)),
    }
}

/// Control: a backup of the same history is used, and log and `store verify` report it.
#[test]
fn a_backup_of_the_same_timeline_replaces_a_lost_base() {
    let scene = Scene::new("same history", "1", false);
    scene.lose_engine_and_snapshot();
    let appliance = scene.launch.ready();
    let name = scene.later.file_name().unwrap().to_str().unwrap();
    let log = appliance.log();
    assert!(
        log.lines()
            .any(|line| line.contains("WARN") && line.contains(name)),
        "{log}"
    );
    let verified = scene.launch.run(&["store", "verify", "--json"]);
    let report: Value = serde_json::from_slice(&verified.stdout).unwrap();
    let from = report["durableState"]["rebuiltFrom"]
        .as_str()
        .unwrap_or_default();
    assert!(from.contains(name), "{report}");
    assert_eq!(report["sound"], true);
}
