//! A member that reaches some of the endpoints of etcd and not others, or gets no answer from them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::stale_reads::User;
use super::trial::Fleet;
use super::{playgate, until};
use crate::support::stop_on_drop::StopOnDrop;
use crate::support::tcp_proxy::TcpProxy;

/// No fault of fewer than a majority may stop changes for longer.
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// All clients have the same address.
const SETTINGS: [(&str, &str); 1] = [("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000000")];
/// How long each fault lasts.
const FAULT: Duration = Duration::from_secs(4);

/// Returns a fleet whose owner reaches each etcd by way of a proxy, its place among the members, and the proxies. The others
/// reach etcd directly.
fn fleet_with_proxies() -> Option<(Fleet, usize, Vec<TcpProxy>)> {
    let mut fleet = Fleet::start()?;
    let owner = fleet.owner();
    let config = fleet.members[owner].config.clone();
    let mut text = fs::read_to_string(&config).unwrap();
    let proxies: Vec<_> = fleet
        .etcd
        .iter()
        .map(|url| {
            let target: SocketAddr = url["http://".len()..].parse().unwrap();
            let proxy = TcpProxy::start(target);
            text = text.replace(url, &format!("http://{}", proxy.address));
            proxy
        })
        .collect();
    fs::write(&config, text).unwrap();
    // The others are stopped, so that it becomes the owner again.
    for at in (0..fleet.members.len()).filter(|at| *at != owner) {
        fleet.members[at].process.stop();
    }
    fleet.members[owner].process.stop();
    fleet.members[owner].process.start(&config, &SETTINGS);
    let name = fleet.members[owner].name.clone();
    until("the owner", || {
        let status = fleet.status();
        let mut owners = status.iter().filter(|(_, role, _)| role == "owner");
        owners.any(|(owner, ..)| *owner == name).then_some(())
    });
    for at in (0..fleet.members.len()).filter(|at| *at != owner) {
        let config = fleet.members[at].config.clone();
        fleet.members[at].process.start(&config, &SETTINGS);
    }
    fleet.wait_until_equal();
    assert_eq!(fleet.owner(), owner);
    Some((fleet, owner, proxies))
}

/// Changes a name again and again while a fault lasts and for a moment after it. Returns the longest time between two
/// accepted changes.
fn longest_pause(user: &User, owner: SocketAddr, begin: impl Fn(), end: impl Fn()) -> Duration {
    let mut last = Instant::now();
    let mut longest = Duration::ZERO;
    let began = Instant::now();
    begin();
    let mut has_ended = false;
    for number in 0.. {
        if !has_ended && began.elapsed() > FAULT {
            has_ended = true;
            end();
        }
        if began.elapsed() > FAULT + Duration::from_secs(1) {
            break;
        }
        if user.rename(owner, &format!("name {number}")) == Some(200) {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        } else {
            park_timeout(Duration::from_millis(10));
        }
    }
    longest.max(last.elapsed())
}

#[test]
fn an_owner_that_reaches_one_of_three_etcd_goes_on_with_changes() {
    let Some((fleet, owner, proxies)) = fleet_with_proxies() else {
        return;
    };
    let address = fleet.members[owner].address;
    let user = User::sign_up(&fleet, address, "partial@example.com");
    assert_eq!(user.rename(address, "first"), Some(200));
    type Fault = (&'static str, fn(&TcpProxy));
    let faults: [Fault; 3] = [
        ("silent", TcpProxy::be_silent),
        ("slow", |proxy| proxy.be_slow(Duration::from_millis(1_500))),
        ("closed", TcpProxy::refuse),
    ];
    // The connections are at the first one, and then at the one that was left.
    for (left, (name, fault)) in [1, 2, 0].into_iter().zip(faults) {
        let cut: Vec<_> = (0..proxies.len()).filter(|at| *at != left).collect();
        let begin = || cut.iter().for_each(|at| fault(&proxies[*at]));
        let end = || cut.iter().for_each(|at| proxies[*at].pass());
        let pause = longest_pause(&user, address, begin, end);
        println!(
            "two of three {name}: {} ms without a change",
            pause.as_millis()
        );
        assert!(pause < PAUSE_MAX, "{name}: {pause:?}");
        assert_eq!(fleet.owner(), owner, "{name}");
    }
    fleet.wait_until_equal();
}

/// Signs up users at all members, one after the other, until it is told to stop. Returns those that were acknowledged.
fn sign_up_until(fleet: &Fleet, stop: &AtomicBool) -> Vec<User> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let at = fleet.members[number % fleet.members.len()].address;
        match User::try_sign_up(fleet, at, &format!("u{number}@example.com")) {
            Some(user) => acknowledged.push(user),
            // A member that starts again refuses connections.
            None => park_timeout(Duration::from_millis(20)),
        }
    }
    acknowledged
}

/// The order of the parts matters, because each one needs the owner behind the proxies.
#[test]
fn an_owner_that_gets_no_answer_is_replaced_without_loss() {
    let Some((fleet, owner, proxies)) = fleet_with_proxies() else {
        return;
    };
    let user = User::sign_up(&fleet, fleet.members[owner].address, "first@example.com");
    let stop = AtomicBool::new(false);
    let acknowledged = std::thread::scope(|scope| {
        let users = scope.spawn(|| sign_up_until(&fleet, &stop));
        let _stop = StopOnDrop(&stop);
        every_answer_is_late(&fleet, owner, &proxies, &user);
        its_lease_is_renewed_and_its_appends_are_not_answered(&fleet, owner, &proxies, &user);
        hand_over(&fleet, owner);
        nothing_is_answered(&fleet, owner, &proxies, &user);
        stop.store(true, Ordering::SeqCst);
        users.join().unwrap()
    });
    fleet.wait_until_equal();
    println!("{} sign-ups were acknowledged", acknowledged.len());
    assert!(!acknowledged.is_empty());
    let next = fleet.members[fleet.owner()].address;
    for user in acknowledged {
        assert_eq!(user.read(next).unwrap().0, 200, "{}", user.target);
    }
}

fn every_answer_is_late(fleet: &Fleet, owner: usize, proxies: &[TcpProxy], user: &User) {
    let slow = Duration::from_millis(150);
    proxies.iter().for_each(|proxy| proxy.be_slow(slow));
    for name in ["slow", "slower", "slowest"] {
        assert_is_renamed(fleet, owner, user, name);
    }
    proxies.iter().for_each(TcpProxy::pass);
    // On a busy machine the lease may have ended.
    hand_over(fleet, owner);
}

/// etcd sees an owner that is well, so only the owner can notice it.
fn its_lease_is_renewed_and_its_appends_are_not_answered(
    fleet: &Fleet,
    owner: usize,
    proxies: &[TcpProxy],
    user: &User,
) {
    assert_is_renamed(fleet, owner, user, "before");
    let status = playgate(&fleet.members[owner].config, &["fleet", "status", "--json"]);
    let status: Value = serde_json::from_str(&status.unwrap()).unwrap();
    let head = format!("playgate/{}/head", status["fleet"].as_str().unwrap());
    let head = data_encoding::BASE64.encode(head.as_bytes());
    let append = format!(r#""request_put":{{"key":"{head}""#);
    proxies.iter().for_each(|proxy| proxy.hold_back(&append));
    let next = until("another owner", || {
        Some(fleet.owner()).filter(|at| *at != owner)
    });
    // What was held back arrives now, after the claim has ended.
    proxies.iter().for_each(TcpProxy::pass);
    assert_is_renamed(fleet, next, user, "handed over");
}

fn hand_over(fleet: &Fleet, to: usize) {
    if fleet.owner() == to {
        return;
    }
    let name = &fleet.members[to].name;
    until("the handover", || {
        let config = &fleet.members[to].config;
        playgate(config, &["fleet", "handover", "--to", name]).ok()?;
        (fleet.owner() == to).then_some(())
    });
}

/// Every connection stays open.
fn nothing_is_answered(fleet: &Fleet, owner: usize, proxies: &[TcpProxy], user: &User) {
    let other = fleet.members[(owner + 1) % fleet.members.len()]
        .config
        .clone();
    until("the owner, as another member sees it", || {
        (owner_by(fleet, &other) == Some(owner)).then_some(())
    });
    proxies.iter().for_each(TcpProxy::be_silent);
    let next = until("another owner", || {
        owner_by(fleet, &other).filter(|next| *next != owner)
    });
    proxies.iter().for_each(TcpProxy::pass);
    assert_is_renamed(fleet, next, user, "taken over");
}

/// Returns the owner that etcd names, asked by a member that may not be the first one.
fn owner_by(fleet: &Fleet, config: &Path) -> Option<usize> {
    let status: Value =
        serde_json::from_str(&playgate(config, &["fleet", "status", "--json"]).ok()?).unwrap();
    // Without etcd the command prints what the member knows, which may be old.
    status.get("head")?;
    let members = status["members"].as_array().unwrap();
    let owner = members.iter().find(|member| member["owner"] == true)?;
    let mut members = fleet.members.iter();
    members.position(|member| owner["name"] == *member.name)
}

/// Renames a user at the new owner, and finds the name at each member.
fn assert_is_renamed(fleet: &Fleet, owner: usize, user: &User, name: &str) {
    let owner = fleet.members[owner].address;
    until("an accepted change", || {
        (user.rename(owner, name) == Some(200)).then_some(())
    });
    for member in &fleet.members {
        until("the last name at each member", || {
            let (status, body) = user.read(member.address)?;
            // Never an older one.
            assert!(status != 200 || body.contains(name), "{body}");
            (status == 200).then_some(())
        });
    }
}
