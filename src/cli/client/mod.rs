//! Clients of the operators' interface, of etcd and of the other members of a fleet, and what commands send: files, secrets and
//! times.

mod admin;
pub(crate) mod admin_socket;
mod connect;
mod error;
pub(crate) mod fetch_url;
pub(crate) mod fleet;
pub(crate) mod key_files;
pub(crate) mod known_names;
mod lenient_stream;
pub(crate) mod missing_media;
mod open;
pub(crate) mod read_secret;
pub(crate) mod request_body;
pub(crate) mod time_arg;

pub(crate) use admin::{Admin, path, with_query};
pub(crate) use connect::open_for_command;
pub(crate) use error::AdminError;
