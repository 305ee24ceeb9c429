//! The server as a member of a fleet.

mod early_listeners;
mod figures;
mod fleet_member;
mod handover;
mod link;
mod local_state;
mod owner_report;

pub(super) use fleet_member::{FleetMember, StandbyEnd};
