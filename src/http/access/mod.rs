//! Access to the interface: the checks of tokens and the proofs that they give, and the local administrator.

pub mod auth;
pub mod local_admin;
