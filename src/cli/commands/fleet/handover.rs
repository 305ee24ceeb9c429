//! `playgate fleet handover`: asks the owner to let another member take over.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use super::Fleet;
use crate::client::Admin;
use crate::output::{self, CommandResult, Failure};

const CHECK_EVERY: Duration = Duration::from_millis(250);
/// Time for the next owner to serve.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);

impl Fleet {
    pub(super) fn handover(&self, to: Option<&str>, json: bool) -> CommandResult {
        let membership = self.membership()?;
        let mut log = self.log(membership.fleet)?;
        let body = to.map_or_else(|| json!({}), |to| json!({ "to": to }));
        let handed = self.runtime.block_on(async {
            let mut admin = Admin::running(&self.loaded).await?.ok_or_else(|| {
                Failure::failed("no service runs on this member")
                    .hint("run the command on a member whose service runs")
            })?;
            let path = "/admin/v1/fleet/handover";
            let handed = admin.ask(Method::POST, path, Some(&body)).await?;
            handed.map_err(Failure::from)
        })?;
        let (from, to) = (output::text(&handed, "from"), output::text(&handed, "to"));
        let until = Instant::now() + TAKEN_WITHIN;
        while Instant::now() < until {
            // Who is the owner only then, whoever it is.
            let owner = log.owner_record()?.map(|owner| owner.name);
            if let Some(owner) = owner.filter(|owner| *owner != from) {
                let report = json!({"result": "handed over", "from": from, "to": owner});
                return output::result(
                    &format!("{from} has handed over to {owner}"),
                    &report,
                    json,
                );
            }
            std::thread::park_timeout(CHECK_EVERY);
        }
        Err(
            Failure::failed(format!("{to} has not taken over from {from} in time"))
                .hint("run `playgate fleet status`"),
        )
    }
}
