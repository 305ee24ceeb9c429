//! A filled data directory with its ledger, and copies of it for tests to damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::appliance::{Launch, Started};
use crate::harness::disk::run;
use crate::harness::rng::Rng;
use crate::workload::{Who, Workload};

/// How the process that filled it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    ByStop,
    ByKill,
}

pub struct Template {
    folder: TempDir,
    pub workload: Workload,
}

impl Template {
    pub fn make(left: Left, dice: &Rng) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let launch = Launch::of(&folder.path().join("template"));
        let Started::Ready(mut appliance) = launch.start() else {
            panic!("it does not start");
        };
        let mut workload = Workload::new(&launch, &appliance).unwrap();
        let address = appliance.address.clone();
        workload.work(&address, Who::Importing, dice, || {
            thread::park_timeout(Duration::from_millis(600));
        });
        // Half of it in a base and a backup, half in the log since.
        let made = launch.run(&["backup", "create"]);
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        workload.work(&address, Who::Importing, dice, || {
            thread::park_timeout(Duration::from_millis(400));
        });
        // Everybody has their answer, so that the ledger is sure of everything.
        assert_eq!(workload.problems(), Vec::<String>::new());
        match left {
            Left::ByStop => assert_eq!(appliance.end(), Some(0), "{}", appliance.log()),
            Left::ByKill => appliance.kill(),
        }
        // Made anew by each start, and large.
        let _ = fs::remove_file(launch.data_dir.join("ballast"));
        Self { folder, workload }
    }

    /// A place beside the copies.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A fresh copy, always at the same place.
    pub fn copy(&self, name: &str) -> PathBuf {
        let copy = self.beside(name);
        let _ = fs::remove_dir_all(&copy);
        let template = self.beside("template");
        run(Command::new("cp").arg("-a").args([&template, &copy])).unwrap();
        copy
    }
}

/// A path and all below it.
pub fn list(path: &Path, found: &mut Vec<PathBuf>) {
    found.push(path.to_owned());
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        list(&entry.path(), found);
    }
}
