//! The commands that need no server of their own: one file or folder for each noun. They parse arguments, ask the operators'
//! interface and print answers.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod catalog;
pub(crate) mod clock;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod epg;
mod epg_report;
mod explain_output;
pub(crate) mod fleet;
pub(crate) mod healthcheck;
pub(crate) mod lab;
pub(crate) mod mail;
pub(crate) mod man;
pub(crate) mod operator;
pub(crate) mod partner;
pub(crate) mod requests;
pub(crate) mod rights;
pub(crate) mod store;
pub(crate) mod telemetry;
mod tokens;
pub(crate) mod upgrade;
pub(crate) mod user;
