//! Slow syncs: no acknowledged change is lost, no request hangs, and the server feeds the watchdog of the service
//! manager.

use std::thread;
use std::time::Duration;

use crate::harness::appliance::Launch;
use crate::harness::durability_model::AllowedLoss;
use crate::harness::process::{pause, resume};
use crate::harness::rng::{Rng, rounds, skip};
use crate::harness::service_manager::{ServiceManager, WATCHDOG};
use crate::harness::tail;
use crate::harness::template::{EndedBy, Template};
use crate::harness::tracer::Tracer;
use crate::workload::Mix;

/// Runs actors while each sync takes `delay`. Returns the longest gap between two notifications of the watchdog.
fn slow_syncs(name: &str, delay: Duration, work: Duration, mix: Mix) -> Duration {
    let rng = Rng::for_test(name);
    let template = Template::make(EndedBy::Stop, &rng);
    let data = template.copy("data");
    let manager = ServiceManager::listen();
    let mut appliance = manager.launch(Launch::new(&data), WATCHDOG).ready();
    let inject = format!("fdatasync,fsync:delay_exit={}", delay.as_micros());
    let tracer = Tracer::attach(appliance.process.id(), &inject, &[]);
    let mut workload = template.workload.clone();
    let address = appliance.address.clone();
    workload.work(&address, mix, &rng, || thread::park_timeout(work));
    assert_eq!(
        workload.problems(),
        Vec::<String>::new(),
        "{}",
        tail(&appliance.log())
    );
    let (done, unavailable) = workload.counts();
    let slow = tracer.injected().len();
    let readiness = appliance.readiness();
    assert_eq!(
        appliance.wait(Duration::ZERO),
        None,
        "{}",
        tail(&appliance.log())
    );
    drop(tracer);
    let (fed, gap) = manager.end();
    println!(
        "{name}: {done} done, {unavailable} answered 503, {slow} slow syncs; fed {fed} times, \
         {gap:?} apart at most; readiness {readiness:?}"
    );
    assert!(slow > 2 && done > 0 && fed > 0);
    appliance.kill();
    let problems = workload.check(
        &Launch::new(&data).ready().address,
        &AllowedLoss::NONE,
        &rng,
    );
    assert_eq!(problems, Vec::<String>::new());
    gap
}

#[test]
fn syncs_of_100_ms_lose_nothing_and_keep_the_watchdog_fed() {
    if let Err(why) = Tracer::check_available() {
        return skip("slow syncs", &why);
    }
    let work = Duration::from_secs(rounds(8, 120));
    let delay = Duration::from_millis(100);
    let gap = slow_syncs("syncs of 100 ms", delay, work, Mix::Importing);
    assert!(gap < WATCHDOG / 2, "{gap:?}");
}

#[test]
fn syncs_of_5_s_lose_nothing_and_keep_the_watchdog_fed() {
    if let Err(why) = Tracer::check_available() {
        return skip("very slow syncs", &why);
    }
    let work = Duration::from_secs(rounds(30, 300));
    let delay = Duration::from_secs(5);
    let gap = slow_syncs("syncs of 5 s", delay, work, Mix::Logged);
    assert!(gap < WATCHDOG, "{gap:?}");
}

/// Control: a process that hangs does not feed the watchdog, and the gap shows it.
#[test]
fn a_hanging_process_stops_feeding_the_watchdog() {
    let folder = tempfile::tempdir().unwrap();
    let manager = ServiceManager::listen();
    let limit = Duration::from_secs(1);
    let launch = manager.launch(Launch::new(&folder.path().join("data")), limit);
    let mut appliance = launch.ready();
    thread::park_timeout(limit);
    assert!(pause(appliance.process.id()));
    thread::park_timeout(2 * limit);
    assert!(resume(appliance.process.id()));
    thread::park_timeout(limit);
    assert_eq!(appliance.end(), Some(0));
    let (fed, gap) = manager.end();
    assert!(fed > 2 && gap > limit, "fed {fed} times, {gap:?} apart");
}
