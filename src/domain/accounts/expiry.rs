//! Removal of expired records; run by a background job.

use super::tables::{Logins, LoginsByExpiry, ResetTokens, ResetsByExpiry, Throttles};
use super::{Accounts, Swept};
use crate::batches::in_batches;
use playgate_store::{Durability, StoreError, Txn};
use playgate_types::UnixSeconds;

const BATCH: usize = 500;

impl Accounts {
    /// Removes expired logins and reset tokens, and idle counters.
    pub fn sweep(&self, now: UnixSeconds) -> Result<Swept, StoreError> {
        // All of these are rejected already, so a failed sweep only costs space.
        let at = self.0.expiry.at(now);
        Ok(Swept {
            logins: self.run_batches(move |txn| {
                // The end of the range is exclusive, and a login that expires at `at` is dead.
                let due =
                    txn.range_index::<LoginsByExpiry>(&UnixSeconds(i64::MIN), &(at + 1), BATCH)?;
                for (_, token) in &due {
                    txn.delete::<Logins>(token)?;
                }
                Ok(due.len())
            })?,
            resets: self.run_batches(move |txn| {
                let due =
                    txn.range_index::<ResetsByExpiry>(&UnixSeconds(i64::MIN), &(at + 1), BATCH)?;
                for (_, token) in &due {
                    txn.delete::<ResetTokens>(token)?;
                }
                Ok(due.len())
            })?,
            throttles: self.sweep_throttles(now)?,
        })
    }

    fn sweep_throttles(&self, now: UnixSeconds) -> Result<usize, StoreError> {
        let limits = &self.0.settings.limits;
        let mut idle = Vec::new();
        // Scanned in memory: the writer thread sees only counters that are idle.
        self.0.throttles.for_each(|key, counter| {
            if limits
                .rule_of(key)
                .is_none_or(|rule| counter.is_idle(rule, now))
            {
                idle.push(*key);
            }
        });
        for keys in idle.chunks(BATCH) {
            let (this, keys) = (self.clone(), keys.to_vec());
            let batch_fn = move |txn: &mut Txn<'_>| -> Result<(), StoreError> {
                for key in &keys {
                    // An attempt may have been counted since the scan.
                    let counter = txn.get::<Throttles>(key)?.unwrap_or_default();
                    let rule = this.0.settings.limits.rule_of(key);
                    if rule.is_none_or(|rule| counter.is_idle(rule, now)) {
                        txn.delete::<Throttles>(key)?;
                    }
                }
                Ok(())
            };
            self.0.store.write(Durability::Logged, batch_fn).wait()?;
        }
        Ok(idle.len())
    }

    fn run_batches(
        &self,
        batch_fn: impl Fn(&mut Txn<'_>) -> Result<usize, StoreError> + Copy + Send + 'static,
    ) -> Result<usize, StoreError> {
        in_batches(BATCH, || {
            self.0.store.write(Durability::Logged, batch_fn).wait()
        })
    }
}
