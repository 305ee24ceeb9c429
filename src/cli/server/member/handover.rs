//! The handover of a fleet: the owner lets another member take over, on request or because it cannot make changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use playgate_fleet::candidacy::{Candidacy, MemberState};
use playgate_fleet::etcd::MemberRecord;
use playgate_fleet::peers::PeerClient;
use playgate_observe::fleet::{HandOver, HandedOver, HandoverRefusal};
use playgate_store::replication::SharedLogError;

/// Time for all members to answer.
const ASK_TIME: Duration = Duration::from_secs(3);
/// How long the other members leave the claim to the chosen one. Requests that run at the owner end within a part of it.
const YIELD_TIME: Duration = Duration::from_secs(10);
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// After an attempt without a member that could take over.
const TRY_AGAIN: Duration = Duration::from_secs(5);

type Others = Arc<dyn Fn() -> Result<Vec<MemberRecord>, SharedLogError> + Send + Sync>;

/// Lets the server of an owner end, so that another member takes over.
#[derive(Clone)]
pub(super) struct Stepping(Arc<watch::Sender<bool>>);

impl Default for Stepping {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Stepping {
    /// Returns when this member should let another one take over.
    pub(super) async fn down(&self) {
        let mut stepping = self.0.subscribe();
        // The sender is in `self`.
        let _ = stepping.wait_for(|stepping| *stepping).await;
    }

    pub(super) fn is_down(&self) -> bool {
        *self.0.borrow()
    }

    fn step_down(&self) {
        self.0.send_replace(true);
    }
}

#[derive(Clone)]
pub(super) struct Handover {
    pub name: String,
    /// How many tables the version of this member knows.
    pub tables: u32,
    pub others: Others,
    pub client: PeerClient,
    pub runtime: Handle,
    pub stepping: Stepping,
}

impl Handover {
    pub(super) fn on_request(self) -> HandOver {
        Arc::new(move |to| self.hand_over(to, Reason::Request))
    }

    /// Chooses the next owner, and lets this member step down. Blocks.
    fn hand_over(&self, to: Option<&str>, reason: Reason) -> Result<HandedOver, HandoverRefusal> {
        let refused = |why: String| Err(HandoverRefusal::NotPossible(why));
        if to == Some(&*self.name) {
            return refused(format!("{} is the owner already", self.name));
        }
        let others = match (self.others)() {
            Ok(others) => others,
            Err(error) => return refused(format!("etcd does not answer: {error}")),
        };
        if let Some(name) = to
            && !others.iter().any(|other| other.name == name)
        {
            let names: Vec<_> = others.iter().map(|other| &*other.name).collect();
            let names = names.join(", ");
            return Err(HandoverRefusal::NoSuchMember(format!(
                "the fleet has no member {name}; it has {names}"
            )));
        }
        let asked = self.runtime.block_on(self.ask(others.clone()));
        let next = match choose(asked, to, self.tables, reason) {
            Ok(next) => next,
            Err(why) => return refused(format!("no other member can take over: {why}")),
        };
        let waiting = others.into_iter().filter(|other| other.id != next.id);
        self.runtime.block_on(self.let_yield(waiting));
        tracing::warn!(to = next.name, "handing over to another member");
        self.stepping.step_down();
        Ok(HandedOver {
            from: self.name.clone(),
            to: next.name,
        })
    }

    async fn ask(&self, members: Vec<MemberRecord>) -> Vec<(MemberRecord, Option<MemberState>)> {
        let mut asked = JoinSet::new();
        for member in members {
            let client = self.client.clone();
            asked.spawn(async move {
                let state = timeout(ASK_TIME, client.state(&member.address)).await;
                (member, state.ok().and_then(Result::ok))
            });
        }
        asked.join_all().await
    }

    /// Best effort: a member that does not yield may become the owner, which is no harm.
    async fn let_yield(&self, members: impl Iterator<Item = MemberRecord>) {
        let mut asked = JoinSet::new();
        for member in members {
            let client = self.client.clone();
            asked.spawn(async move {
                let _ = timeout(ASK_TIME, client.yield_claim(&member.address, YIELD_TIME)).await;
            });
        }
        asked.join_all().await;
    }

    /// Hands over once this owner could make no change for longer than a lease, and another member can.
    pub(super) async fn when_stuck(self, candidacy: Arc<Candidacy>, lease: Duration) {
        let mut since: Option<Instant> = None;
        let mut logged = None;
        loop {
            sleep(CHECK_EVERY).await;
            if !candidacy.cannot_change() {
                since = None;
                continue;
            }
            if since.get_or_insert_with(Instant::now).elapsed() <= lease {
                continue;
            }
            let handover = self.clone();
            // Calls of etcd block.
            let handing = move || handover.hand_over(None, Reason::NoChanges);
            let handed = tokio::task::spawn_blocking(handing).await;
            match handed {
                Ok(Ok(_)) => return,
                Ok(Err(refusal)) if logged.as_ref() != Some(&refusal) => {
                    tracing::error!(
                        ?refusal,
                        "this owner can make no changes, and cannot hand over"
                    );
                    logged = Some(refusal);
                }
                Ok(Err(_)) | Err(_) => {}
            }
            sleep(TRY_AGAIN).await;
        }
    }
}

/// Why an owner hands over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Request,
    /// This owner can make no changes, so any other one is better.
    NoChanges,
}

/// Returns the next owner: the named member, or the best one. `tables`: those of this version.
fn choose(
    asked: Vec<(MemberRecord, Option<MemberState>)>,
    to: Option<&str>,
    tables: u32,
    reason: Reason,
) -> Result<MemberRecord, String> {
    let (mut able, mut reasons) = (Vec::new(), Vec::new());
    for (record, state) in asked {
        if to.is_some_and(|name| name != record.name) {
            continue;
        }
        let is_older = record.tables < Some(tables);
        let why = match inability(state.as_ref()) {
            None if is_older && reason == Reason::Request => Some(format!(
                "has the older version {}, which may not know what this version writes; install the version of this member there first",
                record.version
            )),
            other => other,
        };
        match why {
            None => able.push((!is_older, state.map_or(0, |state| state.commit), record)),
            Some(why) => reasons.push(format!("{} {why}", record.name)),
        }
    }
    // The one that has least to apply.
    let best = able
        .into_iter()
        .max_by_key(|(is_new, commit, _)| (*is_new, *commit));
    best.map(|(.., record)| record)
        .ok_or_else(|| match reasons.is_empty() {
            true => "the fleet has no other member".to_owned(),
            false => reasons.join("; "),
        })
}

/// Why a member cannot be the next owner.
fn inability(state: Option<&MemberState>) -> Option<String> {
    let Some(state) = state else {
        return Some("does not answer".to_owned());
    };
    if !state.may_own {
        return Some("has `fleet.may_own = false`".to_owned());
    }
    if let Some(why) = &state.unfit {
        return Some(format!(
            "has settings that refuse the data of the fleet: {why}"
        ));
    }
    if state.is_full {
        return Some("has a full disk".to_owned());
    }
    (!state.can_own).then(|| {
        "does not follow the log, or was moved to another machine and no owner has seen it yet"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_cannot_own_is_no_next_owner() {
        let able = MemberState {
            can_own: true,
            may_own: true,
            ..MemberState::default()
        };
        assert_eq!(inability(Some(&able)), None);
        let spoil: [(&str, fn(&mut MemberState)); 4] = [
            ("`fleet.may_own = false`", |state| state.may_own = false),
            ("refuse the data", |state| {
                state.unfit = Some("x".to_owned())
            }),
            ("full disk", |state| state.is_full = true),
            ("does not follow", |state| state.can_own = false),
        ];
        for (text, spoil) in spoil {
            let mut state = able.clone();
            spoil(&mut state);
            let why = inability(Some(&state)).unwrap();
            assert!(why.contains(text), "{why}");
        }
        assert!(inability(None).unwrap().contains("does not answer"));
    }

    #[test]
    fn a_member_of_an_older_version_is_the_next_owner_only_if_this_one_can_make_no_changes() {
        let member = |name: &str, tables: Option<u32>, commit| {
            let record = MemberRecord {
                name: name.to_owned(),
                version: format!("1.{}", tables.unwrap_or_default()),
                tables,
                ..MemberRecord::default()
            };
            let state = MemberState {
                commit,
                can_own: true,
                may_own: true,
                ..MemberState::default()
            };
            (record, Some(state))
        };
        let chosen = |members: &[_], to, reason| {
            choose(members.to_vec(), to, 7, reason).map(|record| record.name)
        };
        let (old, new) = (member("old", Some(6), 9), member("new", Some(7), 8));
        let both = [old.clone(), new];
        // Without a name another one is chosen, although the older one has less to apply.
        assert_eq!(chosen(&both, None, Reason::Request).unwrap(), "new");
        assert_eq!(chosen(&both, Some("new"), Reason::Request).unwrap(), "new");
        for first in [old.clone(), member("old", None, 9)] {
            let why = choose(vec![first], Some("old"), 7, Reason::Request).unwrap_err();
            assert!(why.starts_with("old has the older version 1."), "{why}");
            assert!(why.contains("install the version of this member"), "{why}");
        }
        let alone = [old];
        assert!(chosen(&alone, None, Reason::Request).is_err());
        assert_eq!(chosen(&alone, None, Reason::NoChanges).unwrap(), "old");
        assert_eq!(chosen(&both, None, Reason::NoChanges).unwrap(), "new");
        // Control: equal and newer versions.
        for tables in [7, 8] {
            let one = [member("one", Some(tables), 1)];
            assert_eq!(chosen(&one, Some("one"), Reason::Request).unwrap(), "one");
        }
    }
}
