//! What a fleet with nothing to do costs etcd.

use std::time::{Duration, Instant};

use super::trial::Fleet;
use super::{send, until};

/// Reads of etcd a second by an idle fleet of three.
const READS_MAX: f64 = 15.0;
const PERIOD: Duration = Duration::from_secs(8);

/// Returns the reads that all members of etcd have counted.
fn reads(fleet: &Fleet) -> f64 {
    let counts = fleet.etcd.iter().map(|url| {
        let address = url["http://".len()..].parse().unwrap();
        let (status, metrics) = send(address, "GET", "/metrics", &[], "").unwrap();
        assert_eq!(status, 200);
        let mut lines = metrics.lines();
        let count = lines.find_map(|line| line.strip_prefix("etcd_debugging_mvcc_range_total "));
        count.unwrap().trim().parse::<f64>().unwrap()
    });
    counts.sum()
}

#[test]
fn an_idle_fleet_reads_etcd_seldom() {
    let Some(fleet) = Fleet::start() else {
        return;
    };
    fleet.wait_until_equal();
    until("few reads", || {
        let (before, began) = (reads(&fleet), Instant::now());
        std::thread::park_timeout(PERIOD);
        let rate = (reads(&fleet) - before) / began.elapsed().as_secs_f64();
        println!("an idle fleet of three: {rate:.1} reads of etcd a second");
        // A fleet that does not read at all would not take over.
        assert!(rate > 1.0);
        // Members of a busy machine follow less smoothly for a time.
        (rate <= READS_MAX).then_some(())
    });
}
