//! What a message to a license server is made from: whose license is wanted, and the settings of the vendor.

use playgate_types::{AssetId, SessionId, UnixSeconds, UserId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LicenseSubject {
    pub user: UserId,
    pub session: SessionId,
    pub asset: AssetId,
    pub kids: Vec<[u8; 16]>,
    pub now: UnixSeconds,
}

#[derive(Clone, Default)]
pub struct MessageSettings {
    /// The custom data header; it replaces the header name that a vendor's format has by default.
    pub header: Option<String>,
    pub merchant: Option<String>,
    pub key_id: Option<String>,
    pub key: Option<String>,
    pub access_key: Option<String>,
}
