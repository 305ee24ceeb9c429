//! Slow operations on a large store: the service continues to feed the watchdog meanwhile.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use crate::harness::appliance::Launch;
use crate::harness::rng::number;
use crate::harness::service_manager::{ServiceManager, WATCHDOG};
use crate::harness::tail;

const USERS: u64 = 5_000;
/// Enough for a debug build that starts with a million users after `SIGKILL`.
const TIMEOUT: Duration = Duration::from_secs(120);
/// No user logs in with it, but the import and the start read it.
const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$\
    RdescudvJCsgt3ub+b1dWRWJTmaaJObGAAAAAAAAAAA";

/// `PLAYGATE_WATCHDOG_USERS=1000000` is the long form.
#[test]
fn slow_work_on_a_large_store_keeps_the_watchdog_fed() {
    // The default directory for temporary files may be in memory.
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
        timeout: TIMEOUT,
        ..Launch::new(&data)
    };
    let partner = launch.run(&["partner", "add", "Acme"]);
    assert!(partner.status.success(), "{partner:?}");
    let import = ["user", "import", path.to_str().unwrap()];
    let operations: [&[&str]; 5] = [
        &import,
        &import,
        &["store", "verify"],
        &["backup", "create"],
        &["store", "compact"],
    ];
    for (index, operation) in operations.into_iter().enumerate() {
        // Each operation has its own process, so that its longest gap is measured by itself, and its start too.
        let manager = ServiceManager::listen();
        let mut appliance = manager.launch(launch.clone(), WATCHDOG).ready();
        let began = Instant::now();
        let done = launch.run(operation);
        let took = began.elapsed();
        let started = appliance.ready_in;
        assert!(done.status.success(), "{operation:?}: {done:?}");
        assert_eq!(
            appliance.wait(Duration::ZERO),
            None,
            "{}",
            tail(&appliance.log())
        );
        // Alternates between a kill and a clean stop, which leaves a snapshot.
        if index % 2 == 0 {
            appliance.kill();
        } else {
            assert_eq!(appliance.end(), Some(0));
        }
        let (fed, gap) = manager.end();
        println!(
            "{users} users: ready in {started:?}; {:?} took {took:?}; fed {fed} times, {gap:?} apart at most",
            &operation[..2]
        );
        assert!(
            fed > 0 && gap < WATCHDOG / 2,
            "{operation:?}: fed {fed} times, {gap:?} apart"
        );
    }
}
