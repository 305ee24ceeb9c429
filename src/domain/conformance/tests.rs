//! A good client passes every rule; each mutant breaks one rule, and only that one is named.

mod client;
mod late_answers;
mod mutants;
mod variants;

use std::collections::BTreeMap;

use client::{Recording, good};

use super::{
    ClientCall, ClientEvent, Conversation, Level, Profile, ProfileError, RuleOutcome, Verdict,
    judge, rules,
};

fn failed(recording: Recording) -> Vec<&'static str> {
    outcome(recording, RuleOutcome::Failed)
}

fn outcome(recording: Recording, outcome: RuleOutcome) -> Vec<&'static str> {
    let report = judge(&recording.conversation(), &Profile::default());
    let results = report
        .results
        .iter()
        .filter(|result| result.outcome == outcome);
    results.map(|result| result.rule.id).collect()
}

#[test]
fn a_good_client_passes_every_rule() {
    let report = judge(&good().conversation(), &Profile::default());
    for result in &report.results {
        assert_eq!(
            result.outcome,
            RuleOutcome::Passed,
            "{}: {:?}",
            result.rule.id,
            result.what
        );
        assert!(result.evidence.is_empty() && result.what.is_none());
    }
    assert_eq!(report.verdict(), Verdict::Passed);
    assert_eq!((report.sessions, report.events), (4, 9));
    assert!(report.calls > 40);
}

#[test]
fn every_rule_has_a_mutant_and_only_that_rule_names_it() {
    let mut tried = Vec::new();
    for (rule, mutate) in mutants::ALL {
        let mut recording = good();
        mutate(&mut recording);
        assert_eq!(failed(recording), [*rule], "the mutant of {rule}");
        tried.push(*rule);
    }
    let known: Vec<_> = rules().iter().map(|rule| rule.id).collect();
    assert_eq!(tried, known);
    assert!(known.len() >= 35);
}

#[test]
fn a_license_and_an_end_need_the_headers_of_the_map_alone() {
    let mut recording = good();
    let needs_the_map = |call: &ClientCall| call.is_license() || call.is("end_playback");
    client::change(&mut recording, needs_the_map, |call| call.headers.clear());
    assert_eq!(failed(recording), Vec::<&str>::new());
}

#[test]
fn a_mutant_is_named_with_its_requests() {
    let mut recording = good();
    let [_, (rule, mutate), ..] = mutants::ALL else {
        panic!()
    };
    mutate(&mut recording);
    let conversation = recording.conversation();
    let report = judge(&conversation, &Profile::default());
    let result = report
        .results
        .iter()
        .find(|result| result.rule.id == *rule)
        .unwrap();
    assert!(!result.evidence.is_empty());
    for id in &result.evidence {
        assert!(conversation.calls.iter().any(|call| call.id == *id), "{id}");
    }
    assert_eq!(report.verdict(), Verdict::Failed);
}

/// The mutant of a rule.
fn mutant(rule: &str) -> Recording {
    let (_, mutate) = mutants::ALL.iter().find(|(id, _)| *id == rule).unwrap();
    let mut recording = good();
    mutate(&mut recording);
    recording
}

/// The mutant of a rule, whose client was started again right before the second request that the rule names.
fn restarted(rule: &str) -> Recording {
    let report = judge(&mutant(rule).conversation(), &Profile::default());
    let mut results = report.results.iter();
    let result = results.find(|result| result.rule.id == rule).unwrap();
    let mut recording = mutant(rule);
    let again = recording
        .calls
        .iter()
        .find(|call| Some(&call.id) == result.evidence.last())
        .unwrap();
    let login = ClientCall {
        id: "restart".to_owned(),
        at: again.at - 1,
        route: "login".to_owned(),
        status: 200,
        user: again.user.clone(),
        ..ClientCall::default()
    };
    recording.calls.push(login);
    recording
}

#[test]
fn an_application_that_was_started_again_owes_nothing_to_its_previous_session() {
    assert!(!failed(restarted("stay-on-552")).contains(&"stay-on-552"));
}

/// A client that asks for entitlement at the end of a program stops seconds before the heartbeat that gets 552.
#[test]
fn a_picture_that_already_stands_at_552_is_no_breach() {
    let paused = |recording: &mut Recording, then: Option<&str>| {
        let mut calls = recording.calls.iter();
        let at = calls.find(|call| call.status == 552).unwrap().at;
        let event = recording
            .events
            .iter_mut()
            .find(|event| event.timestamp >= at && event.action == "playback_paused")
            .unwrap();
        event.timestamp = at - 7_000;
        let resumed = ClientEvent {
            timestamp: at - 6_000,
            action: then.unwrap_or_default().to_owned(),
            ..event.clone()
        };
        recording.events.extend(then.map(|_| resumed));
    };
    let mut recording = good();
    paused(&mut recording, None);
    assert!(!failed(recording).contains(&"stop-on-552"));
    let mut recording = good();
    paused(&mut recording, Some("playback_resumed"));
    assert!(failed(recording).contains(&"stop-on-552"));
}

#[test]
fn a_silent_client_has_not_been_seen() {
    let report = judge(&Conversation::default(), &Profile::default());
    assert!(
        report
            .results
            .iter()
            .all(|result| result.outcome == RuleOutcome::NotSeen)
    );
    assert_eq!(report.verdict(), Verdict::Incomplete);
}

#[test]
fn two_interleaved_sessions_are_distinguished() {
    let mut both = good();
    both.merge(good().of_other_user("two"));
    assert_eq!(failed(both), [""; 0]);

    // The second client's heartbeats fall between those of the first: neither may be judged by the other's.
    let mut bad = good().of_other_user("two");
    mutants::heartbeat_interval(&mut bad);
    let mut both = good();
    both.merge(bad);
    let conversation = both.conversation();
    let report = judge(&conversation, &Profile::default());
    let [only] = report
        .results
        .iter()
        .filter(|r| r.outcome == RuleOutcome::Failed)
        .collect::<Vec<_>>()[..]
    else {
        panic!("{report:?}");
    };
    assert_eq!(only.rule.id, "heartbeat-interval");
    assert!(
        only.evidence.iter().all(|id| id.starts_with("two-")),
        "{:?}",
        only.evidence
    );
    for session in conversation.sessions().keys() {
        let alone = judge(&conversation.of_session(session), &Profile::default());
        let wrong = alone
            .results
            .iter()
            .any(|r| r.outcome == RuleOutcome::Failed);
        assert_eq!(wrong, *session == "two-live", "{session}: {alone:?}");
    }
}

#[test]
fn a_waived_rule_does_not_fail_and_says_why() {
    let waive =
        |id: &str, why: &str| Profile::new(BTreeMap::from([(id.to_owned(), why.to_owned())]));
    let profile = waive("end-session", "the platform kills the app").unwrap();
    let mut recording = good();
    mutants::end_session(&mut recording);
    let report = judge(&recording.conversation(), &profile);
    let result = report
        .results
        .iter()
        .find(|result| result.rule.id == "end-session")
        .unwrap();
    assert_eq!(
        result.outcome,
        RuleOutcome::Waived("the platform kills the app".to_owned())
    );
    assert!(result.what.is_some());
    assert_eq!(report.verdict(), Verdict::Passed);
    assert_eq!(
        waive("x", "y").unwrap_err(),
        ProfileError::UnknownRule("x".to_owned())
    );
    assert_eq!(
        waive("etag", " ").unwrap_err(),
        ProfileError::NoReason("etag".to_owned())
    );
}

#[test]
fn a_broken_should_does_not_fail_the_client() {
    let mut recording = good();
    mutants::etag(&mut recording);
    let report = judge(&recording.conversation(), &Profile::default());
    assert_eq!(report.verdict(), Verdict::Passed);
}

#[test]
fn rules_are_described() {
    let mut ids: Vec<_> = rules().iter().map(|rule| rule.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), rules().len());
    for rule in rules() {
        assert!(
            !rule.title.is_empty() && !rule.threshold.is_empty(),
            "{}",
            rule.id
        );
        let (part, text) = rule.interface.split_once(": ").unwrap();
        assert!(
            part.parse::<u8>().is_ok_and(|part| part <= 18) && !text.is_empty(),
            "{}",
            rule.id
        );
    }
    assert!(rules().iter().any(|rule| rule.level == Level::Should));
}
