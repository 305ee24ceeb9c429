//! The request journal after power cuts and kills: it keeps every refusal except those of its last seconds, none twice,
//! and its damage never prevents a start.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::appliance::{Launch, Started};
use crate::harness::client::Connection;
use crate::harness::disk::Disk;
use crate::harness::rng::{rounds, skip};
use crate::workload::{Client, Workload};

/// The journal is synced every five seconds, checked once a second; one more second is for a busy machine.
const CUT_LOSS: Duration = Duration::from_millis(5_000 + 1_000 + 1_000);
/// Records reach the file within 50 milliseconds, and written data survives a kill.
const KILL_LOSS: Duration = Duration::from_millis(1_000);
const PAGE: usize = 1_000;

/// Refused requests of a user: the time of the response by request id.
struct Refusals {
    user: Client,
    next: u32,
    answered: BTreeMap<String, Instant>,
}

impl Refusals {
    fn new(workload: &Workload, line: &mut Connection) -> Self {
        Self {
            user: Client::sign_up(&workload.keys, line, "refused@example.com").unwrap(),
            next: 0,
            answered: BTreeMap::new(),
        }
    }

    /// Sends requests that are refused, for the duration `span`.
    fn send(&mut self, line: &mut Connection, span: Duration) {
        let until = Instant::now() + span;
        while Instant::now() < until {
            let id = format!("refusal-{}", self.next);
            self.next += 1;
            let headers = [("X-Request-Id", id.as_str())];
            let target = "/api/entitlement/v2/asset/nothing";
            let answer = self.user.ask(line, "POST", target, &headers, &Value::Null);
            assert_eq!(answer.unwrap().status, 404);
            self.answered.insert(id, Instant::now());
            thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Returns how many of the refusals that were answered before `until` are missing in the journal. Fails if any is
    /// there twice.
    fn missing(&self, workload: &Workload, line: &mut Connection, until: Instant) -> usize {
        let kept = journaled(workload, line);
        for (id, times) in &kept {
            assert_eq!(*times, 1, "{id}");
        }
        let sure = self.answered.iter().filter(|(_, at)| **at <= until);
        sure.filter(|(id, _)| !kept.contains_key(*id)).count()
    }

    fn sure(&self, until: Instant) -> usize {
        self.answered.values().filter(|at| **at <= until).count()
    }
}

/// Returns how often each refusal is in the journal.
fn journaled(workload: &Workload, line: &mut Connection) -> BTreeMap<String, u32> {
    let mut kept = BTreeMap::new();
    let mut before = String::new();
    loop {
        let target = format!("/admin/v1/requests?code=ASSET_NOT_FOUND&limit={PAGE}{before}");
        let token = &workload.keys.operator;
        let answer = line.operate(token, "GET", &target, &Value::Null).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.json());
        let page = answer.json();
        let page = page.as_array().unwrap();
        for record in page {
            let id = record["id"].as_str().unwrap().to_owned();
            *kept.entry(id).or_default() += 1;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => before = format!("&before={}", last["number"]),
            _ => return kept,
        }
    }
}

/// Cuts the power after sending refusals for `span`. Returns how many of the refusals that must survive are lost, and
/// their number.
fn lost_by_cut(variables: &[(&str, &str)], span: Duration) -> Result<(usize, usize), String> {
    let mut disk = Disk::ext4(512)?;
    let plain = Launch::new(&disk.path().join("data"));
    let mut appliance = plain.ready();
    let workload = Workload::new(&plain, &appliance).unwrap();
    // Set up with syncs, so that the store itself survives.
    assert_eq!(appliance.end(), Some(0));
    let launch = variables
        .iter()
        .fold(plain.clone(), |launch, (name, value)| {
            launch.with(name, value)
        });
    let mut appliance = launch.ready();
    let mut refusals = Refusals::new(&workload, &mut appliance.line());
    refusals.send(&mut appliance.line(), span);
    let cut = Instant::now();
    appliance.cut_power(&mut disk);
    let until = cut - CUT_LOSS;
    let sure = refusals.sure(until);
    let appliance = match plain.start() {
        Started::Ready(appliance) => appliance,
        // Without syncs the store itself may be beyond recovery.
        _ if !variables.is_empty() => return Ok((sure, sure)),
        Started::Waiting(log) | Started::Ended(_, log) | Started::Hung(log) => {
            panic!("the server did not start:\n{log}")
        }
    };
    let missing = refusals.missing(&workload, &mut appliance.line(), until);
    Ok((missing, sure))
}

#[test]
fn a_power_cut_costs_the_last_seconds_of_the_journal_only() {
    for round in 0..rounds(2, 50) {
        let span = CUT_LOSS + Duration::from_millis(1_500 + 700 * (round % 5));
        let (missing, sure) = match lost_by_cut(&[], span) {
            Ok(found) => found,
            Err(why) => return skip("power cuts of the journal", &why),
        };
        assert!(sure > 50, "{sure}");
        assert_eq!(missing, 0, "of {sure} refusals, in round {round}");
    }
}

/// Control: without syncs the same cut loses records.
#[test]
fn a_power_cut_of_an_unsynced_journal_is_detected() {
    let span = CUT_LOSS + Duration::from_millis(2_000);
    match lost_by_cut(&[("PLAYGATE_UNSAFE_NO_SYNC", "1")], span) {
        Ok((missing, sure)) => assert!(missing > 0, "all {sure} refusals survived"),
        Err(why) => skip("power cuts of an unsynced journal", &why),
    }
}

#[test]
fn a_kill_keeps_what_was_journaled_and_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let launch = Launch::new(&folder.path().join("data"));
    let mut appliance = launch.ready();
    let workload = Workload::new(&launch, &appliance).unwrap();
    let mut refusals = Refusals::new(&workload, &mut appliance.line());
    for round in 0..rounds(4, 100) {
        let span = KILL_LOSS + Duration::from_millis(100 + 130 * (round % 7));
        refusals.send(&mut appliance.line(), span);
        let killed = Instant::now();
        appliance.kill();
        appliance = launch.ready();
        let until = killed - KILL_LOSS;
        let missing = refusals.missing(&workload, &mut appliance.line(), until);
        assert_eq!(missing, 0, "of {}, in round {round}", refusals.sure(until));
        // Later refusals may be lost: they are not checked again.
        refusals.answered.retain(|_, at| *at <= until);
    }
}
