//! The tests: one module per kind of fault.

mod corruption;
mod crash_states;
mod disk_full;
mod eio;
mod errno;
mod journal;
mod kill_points;
mod large_store;
mod power_cut;
mod quality_figures;
mod rollback;
mod session_kills;
mod shedding_order;
mod sigkill;
mod slow_sync;
mod tail_damage;
