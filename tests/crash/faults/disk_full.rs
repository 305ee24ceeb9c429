//! Full disks (no bytes, no inodes) and read-only disks: reads continue, writes are answered 503, the process keeps
//! running, a start works, and writes resume without help once there is space.

use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::appliance::{Appliance, Launch};
use crate::harness::client::NoResponse;
use crate::harness::disk::{Disk, fill};
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::{Rng, skip};
use crate::workload::{Mix, Workload};

const RESUME_WITHIN: Duration = Duration::from_secs(5);
const WORK: Duration = Duration::from_millis(1_500);

struct Scene {
    disk: Disk,
    appliance: Option<Appliance>,
    workload: Workload,
    rng: Rng,
}

impl Scene {
    fn new(disk: Disk, name: &str) -> Self {
        let rng = Rng::for_test(name);
        let launch = launch(&disk);
        let appliance = launch.ready();
        let mut workload = Workload::new(&launch, &appliance).unwrap();
        workload.work(&appliance.address.clone(), Mix::Usual, &rng, || {
            thread::park_timeout(Duration::from_millis(500));
        });
        assert_eq!(workload.problems(), Vec::<String>::new());
        workload.counts();
        Self {
            disk,
            appliance: Some(appliance),
            workload,
            rng,
        }
    }

    fn running(&self) -> &Appliance {
        self.appliance.as_ref().expect("a running server")
    }

    /// Runs all actors for a while. Returns how many requests were done and how many were answered 503; any other
    /// outcome fails the test.
    fn work(&mut self) -> (u64, u64) {
        let address = self.running().address.clone();
        self.workload.work(&address, Mix::Importing, &self.rng, || {
            thread::park_timeout(WORK);
        });
        assert_eq!(
            self.workload.problems(),
            Vec::<String>::new(),
            "{}",
            self.running().log()
        );
        self.workload.counts()
    }

    fn assert_reads_work(&self) {
        let line = &mut self.running().line();
        let headers = [("Service-AccessToken", self.workload.keys.partner.as_str())];
        for target in [
            "/api/catalog/v1/livestreams",
            "/api/schedule/v1/broadcasts/live?livestreams=c0",
        ] {
            let answer = line.ask("GET", target, &headers, &Value::Null).unwrap();
            assert_eq!(answer.status, 200, "{target}");
        }
        for target in [
            "/admin/v1/users",
            "/admin/v1/operators",
            "/livez",
            "/metrics",
        ] {
            let answer = line.operate(&self.workload.keys.operator, "GET", target, &Value::Null);
            assert_eq!(answer.unwrap().status, 200, "{target}");
        }
    }

    /// Makes a durable write. Returns its status and error code.
    fn write(&self) -> String {
        self.try_write()
            .unwrap_or_else(|reason| panic!("no answer ({reason:?}): {}", self.running().log()))
    }

    fn try_write(&self) -> Result<String, NoResponse> {
        let line = &mut self.running().line();
        let body = json!({});
        let target = "/admin/v1/users/grants@example.com/grants/red";
        let target = format!("{target}?partner=rig");
        let answer = line.operate(&self.workload.keys.operator, "PUT", &target, &body)?;
        Ok(crate::workload::status_and_code(&answer))
    }

    /// Expects the process to exit because a call failed with EIO, and restarts it as a service manager does.
    fn exits_and_restarts(&mut self) {
        let mut appliance = self.appliance.take().expect("a running server");
        let ended = appliance.wait(RESUME_WITHIN);
        let log = appliance.log();
        assert_eq!(ended, Some(Some(5)), "{log}");
        let reasons = ["Input/output error", "Read-only file system"];
        assert!(reasons.iter().any(|reason| log.contains(reason)), "{log}");
        println!("it ended with 5, and is started again");
        self.appliance = Some(launch(&self.disk).ready());
    }

    /// Returns whether the process ends by itself within the time in which all changes must be synced.
    fn ends_by_itself(&mut self) -> bool {
        let appliance = self.appliance.as_mut().expect("a running server");
        appliance.wait(Duration::from_secs(2)).is_some()
    }

    fn assert_writes_resume(&self) {
        let since = Instant::now();
        loop {
            let status = self.write();
            if status.starts_with("200") {
                println!("writes are back after {} ms", since.elapsed().as_millis());
                return;
            }
            assert!(
                since.elapsed() < RESUME_WITHIN,
                "{status}\n{}",
                self.running().log()
            );
            thread::park_timeout(Duration::from_millis(50));
        }
    }

    fn assert_running(&mut self) {
        let appliance = self.appliance.as_mut().expect("a running server");
        let ended = appliance.wait(Duration::ZERO);
        assert_eq!(ended, None, "it ended: {}", appliance.log());
    }

    fn restart(&mut self) {
        let ended = self.appliance.take().expect("a running server").end();
        assert_eq!(ended, Some(0));
        self.appliance = Some(launch(&self.disk).ready());
    }

    fn assert_nothing_lost(&mut self) {
        let address = self.running().address.clone();
        // `write` grants this offer outside of the ledger.
        let problems = self.workload.check(&address, &AllowedLoss::NONE, &self.rng);
        let other = |text: &&String| !text.contains("the grant of red");
        assert_eq!(problems.iter().filter(other).count(), 0, "{problems:#?}");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // The process must end before its disk is unmounted.
        self.appliance = None;
    }
}

fn launch(disk: &Disk) -> Launch {
    Launch::new(&disk.path().join("data"))
}

/// Creates files until the disk has no inode left.
fn fill_inodes(folder: &Path) {
    // There may be no inode for the directory either.
    let _ = fs::create_dir(folder);
    for nth in 0.. {
        if File::create(folder.join(nth.to_string())).is_err() {
            return;
        }
    }
}

fn full_by_bytes(disk: Disk, name: &str) {
    let mut scene = Scene::new(disk, name);
    let filler = scene.disk.path().join("filler");
    fill(&filler);
    let (done, unavailable) = scene.work();
    println!("{name}, while serving: {done} done, {unavailable} answered 503");
    assert!(unavailable > 0);
    scene.assert_reads_work();
    scene.assert_running();
    // Takes the space that the server has freed and that ended files have left.
    fill(&scene.disk.path().join("filler-2"));
    scene.restart();
    fill(&scene.disk.path().join("filler-3"));
    scene.assert_reads_work();
    let (done, unavailable) = scene.work();
    println!("{name}, after a start: {done} done, {unavailable} answered 503");
    scene.assert_running();
    for filler in ["filler", "filler-2", "filler-3"] {
        fs::remove_file(scene.disk.path().join(filler)).unwrap();
    }
    scene.assert_writes_resume();
    scene.assert_nothing_lost();
    scene.restart();
    scene.assert_nothing_lost();
}

#[test]
fn a_full_tmpfs_is_survived() {
    match Disk::tmpfs("size=160m") {
        Ok(disk) => full_by_bytes(disk, "full tmpfs"),
        Err(why) => skip("a full tmpfs", &why),
    }
}

#[test]
fn a_full_ext4_is_survived() {
    match Disk::ext4(256) {
        Ok(disk) => full_by_bytes(disk, "full ext4"),
        Err(why) => skip("a full ext4", &why),
    }
}

#[test]
fn inode_exhaustion_is_survived() {
    let disk = match Disk::tmpfs("size=256m,nr_inodes=200") {
        Ok(disk) => disk,
        Err(why) => return skip("no inodes", &why),
    };
    let mut scene = Scene::new(disk, "no inodes");
    let filler = scene.disk.path().join("filler");
    fill_inodes(&filler);
    let (done, unavailable) = scene.work();
    println!("no inodes, while serving: {done} done, {unavailable} answered 503");
    scene.assert_reads_work();
    scene.assert_running();
    scene.restart();
    fill_inodes(&scene.disk.path().join("filler-2"));
    scene.assert_reads_work();
    let (done, unavailable) = scene.work();
    println!("no inodes, after a start: {done} done, {unavailable} answered 503");
    scene.assert_running();
    for filler in ["filler", "filler-2"] {
        let _ = fs::remove_dir_all(scene.disk.path().join(filler));
    }
    scene.assert_writes_resume();
    scene.assert_nothing_lost();
}

/// The kernel remounts a file system read-only when it finds an error in it. A sync that is in progress at that moment
/// fails with EIO, and a failed sync is fatal: 503 and exit code 5 are both correct.
#[test]
fn a_disk_that_becomes_read_only_is_survived() {
    let disk = match Disk::ext4(256) {
        Ok(disk) => disk,
        Err(why) => return skip("a read-only disk", &why),
    };
    let mut scene = Scene::new(disk, "read-only");
    scene.disk.fail().unwrap();
    let status = scene.try_write().unwrap_or_else(|_| {
        scene.exits_and_restarts();
        scene.write()
    });
    println!("read-only: a write is answered {status}");
    assert!(status.starts_with("503"), "{status}");
    // Changes that were logged but not synced are synced now, which fails.
    if scene.ends_by_itself() {
        scene.exits_and_restarts();
    }
    scene.assert_reads_work();
    scene.assert_running();
}

#[test]
fn a_start_on_a_read_only_disk_serves_reads() {
    let disk = match Disk::ext4(256) {
        Ok(disk) => disk,
        Err(why) => return skip("a read-only disk", &why),
    };
    let mut scene = Scene::new(disk, "start read-only");
    assert_eq!(
        scene.appliance.take().expect("a running server").end(),
        Some(0)
    );
    scene.disk.remount("ro").unwrap();
    scene.appliance = Some(launch(&scene.disk).ready());
    scene.assert_reads_work();
    let status = scene.write();
    assert!(status.starts_with("503"), "{status}");
    scene.assert_running();
    scene.disk.remount("rw").unwrap();
    scene.assert_writes_resume();
    scene.assert_nothing_lost();
}
