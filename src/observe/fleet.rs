//! State of the members of a fleet and of etcd, as the owner sees it, and the resulting problems.
//!
//! `/readyz`, the console and `playgate doctor` report the same problems.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use playgate_types::UnixSeconds;
use playgate_types::time::DAY;

/// Largest difference of a member's clock that is not reported, in milliseconds. Tokens and sessions expire by the
/// clock of the current owner.
const CLOCKS_MAX: i64 = 2_000;
/// Seconds without a sign of life after which a member is reported.
const SILENT_MAX: i64 = 15;
/// Commits that a member may be behind. A standby has to apply them before it can serve.
const BEHIND_MAX: u64 = 2_000;
/// Tolerated 99th percentile of etcd's WAL sync times. An append waits for the disks of a majority.
const SYNC_MAX_MILLIS: u64 = 10;
/// Percent of its quota that etcd may use. The owner keeps its data small, so that another cause is likely, and days remain
/// to find it.
const QUOTA_MILD: u64 = 50;
const QUOTA_SEVERE: u64 = 80;
/// What frees space in etcd. Each step needs the one before.
const FREE_ETCD: &str = "etcdctl compact REVISION, then etcdctl defrag at each endpoint, then etcdctl alarm disarm: \"etcd is full\" in docs/fleet.md has the commands";
/// Remaining days below which a certificate is reported.
const CERTIFICATE_MIN: i64 = 14;

/// What this process knows of its fleet, for requests and metrics. Empty on a single node.
#[derive(Default)]
pub struct FleetView {
    /// The last report of the owner.
    report: Mutex<Option<Arc<FleetReport>>>,
    local_state: OnceLock<ReadLocalMemberState>,
    hand_over: OnceLock<HandOver>,
}

pub type ReadLocalMemberState = Box<dyn Fn() -> LocalMemberState + Send + Sync>;

/// Lets a member, or the best one, become the owner in place of this one. Returns the names of both. Blocks.
pub type HandOver = Arc<dyn Fn(Option<&str>) -> Result<HandedOver, HandoverRefusal> + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOver {
    pub from: String,
    pub to: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandoverRefusal {
    NoSuchMember(String),
    NotPossible(String),
}

/// What a member knows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalMemberState {
    pub is_owner: bool,
    pub knows_owner: bool,
    /// It had every commit at some moment of the last seconds.
    pub is_following: bool,
    pub commit: u64,
    /// Calls to etcd that failed or got no answer.
    pub etcd_errors: u64,
    /// Connections to the owner for clients.
    pub connections: u64,
}

impl FleetView {
    pub fn set(&self, report: FleetReport) {
        *self.report.lock() = Some(Arc::new(report));
    }

    pub fn get(&self) -> Option<Arc<FleetReport>> {
        self.report.lock().clone()
    }

    pub fn set_local_state(&self, read: ReadLocalMemberState) {
        let _ = self.local_state.set(read);
    }

    pub fn local_state(&self) -> Option<LocalMemberState> {
        self.local_state.get().map(|read| read())
    }

    pub fn set_hand_over(&self, hand_over: HandOver) {
        let _ = self.hand_over.set(hand_over);
    }

    /// `None` on a single node.
    pub fn hand_over(&self) -> Option<HandOver> {
        self.hand_over.get().cloned()
    }
}

#[derive(Clone, Debug, Default)]
pub struct FleetReport {
    /// The id of the fleet, in hexadecimal.
    pub fleet: String,
    pub at: UnixSeconds,
    /// The last commit in the shared log; `None` if etcd did not say.
    pub head: Option<u64>,
    /// When this process became the owner; `None` if another process made the report.
    pub owner_since: Option<UnixSeconds>,
    pub members: Vec<MemberReport>,
    pub etcd: Vec<EndpointReport>,
    /// Why the fleet could not be read from etcd.
    pub error: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct MemberReport {
    pub name: String,
    pub address: String,
    pub version: String,
    pub is_owner: bool,
    /// Commits that the member has not applied.
    pub behind: u64,
    /// Seconds since a sign of life; 0 while the member's lease in etcd holds.
    pub silent: i64,
    /// When the member's lease in etcd ended; `None` while it holds, or if no owner noticed it.
    pub down_since: Option<UnixSeconds>,
    /// Requests of clients since its start that the member answered as a standby.
    pub answered: u64,
    /// Those that it forwarded to the owner.
    pub forwarded: u64,
    /// Milliseconds by which the member's clock is ahead.
    pub clock: Option<i64>,
    /// Its disk has no space for changes.
    pub is_full: bool,
    /// `fleet.may_own`
    pub may_own: bool,
    /// Why its settings refuse the data of the fleet.
    pub unfit: Option<String>,
    /// Its settings that must be equal on all members. Empty if it did not answer.
    pub settings: BTreeMap<String, String>,
    /// Why it did not answer.
    pub error: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct EndpointReport {
    pub url: String,
    pub version: String,
    pub is_leader: bool,
    pub bytes: u64,
    pub quota: Option<u64>,
    /// 99th percentile of its WAL sync times since its start, in milliseconds.
    pub sync_millis: Option<u64>,
    /// When the certificate expires.
    pub certificate: Option<UnixSeconds>,
    /// Active alarms, such as `NOSPACE`.
    pub alarms: Vec<String>,
    /// Why it did not answer.
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetProblem {
    /// Changes are refused now, or would be after one more failure.
    pub is_severe: bool,
    pub text: String,
    pub fix: String,
}

fn severe(text: String, fix: impl Into<String>) -> FleetProblem {
    FleetProblem {
        is_severe: true,
        text,
        fix: fix.into(),
    }
}

fn mild(text: String, fix: impl Into<String>) -> FleetProblem {
    FleetProblem {
        is_severe: false,
        ..severe(text, fix)
    }
}

impl FleetReport {
    /// Problems of the fleet, the worst first.
    pub fn problems(&self) -> Vec<FleetProblem> {
        let mut problems = Vec::new();
        if let Some(error) = &self.error {
            let fix = "check that a majority of etcd runs, and `fleet.endpoints`, `fleet.ca`, `fleet.username`";
            problems.push(severe(
                format!("the fleet cannot be read from etcd: {error}"),
                fix,
            ));
        } else {
            problems.extend(self.problems_of_roles());
        }
        problems.extend(self.members.iter().flat_map(MemberReport::problems));
        problems.extend(self.differing_settings());
        problems.extend(self.etcd.iter().flat_map(|one| one.problems(self.at)));
        let gone = self.etcd.iter().filter(|one| one.error.is_some()).count();
        // etcd may have more members than configured endpoints, so the text counts endpoints only.
        if self.error.is_none() && gone > 0 && 2 * (self.etcd.len() - gone) <= self.etcd.len() + 1 {
            problems.push(severe(
                format!(
                    "{gone} of {} endpoints of etcd do not answer: the next loss stops changes",
                    self.etcd.len()
                ),
                "start them, or correct `fleet.endpoints`",
            ));
        }
        // The sort is stable: problems of one severity keep the order from above.
        problems.sort_by_key(|problem| !problem.is_severe);
        problems
    }

    /// The rules of the fleet are those of its owner, so a setting that differs takes effect with the next owner.
    fn differing_settings(&self) -> Vec<FleetProblem> {
        let answered = || {
            self.members
                .iter()
                .filter(|member| !member.settings.is_empty())
        };
        let keys: BTreeSet<_> = answered()
            .flat_map(|member| member.settings.keys())
            .collect();
        let versions: BTreeSet<_> = answered().map(|member| &member.version).collect();
        // Its default depends on the version, so it is alike again after an upgrade.
        let keys = keys
            .into_iter()
            .filter(|key| *key != "fleet.lease" || versions.len() == 1);
        let differing = keys.filter_map(|key| {
            let mut values = BTreeMap::<&str, Vec<&str>>::new();
            for member in answered() {
                // A member of another version may not have the key.
                let value = member.settings.get(key)?;
                values.entry(value).or_default().push(&member.name);
            }
            (values.len() > 1).then(|| {
                let given = values.iter().map(|(value, members)| {
                    let shown = if value.is_empty() { "not set" } else { value };
                    format!("{shown} on {}", members.join(", "))
                });
                let given = given.collect::<Vec<_>>().join("; ");
                mild(
                    format!("the setting `{key}` differs: {given}"),
                    "set it alike on all members, and restart them; it takes effect with each new owner",
                )
            })
        });
        differing.collect()
    }

    fn problems_of_roles(&self) -> Option<FleetProblem> {
        if !self.members.iter().any(|member| member.is_owner) {
            if !self.members.iter().any(|member| member.may_own) {
                return Some(severe(
                    "no member may own the fleet".to_owned(),
                    "remove `fleet.may_own = false` from the configuration of a member, and restart it",
                ));
            }
            return Some(severe(
                "no member is the owner".to_owned(),
                "start the service on a member: playgate fleet status",
            ));
        }
        (self.members.len() < 2).then(|| {
            mild(
                "the fleet has one member: nothing takes over when it is lost".to_owned(),
                "playgate fleet invite, then playgate fleet join on another machine",
            )
        })
    }
}

impl MemberReport {
    fn problems(&self) -> Vec<FleetProblem> {
        let name = &self.name;
        let mut problems = Vec::new();
        let is_silent = self.down_since.is_some() || self.silent.abs() > SILENT_MAX;
        if is_silent && self.error.is_some() {
            let text = match (self.down_since, self.silent < 0) {
                (Some(since), _) => format!("member {name} is down since {}", since.in_utc()),
                (None, true) => format!("member {name} does not answer"),
                (None, false) => format!("member {name} was last seen {} s ago", self.silent),
            };
            let fix = format!(
                "start its service; if its machine is gone: playgate fleet leave --name {name}"
            );
            return vec![severe(text, fix)];
        }
        if self.is_full {
            let effect = match self.is_owner {
                true => "changes are refused until another member takes over",
                false => "it does not take over while another member can",
            };
            problems.push(severe(
                format!("the disk of member {name} is full: {effect}"),
                format!("free space on the disk of {name}"),
            ));
        }
        if let Some(why) = &self.unfit {
            problems.push(severe(
                format!(
                    "member {name} cannot take over, since its settings refuse the data: {why}"
                ),
                format!("correct the configuration of {name}, and restart it"),
            ));
        }
        if let Some(error) = &self.error {
            problems.push(mild(
                format!("member {name} is running but cannot be reached: {error}"),
                format!(
                    "check its `fleet.advertise` ({}) and firewalls",
                    self.address
                ),
            ));
        }
        if self.behind > BEHIND_MAX {
            problems.push(mild(
                format!("member {name} is {} commits behind", self.behind),
                format!("look at the log and the disk of {name}"),
            ));
        }
        if let Some(millis) = self.clock.filter(|millis| millis.abs() > CLOCKS_MAX) {
            let way = if millis > 0 { "ahead" } else { "behind" };
            problems.push(severe(
                format!(
                    "the clock of member {name} is {} s {way}",
                    millis.abs() / 1_000
                ),
                "synchronise the clocks: timedatectl set-ntp true",
            ));
        }
        problems
    }
}

impl EndpointReport {
    fn problems(&self, now: UnixSeconds) -> Vec<FleetProblem> {
        let url = &self.url;
        if let Some(error) = &self.error {
            let text = format!("etcd at {url} does not answer: {error}");
            return vec![mild(text, "start it, or correct `fleet.endpoints`")];
        }
        let mut problems: Vec<_> = self
            .alarms
            .iter()
            .map(|alarm| {
                let fix = match &**alarm {
                    "NOSPACE" => FREE_ETCD,
                    _ => "etcdctl alarm list; replace that member of etcd, whose data are damaged",
                };
                severe(format!("etcd at {url} has the alarm {alarm}"), fix)
            })
            .collect();
        if let Some(quota) = self
            .quota
            .filter(|quota| self.bytes > quota / 100 * QUOTA_MILD)
        {
            let text = format!(
                "etcd at {url} uses {} of {} MiB",
                self.bytes >> 20,
                quota >> 20
            );
            problems.push(match self.bytes > quota / 100 * QUOTA_SEVERE {
                true => severe(text, FREE_ETCD),
                false => mild(text, FREE_ETCD),
            });
        }
        if let Some(millis) = self.sync_millis.filter(|millis| *millis > SYNC_MAX_MILLIS) {
            problems.push(mild(
                format!("1 of 100 syncs of etcd at {url} takes over {millis} ms"),
                "give etcd a faster disk of its own; each change waits for it",
            ));
        }
        if let Some(until) = self.certificate {
            let days = until.since(now).div_euclid(DAY);
            if days < CERTIFICATE_MIN {
                let problem = match days {
                    0.. => {
                        let text = format!("the certificate of etcd at {url} ends in {days} days");
                        mild(text, "renew it")
                    }
                    // Members that connect again are refused.
                    _ => {
                        let when = match now.since(until).div_euclid(DAY) {
                            0 => "today".to_owned(),
                            days => format!("{days} days ago"),
                        };
                        let text = format!("the certificate of etcd at {url} expired {when}");
                        severe(text, "renew it")
                    }
                };
                problems.push(problem);
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> FleetReport {
        let member = |name: &str, is_owner| MemberReport {
            name: name.to_owned(),
            is_owner,
            silent: 2,
            clock: Some(40),
            may_own: true,
            settings: [("playback.devices".to_owned(), "5".to_owned())].into(),
            ..MemberReport::default()
        };
        let endpoint = |url: &str| EndpointReport {
            url: url.to_owned(),
            bytes: 10 << 20,
            quota: Some(2 << 30),
            sync_millis: Some(4),
            certificate: Some(UnixSeconds(60 * DAY)),
            ..EndpointReport::default()
        };
        FleetReport {
            head: Some(9),
            members: vec![member("north", true), member("south", false)],
            etcd: vec![
                endpoint("http://a"),
                endpoint("http://b"),
                endpoint("http://c"),
            ],
            ..FleetReport::default()
        }
    }

    type Spoil = fn(&mut FleetReport);

    #[test]
    fn each_problem_of_a_fleet_is_reported_and_a_sound_fleet_has_none() {
        assert_eq!(sound().problems(), []);
        let cases: &[(bool, &str, Spoil)] = &[
            (true, "cannot be read from etcd: x", |fleet| {
                fleet.error = Some("x".to_owned())
            }),
            (true, "no member is the owner", |fleet| {
                fleet.members[0].is_owner = false
            }),
            (false, "has one member", |fleet| fleet.members.truncate(1)),
            (true, "south was last seen 60 s ago", |fleet| {
                fleet.members[1].silent = 60;
                fleet.members[1].error = Some("refused".to_owned());
            }),
            (true, "south is down since 1970-01-01", |fleet| {
                fleet.members[1].down_since = Some(UnixSeconds(30));
                fleet.members[1].error = Some("refused".to_owned());
            }),
            (
                false,
                "is running but cannot be reached: refused",
                |fleet| {
                    fleet.members[1].error = Some("refused".to_owned());
                },
            ),
            (false, "3000 commits behind", |fleet| {
                fleet.members[1].behind = 3_000
            }),
            (true, "south is 60 s behind", |fleet| {
                fleet.members[1].clock = Some(-60_000)
            }),
            (true, "south is 3 s ahead", |fleet| {
                fleet.members[1].clock = Some(3_000)
            }),
            (false, "http://b does not answer: x", |fleet| {
                fleet.etcd[1].error = Some("x".to_owned());
            }),
            (true, "the next loss stops changes", |fleet| {
                fleet.etcd[1].error = Some("x".to_owned());
            }),
            (true, "the alarm NOSPACE", |fleet| {
                fleet.etcd[2].alarms.push("NOSPACE".to_owned());
            }),
            (false, "uses 1100 of 2048 MiB", |fleet| {
                fleet.etcd[0].bytes = 1_100 << 20
            }),
            (true, "uses 1900 of 2048 MiB", |fleet| {
                fleet.etcd[0].bytes = 1_900 << 20
            }),
            (false, "takes over 25 ms", |fleet| {
                fleet.etcd[0].sync_millis = Some(25)
            }),
            (false, "ends in 3 days", |fleet| {
                fleet.etcd[0].certificate = Some(UnixSeconds(3 * DAY + 1));
            }),
            (true, "expired 3 days ago", |fleet| {
                fleet.etcd[0].certificate = Some(UnixSeconds(-3 * DAY));
            }),
        ];
        each_is_reported(cases);
    }

    #[test]
    fn members_that_cannot_take_over_and_settings_that_differ_are_reported() {
        each_is_reported(&[
            (
                true,
                "the disk of member south is full: it does not",
                |fleet| fleet.members[1].is_full = true,
            ),
            (true, "the disk of member north is full: changes", |fleet| {
                fleet.members[0].is_full = true
            }),
            (
                true,
                "south cannot take over, since its settings",
                |fleet| {
                    fleet.members[1].unfit = Some("a lab partner".to_owned());
                },
            ),
            (
                false,
                "`playback.devices` differs: 5 on north; 7 on south",
                |fleet| {
                    let settings = &mut fleet.members[1].settings;
                    settings.insert("playback.devices".to_owned(), "7".to_owned());
                },
            ),
            (
                false,
                "`smtp.password` differs: not set on north",
                |fleet| {
                    let of = |value: &str| [("smtp.password".to_owned(), value.to_owned())];
                    fleet.members[0].settings.extend(of(""));
                    fleet.members[1].settings.extend(of("digest 7f"));
                },
            ),
            (
                false,
                "`fleet.lease` differs: 1s on north; 2s on",
                lease_differs,
            ),
            (true, "no member may own the fleet", |fleet| {
                fleet.members[0].is_owner = false;
                fleet.members.iter_mut().for_each(|one| one.may_own = false);
            }),
        ]);
    }

    fn lease_differs(fleet: &mut FleetReport) {
        for (member, lease) in fleet.members.iter_mut().zip(["1s", "2s"]) {
            let setting = ("fleet.lease".to_owned(), lease.to_owned());
            member.settings.extend([setting]);
        }
    }

    #[test]
    fn leases_of_two_versions_may_differ() {
        let mut fleet = sound();
        lease_differs(&mut fleet);
        fleet.members[1].version = "0.0.9".to_owned();
        assert_eq!(fleet.problems(), []);
    }

    fn each_is_reported(cases: &[(bool, &str, Spoil)]) {
        for (is_severe, text, spoil) in cases {
            let mut fleet = sound();
            spoil(&mut fleet);
            let found = fleet.problems();
            let hit = found.iter().find(|problem| problem.text.contains(text));
            let hit = hit.unwrap_or_else(|| panic!("{text}: {found:?}"));
            assert_eq!(hit.is_severe, *is_severe, "{hit:?}");
            assert!(!hit.fix.is_empty());
            let severe = found.iter().map(|problem| problem.is_severe);
            assert!(severe.is_sorted_by(|a, b| a >= b), "{found:?}");
        }
    }
}
