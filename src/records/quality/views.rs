//! Lists the single views behind a figure. Only open views, about those of the last hour, are kept one by one.

use std::cmp::Reverse;

use super::figures::Figures;
use super::view::{View, ViewId};
use super::{Quality, QualityError};
use crate::telemetry::dimensions::{Dimension, Labels};
use playgate_types::{SessionId, UnixSeconds, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewOutcome {
    /// No first frame has been shown so far.
    Starting,
    Played,
    StartFailed,
    ExitedBeforeStart,
    /// Playback failed after the first frame.
    PlaybackFailed,
}

impl ViewOutcome {
    pub const ALL: [Self; 5] = [
        Self::Starting,
        Self::Played,
        Self::StartFailed,
        Self::ExitedBeforeStart,
        Self::PlaybackFailed,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Played => "played",
            Self::StartFailed => "start_failed",
            Self::ExitedBeforeStart => "exited_before_start",
            Self::PlaybackFailed => "playback_failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == text)
    }

    fn of(figures: &Figures) -> Self {
        if figures.playback_failures > 0 {
            Self::PlaybackFailed
        } else if figures.plays > 0 {
            Self::Played
        } else if figures.failure_codes.is_empty() {
            match figures.exits_before_start {
                0 => Self::Starting,
                _ => Self::ExitedBeforeStart,
            }
        } else {
            Self::StartFailed
        }
    }
}

/// Views that began from `from` on and before `to`, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewsQuery {
    pub from: UnixSeconds,
    pub to: UnixSeconds,
    /// A view must have one of the given values in each dimension that is given.
    pub filters: Vec<(Dimension, String)>,
    pub outcome: Option<ViewOutcome>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ViewSummary {
    pub began: UnixSeconds,
    pub session: Option<SessionId>,
    /// `None` after an erasure.
    pub user: Option<UserId>,
    pub labels: Labels,
    pub outcome: ViewOutcome,
    pub figures: Figures,
}

impl Quality {
    pub fn views(&self, query: &ViewsQuery) -> Result<Vec<ViewSummary>, QualityError> {
        let mut state = self.inner.state.lock();
        self.inner.drain(&mut state)?;
        let mut found: Vec<(UnixSeconds, &ViewId, &View)> = (state.views.iter())
            .map(|(id, view)| (view.begin(), id, &**view))
            .filter(|(began, _, view)| {
                (query.from..query.to).contains(began) && allows(&query.filters, &view.labels)
            })
            .collect();
        // The id makes the order total: equal queries get equal lists.
        found.sort_by_key(|(began, id, _)| (Reverse(*began), **id));
        // Lazy: figures are computed only until the limit is reached.
        let summaries = found.into_iter().map(|(began, _, view)| {
            let unit = (state.unit_of)(&view.partner);
            let figures = view.sums(unit, false).figures(0);
            ViewSummary {
                began,
                session: view.session.map(|(id, _)| id),
                user: view.user,
                labels: Labels::clone(&view.labels),
                outcome: ViewOutcome::of(&figures),
                figures,
            }
        });
        let wanted =
            |view: &ViewSummary| query.outcome.is_none_or(|outcome| view.outcome == outcome);
        Ok(summaries.filter(wanted).take(query.limit).collect())
    }
}

fn allows(filters: &[(Dimension, String)], labels: &Labels) -> bool {
    filters.iter().all(|(dimension, _)| {
        let value = labels.get(*dimension);
        filters
            .iter()
            .any(|(other, wanted)| other == dimension && *wanted == **value)
    })
}
