//! The partner lab: faults, a clock offset and the last scenario of each lab partner, in memory.
//!
//! A restart clears them: a lab starts from a known state. Callers check that a partner is a lab partner; other
//! partners are never looked up here.

mod fault;
mod scenario;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use dashmap::DashMap;

use fault::ActiveFault;
pub use fault::{
    AppliedFault, CutAt, FaultAction, FaultId, FaultMatch, FaultView, FaultableCall, LicenseFault,
    NewFault, PlaylistFault,
};
use playgate_types::PartnerId;

pub use scenario::{ScenarioReport, ScenarioState};

/// Maximum number of faults of a partner: each is compared with each of its requests.
pub(crate) const FAULTS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a partner has at most {FAULTS_MAX} faults")]
pub struct TooManyFaults;

#[derive(Default)]
struct LabPartner {
    faults: Vec<ActiveFault>,
    /// Seconds that are added to the time of each request of the partner.
    clock_offset: i64,
    scenario: Option<ScenarioReport>,
}

#[derive(Default)]
pub struct Lab {
    partners: DashMap<PartnerId, LabPartner>,
    last_id: AtomicU64,
}

impl Lab {
    /// Adds a fault behind the partner's other faults.
    ///
    /// # Errors
    /// [`TooManyFaults`].
    pub fn add_fault(
        &self,
        partner: PartnerId,
        fault: NewFault,
        now: Instant,
    ) -> Result<FaultView, TooManyFaults> {
        let mut lab = self.partners.entry(partner).or_default();
        // Ended faults are removed only here. Everywhere else they are skipped by their time.
        lab.faults.retain(|fault| !fault.is_over(now));
        if lab.faults.len() >= FAULTS_MAX {
            return Err(TooManyFaults);
        }
        let id = FaultId(self.last_id.fetch_add(1, Ordering::Relaxed) + 1);
        let fault = ActiveFault::new(id, fault, now);
        let view = fault.view(now);
        lab.faults.push(fault);
        Ok(view)
    }

    /// The partner's faults, oldest first, including those that have been applied as often as they may.
    pub fn faults(&self, partner: &PartnerId, now: Instant) -> Vec<FaultView> {
        let lab = self.partners.get(partner);
        let faults = lab.iter().flat_map(|lab| &lab.faults);
        faults
            .filter(|fault| !fault.is_over(now))
            .map(|fault| fault.view(now))
            .collect()
    }

    /// Removes one fault, or all without `only`. Returns how many were removed.
    pub fn clear_faults(&self, partner: &PartnerId, only: Option<FaultId>) -> usize {
        let Some(mut lab) = self.partners.get_mut(partner) else {
            return 0;
        };
        let before = lab.faults.len();
        lab.faults
            .retain(|fault| only.is_some_and(|id| fault.id() != id));
        before - lab.faults.len()
    }

    /// Counts a call of a lab partner against its faults, and returns the oldest one that applies.
    pub fn fault_for(
        &self,
        partner: &PartnerId,
        call: &FaultableCall<'_>,
        now: Instant,
    ) -> Option<AppliedFault> {
        let mut lab = self.partners.get_mut(partner)?;
        // Every matching fault counts the call, so that the position of a fault in the list does not
        // change which calls it affects later.
        let mut applied = None;
        for fault in &mut lab.faults {
            if fault.matches(call, now) {
                let fires = fault.count_call(applied.is_none());
                applied = applied.or(fires);
            }
        }
        applied
    }

    pub fn clock_offset(&self, partner: &PartnerId) -> i64 {
        self.partners.get(partner).map_or(0, |lab| lab.clock_offset)
    }

    pub fn set_clock_offset(&self, partner: PartnerId, seconds: i64) {
        self.partners.entry(partner).or_default().clock_offset = seconds;
    }

    pub fn scenario(&self, partner: &PartnerId) -> Option<ScenarioReport> {
        self.partners.get(partner)?.scenario.clone()
    }

    pub fn report_scenario(&self, partner: PartnerId, report: ScenarioReport) {
        self.partners.entry(partner).or_default().scenario = Some(report);
    }

    /// Removes faults, clock offset and scenario of the partner.
    pub fn reset(&self, partner: &PartnerId) {
        self.partners.remove(partner);
    }
}
