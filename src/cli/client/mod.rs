//! What commands and servers ask: the operators' interface, and the other members of a fleet.

mod admin;
pub(crate) mod admin_socket;
mod connect;
mod error;
pub(crate) mod fetch_url;
pub(crate) mod fleet;
pub(crate) mod key_files;
mod lenient_stream;
pub(crate) mod missing_media;
mod open;
pub(crate) mod read_secret;
pub(crate) mod request_body;
pub(crate) mod time_arg;

pub(crate) use admin::{Admin, path, with_query};
pub(crate) use error::AdminError;
