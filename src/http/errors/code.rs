//! The table of error codes: name on the wire, HTTP status, meaning for developers, and key of the viewer's
//! message.
//!
//! The doc comments of the codes are the published meanings: the API description shows them.

use http::StatusCode;

/// Status of a program without live rights on a channel that otherwise has them. Metrics count it separately,
/// because it is not a server failure.
pub const NO_LIVE_RIGHTS_STATUS: u16 = 552;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $status:expr, $text:literal;)*) => {
        /// A stable code for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[doc = $doc])* $name,)*
        }

        impl ErrorCode {
            /// Every code, in table order.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }

            /// Returns the doc comment of the code, which explains it to the developer of a partner.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),*).trim_ascii(),)*
                }
            }

            const fn status_number(self) -> u16 {
                match self {
                    $(Self::$name => $status,)*
                }
            }
        }
    };
}

codes! {
    // Invalid requests.
    /// A member, parameter or header is missing or malformed; `details.field` names it.
    InvalidRequest = 400, "INVALID_REQUEST";
    /// The password is too short.
    PasswordTooShort = 400, "PASSWORD_TOO_SHORT";
    /// The password is too long.
    PasswordTooLong = 400, "PASSWORD_TOO_LONG";
    /// The password is too common or based on the user's e-mail address or name.
    PasswordTooCommon = 400, "PASSWORD_TOO_COMMON";
    /// The reset token is unknown, used, expired or belongs to another partner.
    ResetTokenInvalid = 400, "RESET_TOKEN_INVALID";
    /// The DRM system is not available for this protocol.
    DrmProtocolMismatch = 400, "DRM_PROTOCOL_MISMATCH";
    /// The file or rule has mistakes; `details.problems` lists them.
    ImportInvalid = 400, "IMPORT_INVALID";
    /// The request body did not arrive in time.
    RequestTimeout = 408, "REQUEST_TIMEOUT";
    /// The request body is larger than the route allows.
    PayloadTooLarge = 413, "PAYLOAD_TOO_LARGE";
    /// The request target is too long.
    UriTooLong = 414, "URI_TOO_LONG";
    /// The route does not accept this content coding.
    UnsupportedCoding = 415, "UNSUPPORTED_CODING";
    /// No part of the file lies in the requested range.
    RangeNotSatisfiable = 416, "RANGE_NOT_SATISFIABLE";
    /// The `Expect` header has a value other than `100-continue`.
    ExpectationFailed = 417, "EXPECTATION_FAILED";
    /// The request has too many headers, or they are too large.
    HeadersTooLarge = 431, "HEADERS_TOO_LARGE";

    // Authentication.
    /// The partner token is missing, unknown or revoked.
    PartnerTokenInvalid = 401, "PARTNER_TOKEN_INVALID";
    /// The user token is missing, malformed, unknown, expired or revoked.
    UserTokenInvalid = 401, "USER_TOKEN_INVALID";
    /// The operator token is missing, unknown or revoked.
    OperatorTokenInvalid = 401, "OPERATOR_TOKEN_INVALID";
    /// The user is unknown or the password is wrong.
    InvalidCredentials = 401, "INVALID_CREDENTIALS";
    /// The role of the operator does not allow this.
    RoleNotAllowed = 403, "ROLE_NOT_ALLOWED";
    /// The current password, which the request must repeat, is wrong. Not 401: clients would log the viewer
    /// out.
    PasswordWrong = 403, "PASSWORD_WRONG";

    // Accounts.
    /// An account with this e-mail address already exists for this partner.
    EmailInUse = 409, "EMAIL_IN_USE";
    /// No user has this id or e-mail address.
    UserNotFound = 404, "USER_NOT_FOUND";
    /// No device with this id is registered.
    DeviceNotFound = 404, "DEVICE_NOT_FOUND";
    /// Too many attempts; retry after `details.retryAfter` seconds.
    TooManyAttempts = 429, "TOO_MANY_ATTEMPTS";
    /// Too many requests; retry after `details.retryAfter` seconds.
    RateLimited = 429, "RATE_LIMITED";

    // Catalogue and schedule.
    /// No asset has this id.
    AssetNotFound = 404, "ASSET_NOT_FOUND";
    /// The livestream does not exist; for a list, none of the requested livestreams exists.
    LivestreamNotFound = 404, "LIVESTREAM_NOT_FOUND";
    /// No broadcast has this id.
    BroadcastNotFound = 404, "BROADCAST_NOT_FOUND";
    /// No broadcast is on at the requested time.
    NoCurrentBroadcast = 404, "NO_CURRENT_BROADCAST";
    /// No offer has this id.
    OfferNotFound = 404, "OFFER_NOT_FOUND";

    // Entitlement and playback.
    /// The asset is not offered in the viewer's country.
    GeoBlocked = 403, "GEO_BLOCKED";
    /// The user has no offer that contains the asset.
    NotEntitled = 403, "NOT_ENTITLED";
    /// The asset is outside its availability window, or no right covers the position.
    NotAvailable = 403, "NOT_AVAILABLE";
    /// The program has no live rights. A running session stays open.
    NoLiveRights = 403, "NO_LIVE_RIGHTS";
    /// The program at the playback position has no live rights (heartbeat).
    NoLiveRightsNow = NO_LIVE_RIGHTS_STATUS, "NO_LIVE_RIGHTS";
    /// The asset requires the user's PIN.
    PinCodeRequired = 403, "PIN_CODE_REQUIRED";
    /// The PIN is wrong; `details.attemptsLeft` says how many attempts are left.
    PinCodeWrong = 403, "PIN_CODE_WRONG";
    /// PIN entry is locked; retry after `details.retryAfter` seconds.
    PinCodeLocked = 429, "PIN_CODE_LOCKED";
    /// The entitlement token is invalid, expired, or belongs to another user or asset.
    EntitlementInvalid = 403, "ENTITLEMENT_INVALID";
    /// The entitlement expired during playback.
    EntitlementExpired = 403, "ENTITLEMENT_EXPIRED";
    /// The user cannot register another device.
    DeviceLimitReached = 403, "DEVICE_LIMIT_REACHED";
    /// The user cannot start another stream; `details.sessions` lists the running ones.
    StreamLimitReached = 409, "STREAM_LIMIT_REACHED";
    /// The asset has no playlist for this protocol.
    ProtocolNotAvailable = 404, "PROTOCOL_NOT_AVAILABLE";
    /// The key id does not belong to the asset.
    KeyNotAllowed = 403, "KEY_NOT_ALLOWED";
    /// The DRM system differs from the one in the preflight.
    DrmMismatch = 403, "DRM_MISMATCH";
    /// No certificate is configured for the DRM system.
    CertificateNotConfigured = 404, "CERTIFICATE_NOT_CONFIGURED";
    /// The license server refused the request; `details.status` is its status. Repeating the request is useless.
    LicenseRefused = 403, "LICENSE_REFUSED";
    /// The license server failed or returned no license.
    LicenseServerFailed = 502, "LICENSE_SERVER_FAILED";
    /// The license server did not answer in time.
    LicenseServerTimeout = 504, "LICENSE_SERVER_TIMEOUT";
    /// No session has this id.
    SessionNotFound = 404, "SESSION_NOT_FOUND";
    /// The session has ended; `details.reason` says why.
    SessionEnded = 410, "SESSION_ENDED";
    /// The session belongs to another user, device or asset.
    SessionMismatch = 403, "SESSION_MISMATCH";
    /// The playlist token is invalid or has expired.
    PlaylistTokenInvalid = 403, "PLAYLIST_TOKEN_INVALID";
    /// The media origin has no such file.
    FileNotFound = 404, "FILE_NOT_FOUND";

    // Administration.
    /// No partner has this id.
    PartnerNotFound = 404, "PARTNER_NOT_FOUND";
    /// No access token has this id.
    TokenNotFound = 404, "TOKEN_NOT_FOUND";
    /// No operator has this id.
    OperatorNotFound = 404, "OPERATOR_NOT_FOUND";
    /// The user does not have this grant.
    GrantNotFound = 404, "GRANT_NOT_FOUND";
    /// No rule has this number.
    RuleNotFound = 404, "RULE_NOT_FOUND";
    /// The request journal has no request with this id.
    RequestNotFound = 404, "REQUEST_NOT_FOUND";
    /// No mail has this id.
    MailNotFound = 404, "MAIL_NOT_FOUND";
    /// Another object already has this name.
    NameInUse = 409, "NAME_IN_USE";
    /// The import looks wrong and waits for approval; `details` contains the report.
    ImportHeld = 409, "IMPORT_HELD";
    /// This version of the catalogue is not kept.
    CatalogVersionNotFound = 404, "CATALOG_VERSION_NOT_FOUND";
    /// No EPG source has this name.
    EpgSourceNotFound = 404, "EPG_SOURCE_NOT_FOUND";
    /// The EPG source could not be fetched; the message says why.
    EpgSourceFailed = 502, "EPG_SOURCE_FAILED";
    /// No backup has this name.
    BackupNotFound = 404, "BACKUP_NOT_FOUND";
    /// The backup is damaged or was written by a newer version.
    BackupUnusable = 409, "BACKUP_UNUSABLE";
    /// The backup comes from another installation; restoring it must be requested explicitly.
    BackupForeign = 409, "BACKUP_FOREIGN";
    /// The backup directory cannot be used; the message says why.
    BackupFailed = 503, "BACKUP_FAILED";
    /// The process cannot restart with another store.
    RestartNotPossible = 409, "RESTART_NOT_POSSIBLE";
    /// The fleet has no member with this name.
    MemberNotFound = 404, "MEMBER_NOT_FOUND";
    /// No other member of the fleet, or not the named one, can become the owner; the message says why.
    HandoverNotPossible = 409, "HANDOVER_NOT_POSSIBLE";
    /// The clock cannot be moved on this server.
    LabClockOff = 403, "LAB_CLOCK_OFF";
    /// Lab functions need a lab partner, outside production.
    LabNotAllowed = 403, "LAB_NOT_ALLOWED";
    /// The lab partner has no fault with this id.
    FaultNotFound = 404, "FAULT_NOT_FOUND";
    /// There is no fixture with this name.
    FixtureNotFound = 404, "FIXTURE_NOT_FOUND";

    // The service.
    /// No route matches the path.
    PathNotFound = 404, "PATH_NOT_FOUND";
    /// The path is served in another version; the message names it.
    VersionNotServed = 404, "VERSION_NOT_SERVED";
    /// The path does not support this method; `Allow` lists those that it supports.
    MethodNotAllowed = 405, "METHOD_NOT_ALLOWED";
    /// The operations listener does not serve the requested host name.
    MisdirectedRequest = 421, "MISDIRECTED_REQUEST";
    /// No route supports this method.
    MethodNotImplemented = 501, "METHOD_NOT_IMPLEMENTED";
    /// The only supported transfer coding is `chunked`.
    CodingNotImplemented = 501, "TRANSFER_CODING_NOT_IMPLEMENTED";
    /// Internal error; the log has the cause under the request id.
    Internal = 500, "INTERNAL";
    /// The service is overloaded; try again shortly.
    Overloaded = 503, "OVERLOADED";
    /// The response was not ready in time.
    DeadlineExceeded = 503, "DEADLINE_EXCEEDED";
    /// The store accepts no writes at present.
    StoreUnavailable = 503, "STORE_UNAVAILABLE";
}

impl ErrorCode {
    pub const BAD_PASSWORD: &[Self] = &[
        Self::PasswordTooShort,
        Self::PasswordTooLong,
        Self::PasswordTooCommon,
    ];

    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.status_number()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_upper_snake_and_have_statuses() {
        for code in ErrorCode::ALL {
            let text = code.as_str();
            assert!(
                text.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'),
                "{text}"
            );
            let status = code.status().as_u16();
            assert!((400..=552).contains(&status), "{text}: {status}");
        }
        assert_eq!(ErrorCode::NoLiveRightsNow.status().as_u16(), 552);
    }
}
