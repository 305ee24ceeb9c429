//! Whether the configuration allows the lab partners of the store.

use crate::output::{CommandResult, Failure};
use playgate_config::Config;
use playgate_domain::partners::Partners;
use playgate_types::PartnerKind;

/// Refuses to serve viewers where a lab partner can make requests fail.
pub(crate) fn check_lab_partners(config: &Config, partners: &Partners) -> CommandResult {
    let partners = partners.list();
    let lab = partners
        .iter()
        .find(|partner| partner.kind == PartnerKind::Lab);
    match lab {
        Some(partner) if !config.allows_lab() => Err(Failure::usage(format!(
            "partner {0} is a lab partner, which production does not allow; run \
             `playgate partner remove '{0}'`, set `environment` to staging, or set `lab.allow_in_production`",
            partner.name
        ))),
        Some(_) | None => Ok(()),
    }
}
