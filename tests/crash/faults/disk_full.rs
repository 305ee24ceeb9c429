//! A full disk, by bytes and by inodes, and one that is read-only: reads go on, writes are answered
//! 503, nothing ends, a start works, and writes work again by themselves once there is room.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::appliance::{Appliance, Launch};
use crate::harness::client::Silence;
use crate::harness::disk::Disk;
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::{Rng, skip};
use crate::workload::{Who, Workload};

/// How soon writes work again once there is room.
const BACK_WITHIN: Duration = Duration::from_secs(5);
const WORK: Duration = Duration::from_millis(1_500);

struct Scene {
    disk: Disk,
    appliance: Option<Appliance>,
    workload: Workload,
    dice: Rng,
}

impl Scene {
    fn set(disk: Disk, name: &str) -> Self {
        let dice = Rng::of_test(name);
        let launch = launch(&disk);
        let appliance = launch.ready();
        let mut workload = Workload::new(&launch, &appliance).unwrap();
        workload.work(&appliance.address.clone(), Who::Usual, &dice, || {
            thread::park_timeout(Duration::from_millis(500));
        });
        assert_eq!(workload.problems(), Vec::<String>::new());
        workload.counts();
        Self {
            disk,
            appliance: Some(appliance),
            workload,
            dice,
        }
    }

    fn running(&self) -> &Appliance {
        self.appliance.as_ref().expect("it runs")
    }

    /// Everybody works for a while; how many requests were done, and how many answered 503. Any
    /// other answer, and none, is wrong.
    fn work(&mut self) -> (u64, u64) {
        let address = self.running().address.clone();
        self.workload
            .work(&address, Who::Importing, &self.dice, || {
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

    /// What is only read is answered as ever.
    fn reads_go_on(&self) {
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

    /// A durable write: its status and code.
    fn write(&self) -> String {
        self.try_write()
            .unwrap_or_else(|silence| panic!("no answer ({silence:?}): {}", self.running().log()))
    }

    fn try_write(&self) -> Result<String, Silence> {
        let line = &mut self.running().line();
        let body = json!({});
        let target = "/admin/v1/users/office@example.com/grants/red";
        let target = format!("{target}?partner=rig");
        let answer = line.operate(&self.workload.keys.operator, "PUT", &target, &body)?;
        Ok(crate::workload::told(&answer))
    }

    /// It ends because a call failed with EIO, and is started again, as a service manager does.
    fn ends_and_starts_again(&mut self) {
        let mut appliance = self.appliance.take().expect("it runs");
        let ended = appliance.wait(BACK_WITHIN);
        let log = appliance.log();
        assert_eq!(ended, Some(Some(5)), "{log}");
        let told = ["Input/output error", "Read-only file system"];
        assert!(told.iter().any(|told| log.contains(told)), "{log}");
        println!("it ended with 5, and is started again");
        self.appliance = Some(launch(&self.disk).ready());
    }

    /// Whether it ends by itself within the time in which everything has to be synced.
    fn running_ends(&mut self) -> bool {
        let appliance = self.appliance.as_mut().expect("it runs");
        appliance.wait(Duration::from_secs(2)).is_some()
    }

    fn writes_are_back(&self) {
        let since = Instant::now();
        loop {
            let told = self.write();
            if told.starts_with("200") {
                println!("writes are back after {} ms", since.elapsed().as_millis());
                return;
            }
            assert!(
                since.elapsed() < BACK_WITHIN,
                "{told}\n{}",
                self.running().log()
            );
            thread::park_timeout(Duration::from_millis(50));
        }
    }

    fn still_runs(&mut self) {
        let appliance = self.appliance.as_mut().expect("it runs");
        let ended = appliance.wait(Duration::ZERO);
        assert_eq!(ended, None, "it ended: {}", appliance.log());
    }

    fn start_again(&mut self) {
        let ended = self.appliance.take().expect("it runs").end();
        assert_eq!(ended, Some(0));
        self.appliance = Some(launch(&self.disk).ready());
    }

    /// Nothing that was answered is missing.
    fn all_is_there(&mut self) {
        let address = self.running().address.clone();
        // One write of a scene stands beside the ledger.
        let problems = self
            .workload
            .check(&address, &AllowedLoss::WHOLE, &self.dice);
        let other = |text: &&String| !text.contains("the grant of red");
        assert_eq!(problems.iter().filter(other).count(), 0, "{problems:#?}");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Before its disk.
        self.appliance = None;
    }
}

fn launch(disk: &Disk) -> Launch {
    Launch::of(&disk.path().join("data"))
}

/// Writes until there is no room for a single byte more.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    let mut size = 1 << 20;
    while size > 0 {
        // What fitted of it stays.
        if file.write_all(&vec![1; size]).is_err() {
            size /= 2;
        }
    }
    let _ = file.sync_all();
}

/// Makes files until there can be no more.
fn fill_inodes(folder: &Path) {
    // There may be none for the folder already.
    let _ = fs::create_dir(folder);
    for nth in 0.. {
        if File::create(folder.join(nth.to_string())).is_err() {
            return;
        }
    }
}

fn full_by_bytes(disk: Disk, name: &str) {
    let mut scene = Scene::set(disk, name);
    let filler = scene.disk.path().join("filler");
    fill(&filler);
    let (done, unavailable) = scene.work();
    println!("{name}, while serving: {done} done, {unavailable} answered 503");
    assert!(unavailable > 0);
    scene.reads_go_on();
    scene.still_runs();
    // What it freed for itself, and what ended, is taken too.
    fill(&scene.disk.path().join("filler-2"));
    scene.start_again();
    fill(&scene.disk.path().join("filler-3"));
    scene.reads_go_on();
    let (done, unavailable) = scene.work();
    println!("{name}, after a start: {done} done, {unavailable} answered 503");
    scene.still_runs();
    for filler in ["filler", "filler-2", "filler-3"] {
        fs::remove_file(scene.disk.path().join(filler)).unwrap();
    }
    scene.writes_are_back();
    scene.all_is_there();
    scene.start_again();
    scene.all_is_there();
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
    let mut scene = Scene::set(disk, "no inodes");
    let filler = scene.disk.path().join("filler");
    fill_inodes(&filler);
    let (done, unavailable) = scene.work();
    println!("no inodes, while serving: {done} done, {unavailable} answered 503");
    scene.reads_go_on();
    scene.still_runs();
    scene.start_again();
    fill_inodes(&scene.disk.path().join("filler-2"));
    scene.reads_go_on();
    let (done, unavailable) = scene.work();
    println!("no inodes, after a start: {done} done, {unavailable} answered 503");
    scene.still_runs();
    for filler in ["filler", "filler-2"] {
        let _ = fs::remove_dir_all(scene.disk.path().join(filler));
    }
    scene.writes_are_back();
    scene.all_is_there();
}

/// The kernel makes a file system read-only when it finds an error in it. A sync that is under way
/// just then fails with EIO, and a failed sync is fatal: both ends are right.
#[test]
fn a_disk_that_becomes_read_only_is_survived() {
    let disk = match Disk::ext4(256) {
        Ok(disk) => disk,
        Err(why) => return skip("a read-only disk", &why),
    };
    let mut scene = Scene::set(disk, "read-only");
    scene.disk.fail().unwrap();
    let told = scene.try_write().unwrap_or_else(|_| {
        scene.ends_and_starts_again();
        scene.write()
    });
    println!("read-only: a write is answered {told}");
    assert!(told.starts_with("503"), "{told}");
    // What was logged and not synced is synced now, which fails.
    if scene.running_ends() {
        scene.ends_and_starts_again();
    }
    scene.reads_go_on();
    scene.still_runs();
}

#[test]
fn a_start_on_a_read_only_disk_serves_reads() {
    let disk = match Disk::ext4(256) {
        Ok(disk) => disk,
        Err(why) => return skip("a read-only disk", &why),
    };
    let mut scene = Scene::set(disk, "start read-only");
    assert_eq!(scene.appliance.take().expect("it runs").end(), Some(0));
    scene.disk.remount("ro").unwrap();
    scene.appliance = Some(launch(&scene.disk).ready());
    scene.reads_go_on();
    let told = scene.write();
    assert!(told.starts_with("503"), "{told}");
    scene.still_runs();
    scene.disk.remount("rw").unwrap();
    scene.writes_are_back();
    scene.all_is_there();
}
