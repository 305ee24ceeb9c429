//! The one table of error codes: the word on the wire, the status, the key of the message for
//! viewers.

use http::StatusCode;

/// The status of a program without live rights on a channel that otherwise has them (interface,
/// part 4.7). It is no failure of ours and is counted apart.
pub const NO_LIVE_RIGHTS_STATUS: u16 = 552;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $status:expr, $text:literal;)*) => {
        /// A stable word for the partner's program.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[doc = $doc])* $name,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// What it means, for the partner's developer: the words beside it in the table.
            #[must_use]
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
    // Asked wrongly.
    /// A member, parameter or header is missing or malformed; `details.field` names it.
    InvalidRequest = 400, "INVALID_REQUEST";
    /// The password has too few characters.
    PasswordTooShort = 400, "PASSWORD_TOO_SHORT";
    /// The password has too many characters.
    PasswordTooLong = 400, "PASSWORD_TOO_LONG";
    /// The password is one of those that are tried first, or the e-mail address itself.
    PasswordTooCommon = 400, "PASSWORD_TOO_COMMON";
    /// The reset token is unknown, used, expired or of another partner.
    ResetTokenInvalid = 400, "RESET_TOKEN_INVALID";
    /// The DRM system is not offered with the protocol.
    DrmProtocolMismatch = 400, "DRM_PROTOCOL_MISMATCH";
    /// A file or a rule has mistakes; `details.problems` lists them.
    ImportInvalid = 400, "IMPORT_INVALID";
    /// The body did not arrive in time.
    RequestTimeout = 408, "REQUEST_TIMEOUT";
    /// The body is larger than the route takes.
    PayloadTooLarge = 413, "PAYLOAD_TOO_LARGE";
    /// The request target is too long.
    UriTooLong = 414, "URI_TOO_LONG";
    /// The body has a content coding that the route does not take.
    UnsupportedCoding = 415, "UNSUPPORTED_CODING";
    /// No part of the file lies in the asked range.
    RangeNotSatisfiable = 416, "RANGE_NOT_SATISFIABLE";
    /// An `Expect` other than `100-continue`.
    ExpectationFailed = 417, "EXPECTATION_FAILED";
    /// Too many headers, or too many bytes of them.
    HeadersTooLarge = 431, "HEADERS_TOO_LARGE";

    // Who asks.
    /// The partner token is missing, unknown or revoked.
    PartnerTokenInvalid = 401, "PARTNER_TOKEN_INVALID";
    /// The user token is missing, malformed, unknown, expired or revoked.
    UserTokenInvalid = 401, "USER_TOKEN_INVALID";
    /// The operator token is missing, unknown or revoked.
    OperatorTokenInvalid = 401, "OPERATOR_TOKEN_INVALID";
    /// The user is unknown or the password wrong.
    InvalidCredentials = 401, "INVALID_CREDENTIALS";
    /// The operator's role does not reach so far.
    RoleNotAllowed = 403, "ROLE_NOT_ALLOWED";
    /// The present password, asked for again, is wrong. Not 401: clients would log the viewer out.
    PasswordWrong = 403, "PASSWORD_WRONG";

    // Accounts.
    /// The e-mail address has an account with this partner.
    EmailInUse = 409, "EMAIL_IN_USE";
    /// A user of that id or address is not known.
    UserNotFound = 404, "USER_NOT_FOUND";
    /// A device of that id is not registered.
    DeviceNotFound = 404, "DEVICE_NOT_FOUND";
    /// Too many attempts; `details.retryAfter` tells when to try again.
    TooManyAttempts = 429, "TOO_MANY_ATTEMPTS";
    /// Too many requests.
    RateLimited = 429, "RATE_LIMITED";

    // The catalogue and the schedule.
    /// The asset is not known.
    AssetNotFound = 404, "ASSET_NOT_FOUND";
    /// The livestream is not known, or none of those asked for is.
    LivestreamNotFound = 404, "LIVESTREAM_NOT_FOUND";
    /// The broadcast is not known.
    BroadcastNotFound = 404, "BROADCAST_NOT_FOUND";
    /// Nothing is on at the asked point.
    NoCurrentBroadcast = 404, "NO_CURRENT_BROADCAST";
    /// The offer is not known.
    OfferNotFound = 404, "OFFER_NOT_FOUND";

    // Entitlement and playback.
    /// Not from this country.
    GeoBlocked = 403, "GEO_BLOCKED";
    /// No offer of the user holds the asset.
    NotEntitled = 403, "NOT_ENTITLED";
    /// Outside the asset's window.
    NotAvailable = 403, "NOT_AVAILABLE";
    /// The program has no live rights: asked for entitlement or a license.
    NoLiveRights = 403, "NO_LIVE_RIGHTS";
    /// The program at the playing position has no live rights: the heartbeat's answer.
    NoLiveRightsNow = NO_LIVE_RIGHTS_STATUS, "NO_LIVE_RIGHTS";
    /// Ask the viewer for the PIN.
    PinCodeRequired = 403, "PIN_CODE_REQUIRED";
    /// The PIN is wrong; `details.attemptsLeft` counts down.
    PinCodeWrong = 403, "PIN_CODE_WRONG";
    /// PIN entry is locked; `details.retryAfter` tells for how long.
    PinCodeLocked = 429, "PIN_CODE_LOCKED";
    /// The entitlement token is bad, expired, or another's.
    EntitlementInvalid = 403, "ENTITLEMENT_INVALID";
    /// The entitlement has expired while playing.
    EntitlementExpired = 403, "ENTITLEMENT_EXPIRED";
    /// No further device may be registered.
    DeviceLimitReached = 403, "DEVICE_LIMIT_REACHED";
    /// No further stream may run; `details.sessions` lists those in the way.
    StreamLimitReached = 409, "STREAM_LIMIT_REACHED";
    /// The asset has no address for the protocol.
    ProtocolNotAvailable = 404, "PROTOCOL_NOT_AVAILABLE";
    /// A key id that is not the asset's.
    KeyNotAllowed = 403, "KEY_NOT_ALLOWED";
    /// Not the DRM system of the preflight.
    DrmMismatch = 403, "DRM_MISMATCH";
    /// No certificate is configured for the DRM system.
    CertificateNotConfigured = 404, "CERTIFICATE_NOT_CONFIGURED";
    /// The license server failed or gave no license.
    LicenseServerFailed = 502, "LICENSE_SERVER_FAILED";
    /// The license server did not answer in time.
    LicenseServerTimeout = 504, "LICENSE_SERVER_TIMEOUT";
    /// The session is not known.
    SessionNotFound = 404, "SESSION_NOT_FOUND";
    /// The session was stopped, displaced or revoked, or has expired; the message says which.
    SessionEnded = 410, "SESSION_ENDED";
    /// The session is another user's, device's or asset's.
    SessionMismatch = 403, "SESSION_MISMATCH";
    /// The signed address of a playlist is bad or has expired.
    PlaylistTokenInvalid = 403, "PLAYLIST_TOKEN_INVALID";
    /// The origin has no such file.
    FileNotFound = 404, "FILE_NOT_FOUND";

    // Administration.
    /// The partner is not known.
    PartnerNotFound = 404, "PARTNER_NOT_FOUND";
    /// The access token is not known.
    TokenNotFound = 404, "TOKEN_NOT_FOUND";
    /// The operator is not known.
    OperatorNotFound = 404, "OPERATOR_NOT_FOUND";
    /// The user has no such grant.
    GrantNotFound = 404, "GRANT_NOT_FOUND";
    /// No rule has this number.
    RuleNotFound = 404, "RULE_NOT_FOUND";
    /// The message is not known.
    MailNotFound = 404, "MAIL_NOT_FOUND";
    /// The name is taken.
    NameInUse = 409, "NAME_IN_USE";
    /// The import differs suspiciously and waits for approval; `details` has the report.
    ImportHeld = 409, "IMPORT_HELD";
    /// No such version of the catalogue is kept.
    CatalogVersionNotFound = 404, "CATALOG_VERSION_NOT_FOUND";
    /// No source of guides has that name.
    GuideSourceNotFound = 404, "GUIDE_SOURCE_NOT_FOUND";
    /// The source of guides could not be fetched; the message says why.
    GuideSourceFailed = 502, "GUIDE_SOURCE_FAILED";
    /// The backup is not known.
    BackupNotFound = 404, "BACKUP_NOT_FOUND";
    /// The backup is damaged, or of a newer version.
    BackupUnusable = 409, "BACKUP_UNUSABLE";
    /// The backup was made by another machine's store, and that was not asked for.
    BackupForeign = 409, "BACKUP_FOREIGN";
    /// The directory of backups cannot be used; the message says why.
    BackupFailed = 503, "BACKUP_FAILED";
    /// The process cannot begin again with another store.
    RestartNotPossible = 409, "RESTART_NOT_POSSIBLE";
    /// The clock may not be moved here.
    LabClockOff = 403, "LAB_CLOCK_OFF";

    // The service itself.
    /// No such path.
    PathNotFound = 404, "PATH_NOT_FOUND";
    /// The interface is served in another version; the message names it.
    VersionNotServed = 404, "VERSION_NOT_SERVED";
    /// The path has other methods; `Allow` lists them.
    MethodNotAllowed = 405, "METHOD_NOT_ALLOWED";
    /// The operations listener does not answer for the host that the request names.
    MisdirectedRequest = 421, "MISDIRECTED_REQUEST";
    /// A method that no path has.
    MethodNotImplemented = 501, "METHOD_NOT_IMPLEMENTED";
    /// A transfer coding other than `chunked`.
    CodingNotImplemented = 501, "TRANSFER_CODING_NOT_IMPLEMENTED";
    /// A defect of ours; the log has the request id.
    Internal = 500, "INTERNAL";
    /// A lane is full.
    Overloaded = 503, "OVERLOADED";
    /// The answer was not ready in time.
    DeadlineExceeded = 503, "DEADLINE_EXCEEDED";
    /// The store takes no writes at present.
    StoreUnavailable = 503, "STORE_UNAVAILABLE";
}

impl ErrorCode {
    /// What is wrong with a new password.
    pub const BAD_PASSWORD: &[Self] = &[
        Self::PasswordTooShort,
        Self::PasswordTooLong,
        Self::PasswordTooCommon,
    ];

    /// The status that goes with the code.
    #[must_use]
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
