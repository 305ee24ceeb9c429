//! The rules of the service, apart from transport and storage.

pub mod playback;
