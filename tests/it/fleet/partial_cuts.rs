//! A member that reaches some of the endpoints of etcd and not others.

use std::fs;
use std::net::SocketAddr;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use super::stale_reads::User;
use super::trial::Fleet;
use super::until;
use crate::support::tcp_proxy::TcpProxy;

/// No fault of fewer than a majority may stop changes for longer.
const PAUSE_MAX: Duration = Duration::from_secs(3);
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
    fleet.members[owner].process.start(&config, &[]);
    let name = fleet.members[owner].name.clone();
    until("the owner", || {
        let status = fleet.status();
        let mut owners = status.iter().filter(|(_, role, _)| role == "owner");
        owners.any(|(owner, ..)| *owner == name).then_some(())
    });
    for at in (0..fleet.members.len()).filter(|at| *at != owner) {
        let config = fleet.members[at].config.clone();
        fleet.members[at].process.start(&config, &[]);
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
