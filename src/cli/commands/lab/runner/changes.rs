//! The changes that a scenario makes, and their undo.

use http::Method;
use serde_json::{Value, json};

use super::ScenarioRunner;
use crate::client::{path, with_query};
use crate::commands::lab::scenario::StepAction;
use crate::output::members::all;
use crate::output::{CommandResult, Failure};

impl ScenarioRunner<'_> {
    pub(super) async fn change(&mut self, action: &StepAction) -> CommandResult {
        match action {
            StepAction::Fault(fault) => {
                // If the run is interrupted before the response, `undo` finds the new fault by comparison.
                self.before_fault = Some(self.fault_ids().await?);
                let faults = path(&["partners", &self.partner, "faults"]);
                let added = self.admin.post(&faults, Some(fault)).await?;
                let id = added.get("faultId").and_then(Value::as_str);
                self.faults.extend(id.map(str::to_owned));
                self.before_fault = None;
            }
            StepAction::Clock(clock) => {
                // Before the call, which an interruption may end after the server has acted.
                let before = std::mem::replace(&mut self.moved_clock, true);
                let target = path(&["clock"]);
                let changed = self.admin.ask(Method::PUT, &target, Some(clock)).await?;
                if changed.is_err() {
                    self.moved_clock = before;
                }
                changed?;
            }
            StepAction::Grant(offer) => {
                let grant = self.user_path(&["grants", offer]);
                self.admin.put(&grant, &json!({})).await?;
            }
            StepAction::Revoke(offer) => {
                let grant = self.user_path(&["grants", offer]);
                self.admin.delete(&grant).await?;
            }
            StepAction::Disable(disable) => self.disable(*disable).await?,
            StepAction::EndSessions => self.end_sessions().await?,
        }
        Ok(())
    }

    async fn disable(&mut self, disable: bool) -> CommandResult {
        let user = self.user_path(&[]);
        let body = json!({"disabled": disable});
        // Before the call, as with the clock.
        let before = std::mem::replace(&mut self.disabled, true);
        let changed = self.admin.ask(Method::PUT, &user, Some(&body)).await?;
        self.disabled = match changed {
            Ok(_) => disable,
            Err(_) => before,
        };
        changed?;
        Ok(())
    }

    async fn end_sessions(&mut self) -> CommandResult {
        let user = self.admin.get(&self.user_path(&[])).await?;
        let sessions = self.admin.get(&path(&["sessions"])).await?;
        let all_sessions = all(&sessions).iter();
        // Only the sessions of this user: other tests may run on the same server at the same time.
        let of_user = all_sessions.filter(|session| session.get("userId") == user.get("userId"));
        for id in of_user.filter_map(|session| session["sessionId"].as_str()) {
            self.admin.delete(&path(&["sessions", id])).await?;
        }
        Ok(())
    }

    /// Removes the faults and the offset of the clock, and enables the account again. Grants stay as the scenario left
    /// them. An error does not keep the other changes from being undone.
    pub(super) async fn undo(&mut self) -> CommandResult {
        let undone = [
            self.remove_faults().await,
            self.reset_clock().await,
            match self.disabled {
                true => self.disable(false).await,
                false => Ok(()),
            },
        ];
        let failures = undone.into_iter().filter_map(Result::err);
        let failures: Vec<String> = failures.map(|failure| failure.to_string()).collect();
        if failures.is_empty() {
            return Ok(());
        }
        let failures = failures.join("; ");
        Err(Failure::failed(format!(
            "failed to undo changes of the run: {failures}"
        )))
    }

    async fn remove_faults(&mut self) -> CommandResult {
        if let Some(before) = &self.before_fault {
            let before = before.clone();
            let found = self.fault_ids().await?.into_iter();
            self.faults.extend(found.filter(|id| !before.contains(id)));
            self.before_fault = None;
        }
        while let Some(fault) = self.faults.last() {
            let fault = path(&["partners", &self.partner, "faults", fault]);
            // A fault may have expired.
            let _ = self.admin.ask(Method::DELETE, &fault, None).await?;
            self.faults.pop();
        }
        Ok(())
    }

    async fn reset_clock(&mut self) -> CommandResult {
        if self.moved_clock {
            let clock = path(&["clock"]);
            self.admin.delete(&clock).await?;
            self.moved_clock = false;
        }
        Ok(())
    }

    async fn fault_ids(&mut self) -> Result<Vec<String>, Failure> {
        let faults = path(&["partners", &self.partner, "faults"]);
        let faults = self.admin.get(&faults).await?;
        let ids = all(&faults).iter();
        let ids = ids.filter_map(|fault| fault.get("faultId")?.as_str());
        Ok(ids.map(str::to_owned).collect())
    }

    fn user_path(&self, below: &[&str]) -> String {
        let mut segments = vec!["users", &*self.user];
        segments.extend(below);
        with_query(path(&segments), &[("partner", Some(&*self.partner))])
    }
}
