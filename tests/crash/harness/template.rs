//! A filled data directory with its ledger, and copies of it for tests to damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::appliance::Launch;
use crate::harness::disk::run;
use crate::harness::rng::Rng;
use crate::workload::{Mix, Workload};

/// How the process that filled it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    Stop,
    Kill,
}

pub struct Template {
    folder: TempDir,
    pub workload: Workload,
}

impl Template {
    pub fn make(ended_by: EndedBy, rng: &Rng) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let launch = Launch::new(&folder.path().join("template"));
        let mut appliance = launch.ready();
        let mut workload = Workload::new(&launch, &appliance).unwrap();
        let address = appliance.address.clone();
        workload.work(&address, Mix::Importing, rng, || {
            thread::park_timeout(Duration::from_millis(600));
        });
        // Half of the data is in a snapshot and a backup, half in the log after them.
        let made = launch.run(&["backup", "create"]);
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        workload.work(&address, Mix::Importing, rng, || {
            thread::park_timeout(Duration::from_millis(400));
        });
        // Every request was answered, so the ledger has no open changes.
        assert_eq!(workload.problems(), Vec::<String>::new());
        match ended_by {
            EndedBy::Stop => assert_eq!(appliance.end(), Some(0), "{}", appliance.log()),
            EndedBy::Kill => appliance.kill(),
        }
        // Every start creates it again, and it is large.
        let _ = fs::remove_file(launch.data_dir.join("ballast"));
        Self { folder, workload }
    }

    /// Returns a path next to the copies.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a fresh copy, replacing the last one of this name.
    pub fn copy(&self, name: &str) -> PathBuf {
        let copy = self.path(name);
        let _ = fs::remove_dir_all(&copy);
        let template = self.path("template");
        run(Command::new("cp").arg("-a").args([&template, &copy])).unwrap();
        copy
    }
}

/// Lists a path and everything below it.
pub fn list(path: &Path, found: &mut Vec<PathBuf>) {
    found.push(path.to_owned());
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        list(&entry.path(), found);
    }
}
