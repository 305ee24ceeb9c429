//! Slow syncs: no confirmed change is lost, nothing hangs, and the watchdog of the service manager is
//! fed.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::harness::appliance::{Launch, freeze, thaw};
use crate::harness::disk::run;
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::{Rng, rounds, skip};
use crate::harness::service_manager::{ServiceManager, WATCHDOG};
use crate::harness::tail;
use crate::harness::template::{Left, Template};
use crate::harness::tracer::Tracer;
use crate::workload::Who;

/// Everybody works while each sync takes so long. The longest gap.
fn slow_syncs(name: &str, delay: Duration, work: Duration, who: Who) -> Duration {
    let dice = Rng::of_test(name);
    let template = Template::make(Left::ByStop, &dice);
    let data = template.copy("data");
    let manager = ServiceManager::listen();
    let mut appliance = manager.launch(Launch::of(&data), WATCHDOG).ready();
    let inject = format!("fdatasync,fsync:delay_exit={}", delay.as_micros());
    let tracer = Tracer::attach(appliance.process.id(), &inject, &[]);
    let mut workload = template.workload.clone();
    let address = appliance.address.clone();
    workload.work(&address, who, &dice, || thread::park_timeout(work));
    assert_eq!(
        workload.problems(),
        Vec::<String>::new(),
        "{}",
        tail(&appliance.log())
    );
    let (done, unavailable) = workload.counts();
    let slow = tracer.met().len();
    let ready_then = appliance.readiness();
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
         {gap:?} apart at most; readiness {ready_then:?}"
    );
    assert!(slow > 2 && done > 0 && fed > 0);
    appliance.kill();
    let problems = workload.check(
        &Launch::of(&data).ready().address,
        &AllowedLoss::WHOLE,
        &dice,
    );
    assert_eq!(problems, Vec::<String>::new());
    gap
}

#[test]
fn syncs_of_100_ms_lose_nothing_and_keep_the_watchdog_fed() {
    if let Err(why) = run(Command::new("strace").arg("-V")) {
        return skip("slow syncs", &why);
    }
    let work = Duration::from_secs(rounds(8, 120));
    let delay = Duration::from_millis(100);
    let gap = slow_syncs("syncs of 100 ms", delay, work, Who::Importing);
    assert!(gap < WATCHDOG / 2, "{gap:?}");
}

#[test]
fn syncs_of_5_s_lose_nothing_and_keep_the_watchdog_fed() {
    if let Err(why) = run(Command::new("strace").arg("-V")) {
        return skip("very slow syncs", &why);
    }
    let work = Duration::from_secs(rounds(30, 300));
    let delay = Duration::from_secs(5);
    let gap = slow_syncs("syncs of 5 s", delay, work, Who::Logged);
    assert!(gap < WATCHDOG, "{gap:?}");
}

/// The control: a process that hangs is not fed, and that is seen.
#[test]
fn a_hanging_process_stops_feeding_the_watchdog() {
    let folder = tempfile::tempdir().unwrap();
    let manager = ServiceManager::listen();
    let limit = Duration::from_secs(1);
    let launch = manager.launch(Launch::of(&folder.path().join("data")), limit);
    let mut appliance = launch.ready();
    thread::park_timeout(limit);
    freeze(appliance.process.id());
    thread::park_timeout(2 * limit);
    thaw(appliance.process.id());
    thread::park_timeout(limit);
    assert_eq!(appliance.end(), Some(0));
    let (fed, gap) = manager.end();
    assert!(fed > 2 && gap > limit, "fed {fed} times, {gap:?} apart");
}
