//! Rights of single broadcasts: the livestream's defaults, then rules in order, then the override of the
//! broadcast. The last layer that sets a right decides it.

use serde::{Deserialize, Serialize};

use super::glob::Glob;
use super::model::{ExtendedRights, Livestream, Window};
use super::time_window::Hours;
use crate::schedule::{Broadcast, BroadcastRights};
use playgate_types::LivestreamId;
use playgate_types::time::DAY;

/// `None` leaves a right unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effects {
    pub live: Option<bool>,
    pub catchup: Option<bool>,
    pub catchup_days: Option<u16>,
    pub start_over: Option<bool>,
    pub pause: Option<bool>,
    pub rewind: Option<bool>,
    pub fast_forward: Option<bool>,
}

/// All given members must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Sorted. An empty list matches every livestream.
    pub livestreams: Vec<LivestreamId>,
    pub when: Option<TimeWindow>,
    pub title: Option<Glob>,
    pub category: Option<Glob>,
    /// Inclusive; unrated programs never match.
    pub rating: Option<(u8, u8)>,
}

/// Hours of the day are in the livestream's time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeWindow {
    Window(Window),
    Hours(Hours),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub condition: Condition,
    pub effects: Effects,
}

impl Rule {
    /// Whether the rule has no condition and takes a right away: every broadcast loses it.
    pub fn takes_from_all(&self) -> bool {
        let Effects {
            live,
            catchup,
            catchup_days,
            start_over,
            pause,
            rewind,
            fast_forward,
        } = self.effects;
        let switches = [live, catchup, start_over, pause, rewind, fast_forward];
        self.condition == Condition::default()
            && (switches.contains(&Some(false)) || catchup_days == Some(0))
    }

    pub fn matches(&self, livestream: &Livestream, broadcast: &Broadcast) -> bool {
        self.condition.concerns(&livestream.id)
            && self.condition.mismatch(livestream, broadcast).is_none()
    }
}

impl Condition {
    pub fn concerns(&self, livestream: &LivestreamId) -> bool {
        self.livestreams.is_empty() || self.livestreams.binary_search(livestream).is_ok()
    }

    /// `None` if the condition holds. The caller has checked [`Self::concerns`].
    pub(super) fn mismatch(
        &self,
        livestream: &Livestream,
        broadcast: &Broadcast,
    ) -> Option<&'static str> {
        let metadata = &broadcast.metadata;
        let when = self.when.is_none_or(|when| match when {
            TimeWindow::Window(window) => window.contains(broadcast.start),
            TimeWindow::Hours(hours) => hours.contains(broadcast.start, livestream.zone),
        });
        let rating = || {
            let within = |(least, most)| {
                metadata
                    .pg_age
                    .is_some_and(|age| least <= age && age <= most)
            };
            self.rating.is_none_or(within)
        };
        let title = || {
            let fits = |title: &Glob| title.matches(&metadata.title);
            self.title.as_ref().is_none_or(fits)
        };
        let category = || {
            let fits = |glob: &Glob| metadata.categories.iter().any(|one| glob.matches(one));
            self.category.as_ref().is_none_or(fits)
        };
        // Cheap checks first: every rule is evaluated for every broadcast of its livestreams.
        if !when {
            Some("window")
        } else if !rating() {
            Some("rating")
        } else if !title() {
            Some("title")
        } else if !category() {
            Some("category")
        } else {
            None
        }
    }
}

impl Effects {
    pub fn defaults_of(livestream: &Livestream) -> Self {
        Self {
            live: Some(livestream.live_rights),
            // Without an override the window alone decides.
            catchup: Some(true),
            catchup_days: Some(livestream.catchup_days),
            start_over: Some(livestream.start_over),
            pause: Some(livestream.extended.pause),
            rewind: Some(livestream.extended.rewind),
            fast_forward: Some(livestream.extended.fast_forward),
        }
    }
}

pub(super) struct RightsDraft {
    pub(super) live: bool,
    catchup: bool,
    pub(super) catchup_days: u16,
    pub(super) start_over: bool,
    pub(super) extended: ExtendedRights,
    /// A layer removed the live rights without setting start-over.
    blackout: bool,
}

impl RightsDraft {
    pub(super) fn from_livestream(livestream: &Livestream) -> Self {
        Self {
            live: livestream.live_rights,
            // `catchup_days` decides; only a rule or an override removes the right.
            catchup: true,
            catchup_days: livestream.catchup_days,
            start_over: livestream.start_over,
            extended: livestream.extended,
            blackout: false,
        }
    }

    pub(super) fn apply(&mut self, effects: &Effects) {
        let Effects {
            live,
            catchup,
            catchup_days,
            start_over,
            pause,
            rewind,
            fast_forward,
        } = *effects;
        let set = |slot: &mut bool, value: Option<bool>| *slot = value.unwrap_or(*slot);
        match (live, start_over) {
            // A layer that removes live rights without setting start-over removes start-over, too; otherwise
            // viewers would bypass a blackout by starting the program over. To allow it, a layer sets both.
            (Some(true), _) | (_, Some(_)) => self.blackout = false,
            (Some(false), None) => self.blackout = true,
            (None, None) => {}
        }
        set(&mut self.live, live);
        set(&mut self.catchup, catchup);
        set(&mut self.start_over, start_over);
        set(&mut self.extended.pause, pause);
        set(&mut self.extended.rewind, rewind);
        set(&mut self.extended.fast_forward, fast_forward);
        self.catchup_days = catchup_days.unwrap_or(self.catchup_days);
    }

    const fn allows_start_over(&self) -> bool {
        self.start_over && !self.blackout
    }

    pub(super) fn rights(&self, broadcast: &Broadcast) -> BroadcastRights {
        // With start-over the catch-up window opens while the program is on air.
        let opens = if self.allows_start_over() {
            broadcast.start
        } else {
            broadcast.stop
        };
        // The days count from the stop, even if the window opens at the start.
        let ends = broadcast.stop + i64::from(self.catchup_days) * DAY;
        let window = self.catchup && self.catchup_days > 0;
        BroadcastRights {
            live: self.live,
            catchup: window.then_some((opens, ends)),
            start_over: self.allows_start_over(),
            pause: self.extended.pause,
            rewind: self.extended.rewind,
            fast_forward: self.extended.fast_forward,
        }
    }
}

pub(super) fn rights<'a>(
    livestream: &Livestream,
    broadcast: &Broadcast,
    rules: impl Iterator<Item = &'a Rule>,
    broadcast_effects: Option<&Effects>,
) -> BroadcastRights {
    let mut draft = RightsDraft::from_livestream(livestream);
    // Later layers win: the livestream's defaults, its rules in order, the override of the broadcast.
    for rule in rules {
        if rule.condition.mismatch(livestream, broadcast).is_none() {
            draft.apply(&rule.effects);
        }
    }
    if let Some(effects) = broadcast_effects {
        draft.apply(effects);
    }
    draft.rights(broadcast)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::schedule::Metadata;
    use playgate_types::{BroadcastId, UnixSeconds};

    #[test]
    fn rules_without_a_condition_that_take_a_right_are_known() {
        let off = Effects {
            rewind: Some(false),
            ..Effects::default()
        };
        let rule = |effects, condition| Rule { condition, effects };
        let titled = Condition {
            title: Some(Glob::parse("A*").unwrap()),
            ..Condition::default()
        };
        assert!(rule(off, Condition::default()).takes_from_all());
        assert!(!rule(off, titled).takes_from_all());
        let more = |days| Effects {
            live: Some(true),
            catchup_days: Some(days),
            ..Effects::default()
        };
        assert!(!rule(more(7), Condition::default()).takes_from_all());
        assert!(rule(more(0), Condition::default()).takes_from_all());
    }

    fn livestream() -> Livestream {
        let id = LivestreamId::parse("news").unwrap();
        let mut livestream = Livestream::new(id, "News".to_owned());
        livestream.catchup_days = 7;
        livestream.start_over = true;
        livestream.zone = playgate_types::Zone::stored("Europe/Stockholm");
        livestream
    }

    /// 18:00 to 19:00 on 10 January 2026 in Stockholm.
    fn broadcast() -> Broadcast {
        Broadcast {
            id: BroadcastId::parse("b").unwrap(),
            start: UnixSeconds(1_768_064_400),
            stop: UnixSeconds(1_768_068_000),
            metadata: Metadata {
                title: "Football: A - B".into(),
                categories: vec!["Sports".into(), "Live".into()],
                pg_age: Some(12),
                ..Metadata::default()
            },
        }
    }

    fn blackout(condition: Condition) -> Rule {
        let effects = Effects {
            live: Some(false),
            ..Effects::default()
        };
        Rule { condition, effects }
    }

    fn live_under(condition: Condition) -> bool {
        let rule = blackout(condition);
        rights(&livestream(), &broadcast(), [&rule].into_iter(), None).live
    }

    #[test]
    fn catchup_window_opens_at_the_start_if_start_over_is_allowed() {
        let (stream, broadcast) = (livestream(), broadcast());
        let of = |stream: &Livestream, broadcast_effects: Option<&Effects>| {
            rights(stream, &broadcast, std::iter::empty(), broadcast_effects).catchup
        };
        let end = broadcast.stop + 7 * DAY;
        assert_eq!(of(&stream, None), Some((broadcast.start, end)));
        let mut plain = stream.clone();
        plain.start_over = false;
        assert_eq!(of(&plain, None), Some((broadcast.stop, end)));
        plain.catchup_days = 0;
        assert_eq!(of(&plain, None), None);
        let effects = |live, catchup, catchup_days| Effects {
            live,
            catchup,
            catchup_days,
            ..Effects::default()
        };
        assert_eq!(of(&stream, Some(&effects(None, Some(false), None))), None);
        // A blackout takes start-over away.
        assert_eq!(
            of(&stream, Some(&effects(Some(false), None, None))),
            Some((broadcast.stop, end))
        );
        assert_eq!(
            of(&plain, Some(&effects(None, Some(true), Some(1)))),
            Some((broadcast.stop, broadcast.stop + DAY))
        );
    }

    #[test]
    fn blackout_removes_start_over_unless_set_with_or_after_it() {
        let says = |live, start_over| Effects {
            live,
            start_over,
            ..Effects::default()
        };
        let of = |stream: &Livestream, layers: &[Effects]| {
            let mut draft = RightsDraft::from_livestream(stream);
            layers.iter().for_each(|effects| draft.apply(effects));
            let rights = draft.rights(&broadcast());
            (rights.live, rights.start_over)
        };
        let stream = livestream();
        let dark = says(Some(false), None);
        assert_eq!(of(&stream, &[]), (true, true));
        assert_eq!(of(&stream, &[dark]), (false, false));
        assert_eq!(of(&stream, &[says(Some(false), Some(true))]), (false, true));
        assert_eq!(of(&stream, &[dark, says(None, Some(true))]), (false, true));
        assert_eq!(of(&stream, &[says(None, Some(true)), dark]), (false, false));
        assert_eq!(of(&stream, &[dark, says(Some(true), None)]), (true, true));
        let mut not_live = livestream();
        not_live.live_rights = false;
        assert_eq!(of(&not_live, &[]), (false, true));
    }

    #[test]
    fn every_member_of_a_condition_must_match() {
        let glob = |text| Some(Glob::parse(text).unwrap());
        let ids = |ids: [&str; 2]| ids.map(|id| LivestreamId::parse(id).unwrap()).to_vec();
        let window = |from, to| {
            let [from, to] = [from, to].map(|seconds| Some(broadcast().start + seconds));
            Some(TimeWindow::Window(Window { from, to }))
        };
        let hours = |from, to| Some(TimeWindow::Hours(Hours::parse(from, to).unwrap()));
        let check = |holds: bool, set: &dyn Fn(&mut Condition)| {
            let mut condition = Condition::default();
            set(&mut condition);
            let concerned = condition.concerns(&livestream().id);
            let blacked_out = concerned && !live_under(condition.clone());
            assert_eq!(blacked_out, holds, "{condition:?}");
        };
        check(true, &|_| ());
        check(true, &|c| c.livestreams = ids(["a", "news"]));
        check(false, &|c| c.livestreams = ids(["a", "b"]));
        check(true, &|c| c.title = glob("*football*"));
        check(false, &|c| c.title = glob("football"));
        check(true, &|c| c.category = glob("live"));
        check(false, &|c| c.category = glob("film"));
        check(true, &|c| c.rating = Some((12, 99)));
        check(true, &|c| c.rating = Some((0, 12)));
        check(false, &|c| c.rating = Some((13, 99)));
        check(true, &|c| c.when = window(0, 1));
        check(false, &|c| c.when = window(1, 9));
        check(true, &|c| c.when = hours("18:00", "18:01"));
        check(false, &|c| c.when = hours("17:00", "18:00"));
        check(false, &|c| {
            c.title = glob("*");
            c.rating = Some((13, 99));
        });
    }

    #[test]
    fn unrated_broadcast_matches_no_rating() {
        let mut unrated = broadcast();
        unrated.metadata.pg_age = None;
        let rule = blackout(Condition {
            rating: Some((0, 99)),
            ..Condition::default()
        });
        assert!(rights(&livestream(), &unrated, [&rule].into_iter(), None).live);
    }

    #[test]
    fn last_layer_wins() {
        let allow = Rule {
            effects: Effects {
                live: Some(true),
                rewind: Some(true),
                ..Effects::default()
            },
            ..Rule::default()
        };
        let deny = blackout(Condition::default());
        let of = |rules: [&Rule; 2], broadcast_effects: Option<&Effects>| {
            rights(
                &livestream(),
                &broadcast(),
                rules.into_iter(),
                broadcast_effects,
            )
        };
        assert!(of([&deny, &allow], None).live);
        let denied = of([&allow, &deny], None);
        // A right that a later rule does not set keeps its value.
        assert!(!denied.live && denied.rewind);
        let allow_live = Effects {
            live: Some(true),
            ..Effects::default()
        };
        assert!(of([&allow, &deny], Some(&allow_live)).live);
    }
}
