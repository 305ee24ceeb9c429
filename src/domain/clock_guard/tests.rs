//! Tests of the clock guard with scripted readings.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::trusted_time::{
    CONSISTENT_FOR, DOWNTIME_MAX_MILLIS, JUMP_MILLIS, MARK_EVERY, Reading, TrustChange, TrustedTime,
};
use super::*;
use playgate_store::Schema;

const NOW: i64 = 1_767_225_600_000;
const SECOND: i64 = 1_000;
const DAY: i64 = 86_400 * SECOND;

/// Wall clock and uptime, set by the test.
struct Machine {
    wall: AtomicI64,
    uptime: AtomicI64,
    moved: AtomicI64,
}

impl Machine {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            wall: AtomicI64::new(NOW),
            uptime: AtomicI64::new(1_000 * SECOND),
            moved: AtomicI64::new(0),
        })
    }

    fn run(&self, millis: i64) {
        self.wall.fetch_add(millis, Ordering::SeqCst);
        self.uptime.fetch_add(millis, Ordering::SeqCst);
    }

    fn set(&self, by: i64) {
        self.wall.fetch_add(by, Ordering::SeqCst);
    }

    fn shift(&self, by: i64) {
        self.moved.store(by, Ordering::SeqCst);
    }
}

impl Clock for Machine {
    fn now_millis(&self) -> i64 {
        self.wall.load(Ordering::SeqCst) + self.moved_millis()
    }

    fn uptime_millis(&self) -> Option<i64> {
        Some(self.uptime.load(Ordering::SeqCst))
    }

    fn moved_millis(&self) -> i64 {
        self.moved.load(Ordering::SeqCst)
    }
}

fn store() -> Store {
    Store::in_memory(schema(Schema::default()))
}

fn guard(store: &Store, machine: &Arc<Machine>, boot: &str) -> ClockGuard {
    let clock = Arc::clone(machine) as Arc<dyn Clock>;
    ClockGuard::open(store.clone(), clock, Some(boot.to_owned())).unwrap()
}

/// Token time of a request at this moment, relative to the first reading.
fn token(guard: &ClockGuard) -> i64 {
    guard.expiry().at(guard.now()).0 * SECOND - NOW
}

/// Advances time, with one check per second.
fn pass(machine: &Machine, guard: &ClockGuard, millis: i64) {
    for _ in 0..millis / SECOND {
        machine.run(SECOND);
        let _ = guard.check();
    }
}

#[test]
fn token_time_follows_the_wall_clock_until_it_jumps() {
    let (store, machine) = (store(), Machine::new());
    let guard = guard(&store, &machine, "a");
    pass(&machine, &guard, 5 * SECOND);
    // A request between two checks sees the wall clock advance.
    machine.run(SECOND);
    assert_eq!(token(&guard), 6 * SECOND);
    // Time servers correct by less than a jump, either way.
    machine.set(JUMP_MILLIS - SECOND);
    assert_eq!(guard.check(), Ok(guard.now()));
    assert_eq!(token(&guard), JUMP_MILLIS + 5 * SECOND);
    machine.set(-JUMP_MILLIS + SECOND);
    assert_eq!(guard.check(), Ok(guard.now()));
    assert_eq!(token(&guard), JUMP_MILLIS + 5 * SECOND);
    pass(&machine, &guard, 10 * SECOND);
    assert_eq!(token(&guard), JUMP_MILLIS + 15 * SECOND);
}

#[test]
fn jump_pauses_deletions_for_ten_minutes_and_expires_nothing() {
    for jump in [
        400 * DAY,
        -400 * DAY,
        JUMP_MILLIS + SECOND,
        -JUMP_MILLIS - SECOND,
    ] {
        let (store, machine) = (store(), Machine::new());
        let guard = guard(&store, &machine, "a");
        pass(&machine, &guard, 5 * SECOND);
        machine.set(jump);
        // Requests read the clock before the first check does.
        assert_eq!(token(&guard), 5 * SECOND, "{jump}");
        assert_eq!(guard.check().unwrap_err().seconds(), jump / SECOND);
        pass(&machine, &guard, CONSISTENT_FOR - SECOND);
        assert_eq!(token(&guard), 4 * SECOND + CONSISTENT_FOR, "{jump}");
        assert!(guard.untrusted_jump().is_some());
        machine.run(SECOND);
        assert_eq!(guard.check(), Ok(guard.now()));
        assert!(guard.untrusted_jump().is_none());
        let expected = 5 * SECOND + CONSISTENT_FOR + jump.max(0);
        assert_eq!(token(&guard), expected, "{jump}");
    }
}

#[test]
fn clock_ahead_for_25_seconds_expires_nothing() {
    let (store, machine) = (store(), Machine::new());
    let guard = guard(&store, &machine, "a");
    pass(&machine, &guard, 5 * SECOND);
    machine.set(400 * DAY);
    pass(&machine, &guard, 25 * SECOND);
    assert_eq!(token(&guard), 30 * SECOND);
    machine.set(-400 * DAY);
    assert!(guard.check().is_err());
    pass(&machine, &guard, CONSISTENT_FOR);
    assert!(guard.check().is_ok());
    assert_eq!(token(&guard), 30 * SECOND + CONSISTENT_FOR);
}

#[test]
fn expired_tokens_stay_expired_and_new_ones_last_as_promised() {
    let (store, machine) = (store(), Machine::new());
    let guard = guard(&store, &machine, "a");
    let expiry = guard.expiry();
    let old = expiry.at(guard.now()) + 30 * 86_400;
    machine.set(400 * DAY);
    guard.accept().unwrap();
    assert!(old <= expiry.at(guard.now()), "an accepted jump expires");
    machine.set(-400 * DAY);
    assert!(guard.check().is_err());
    assert!(old <= expiry.at(guard.now()), "it stays expired");
    // Issued while the clock is not trusted; the client sees it on its own clock.
    let new = expiry.at(guard.now()) + 60;
    assert_eq!(expiry.token_to_wall(new, guard.now()), guard.now() + 60);
    assert_eq!(expiry.wall_to_token(guard.now() + 60, guard.now()), new);
    pass(&machine, &guard, 59 * SECOND);
    assert!(expiry.at(guard.now()) < new);
    pass(&machine, &guard, SECOND);
    assert!(new <= expiry.at(guard.now()));
}

#[test]
fn operator_shift_is_trusted_at_once() {
    let (store, machine) = (store(), Machine::new());
    let guard = guard(&store, &machine, "a");
    machine.shift(31 * DAY);
    assert_eq!(guard.check(), Ok(guard.now()));
    assert_eq!(token(&guard), 31 * DAY);
    machine.shift(0);
    assert_eq!(guard.check(), Ok(guard.now()));
    assert_eq!(token(&guard), 31 * DAY);
    // Tokens issued after the clock went back count a second shift forward as elapsed time, too.
    machine.shift(31 * DAY);
    assert!(guard.check().is_ok());
    assert_eq!(token(&guard), 62 * DAY);
}

#[test]
fn clock_without_uptime_is_trusted() {
    let clock = Arc::new(playgate_ports::clock::ManualClock::at(UnixSeconds(
        NOW / SECOND,
    )));
    let guard = ClockGuard::open(store(), Arc::clone(&clock) as Arc<dyn Clock>, None).unwrap();
    clock.advance(400 * 86_400);
    assert_eq!(token(&guard), 400 * DAY);
    assert!(guard.check().is_ok());
    clock.advance(-400 * 86_400);
    assert!(guard.check().is_ok());
    assert_eq!(token(&guard), 400 * DAY);
}

#[test]
fn the_mark_survives_a_restart() {
    let (store, machine) = (store(), Machine::new());
    let first = guard(&store, &machine, "a");
    pass(&machine, &first, SECOND);
    machine.set(400 * DAY);
    first.accept().unwrap();
    // The process is killed immediately, and the clock is set back.
    drop(first);
    machine.set(-400 * DAY);
    machine.run(30 * SECOND);
    let second = guard(&store, &machine, "a");
    assert!(second.untrusted_jump().is_some());
    assert_eq!(token(&second), 400 * DAY + 31 * SECOND);
    // After a reboot the uptimes cannot be compared.
    machine.uptime.store(5 * SECOND, Ordering::SeqCst);
    let third = guard(&store, &machine, "b");
    assert!(third.untrusted_jump().is_some());
    assert_eq!(token(&third), 400 * DAY + SECOND + MARK_EVERY);
}

/// Starts with a clock that differs by `gap` from the mark of the previous process.
fn begin(gap: i64, boot: &str, downtime: i64) -> TrustedTime {
    let reading = |wall, uptime| Reading {
        now: wall,
        moved: 0,
        uptime: Some(uptime),
    };
    let mark = TrustedTime::begin(None, Some("a"), reading(NOW, 100 * SECOND)).mark(Some("a"));
    // After a reboot the uptime begins at zero.
    let uptime = if boot == "a" {
        100 * SECOND + downtime
    } else {
        9
    };
    TrustedTime::begin(Some(&mark), Some(boot), reading(NOW + gap, uptime))
}

#[test]
fn start_trusts_a_short_downtime_and_no_clock_far_ahead_or_back() {
    for (gap, boot, downtime, doubted, token) in [
        // Same boot: the downtime is exact.
        (5 * SECOND, "a", 5 * SECOND, false, 5 * SECOND),
        (60 * DAY, "a", 60 * DAY, false, 60 * DAY),
        (400 * DAY, "a", 5 * SECOND, true, 5 * SECOND),
        (2 * JUMP_MILLIS, "a", 5 * SECOND, true, 5 * SECOND),
        (-2 * JUMP_MILLIS, "a", 5 * SECOND, true, 5 * SECOND),
        // Another boot: a long downtime and a wrong clock look the same.
        (DOWNTIME_MAX_MILLIS, "b", 0, false, DOWNTIME_MAX_MILLIS),
        (DOWNTIME_MAX_MILLIS + SECOND, "b", 0, true, MARK_EVERY),
        (400 * DAY, "b", 0, true, MARK_EVERY),
        (-SECOND, "b", 0, false, 0),
        (-2 * JUMP_MILLIS, "b", 0, true, MARK_EVERY),
    ] {
        let trusted_time = begin(gap, boot, downtime);
        assert_eq!(
            trusted_time.untrusted_jump().is_some(),
            doubted,
            "{gap} {boot}"
        );
        assert_eq!(trusted_time.token() - NOW, token, "{gap} {boot}");
    }
}

#[test]
fn jump_at_start_survives_a_restart_and_is_trusted_after_ten_minutes() {
    let mut trusted_time = begin(400 * DAY, "b", 0);
    let at = |up: i64| Reading {
        now: NOW + 400 * DAY + up,
        moved: 0,
        uptime: Some(up),
    };
    assert_eq!(trusted_time.observe(at(60 * SECOND)), None);
    let mark = trusted_time.mark(Some("b"));
    let mut again = TrustedTime::begin(Some(&mark), Some("b"), at(70 * SECOND));
    assert!(again.untrusted_jump().is_some());
    assert_eq!(again.observe(at(69 * SECOND + CONSISTENT_FOR)), None);
    assert_eq!(
        again.observe(at(70 * SECOND + CONSISTENT_FOR)),
        Some(TrustChange::Trusted)
    );
    assert_eq!(
        again.token(),
        NOW + 400 * DAY + 70 * SECOND + CONSISTENT_FOR
    );
}

#[test]
fn jump_is_described_in_its_message() {
    let text = begin(400 * DAY, "b", 0)
        .untrusted_jump()
        .unwrap()
        .to_string();
    assert!(
        text.starts_with("the clock is 400 days ahead of the last recorded time: "),
        "{text}"
    );
    assert!(text.ends_with("`playgate clock accept`"), "{text}");
    let mut trusted_time = begin(0, "b", 0);
    let Some(TrustChange::JumpFound(untrusted_jump)) = trusted_time.observe(Reading {
        now: NOW - 2 * JUMP_MILLIS,
        moved: 0,
        uptime: Some(9),
    }) else {
        panic!("no jump was found");
    };
    assert!(
        untrusted_jump
            .to_string()
            .starts_with("the clock jumped back by 2 hours: ")
    );
}

#[test]
fn jump_is_read_while_a_check_waits_for_its_commit() {
    let (store, machine) = (store(), Machine::new());
    let guard = guard(&store, &machine, "a");
    machine.set(2 * DAY);
    guard.check().unwrap_err();
    // Stands for a check that waits for the disk.
    let waiting = guard.state.lock();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| sender.send(guard.untrusted_jump()));
        // The time only ends a failing test.
        let jump = receiver.recv_timeout(std::time::Duration::from_secs(60));
        drop(waiting);
        assert_eq!(jump.unwrap().unwrap().seconds(), 2 * DAY / SECOND);
    });
}

#[test]
fn acceptance_that_is_not_stored_is_an_error() {
    let (store, machine) = (store(), Machine::new());
    let guard = guard(&store, &machine, "a");
    machine.set(2 * DAY);
    guard.check().unwrap_err();
    // Holds the writer thread and fills its queue, so that further writes are refused.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let hold = move |_: &mut playgate_store::Txn<'_>| {
        let _ = held.recv();
        Ok::<_, StoreError>(())
    };
    let _held = store.write(Durability::Logged, hold);
    for _ in 0..10_000 {
        drop(store.write(Durability::Logged, |_| Ok::<_, StoreError>(())));
    }
    guard.accept().unwrap_err();
    assert!(guard.untrusted_jump().is_none());
    drop(release);
}
