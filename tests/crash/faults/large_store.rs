//! A large store: slow work on all of it runs beside the service, which goes on feeding the watchdog.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use crate::harness::appliance::Launch;
use crate::harness::rng::number;
use crate::harness::service_manager::{ServiceManager, WATCHDOG};
use crate::harness::tail;

const USERS: u64 = 5_000;
/// A start with a million users after `SIGKILL`, by a debug build.
const PATIENCE: Duration = Duration::from_secs(120);
/// Nobody logs in with it: import and start read it all the same.
const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$\
    RdescudvJCsgt3ub+b1dWRWJTmaaJObGAAAAAAAAAAA";

/// `PLAYGATE_WATCHDOG_USERS=1000000` is the long form.
#[test]
fn slow_work_on_a_large_store_keeps_the_watchdog_fed() {
    // The usual folder for temporary files may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let users = number("PLAYGATE_WATCHDOG_USERS").unwrap_or(USERS);
    let mut file = String::new();
    for nth in 0..users {
        let email = format!("user-{nth}@example.com");
        let user = format!(
            "{{\"email\":\"{email}\",\"name\":\"User {nth}\",\"passwordHash\":\"{HASH}\"}}"
        );
        writeln!(file, "{user}").unwrap();
    }
    let path = folder.path().join("users.ndjson");
    fs::write(&path, file).unwrap();
    let data = folder.path().join("data");
    let launch = Launch {
        patience: PATIENCE,
        ..Launch::of(&data)
    };
    let partner = launch.run(&["partner", "add", "Acme"]);
    assert!(partner.status.success(), "{partner:?}");
    let import = ["user", "import", path.to_str().unwrap()];
    let works: [&[&str]; 5] = [
        &import,
        &import,
        &["store", "verify"],
        &["backup", "create"],
        &["store", "compact"],
    ];
    for (place, work) in works.into_iter().enumerate() {
        // A process of its own, so that each work has its own gap, and its start is measured too.
        let manager = ServiceManager::listen();
        let mut appliance = manager.launch(launch.clone(), WATCHDOG).ready();
        let began = Instant::now();
        let done = launch.run(work);
        let took = began.elapsed();
        let started = appliance.ready_in;
        assert!(done.status.success(), "{work:?}: {done:?}");
        assert_eq!(
            appliance.wait(Duration::ZERO),
            None,
            "{}",
            tail(&appliance.log())
        );
        // Also after a stop in good order, which leaves a snapshot.
        if place % 2 == 0 {
            appliance.kill();
        } else {
            assert_eq!(appliance.end(), Some(0));
        }
        let (fed, gap) = manager.end();
        println!(
            "{users} users: ready in {started:?}; {:?} took {took:?}; fed {fed} times, {gap:?} apart at most",
            &work[..2]
        );
        assert!(
            fed > 0 && gap < WATCHDOG / 2,
            "{work:?}: fed {fed} times, {gap:?} apart"
        );
    }
}
