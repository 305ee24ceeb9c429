//! Every numeric limit, with its unit and its reason. What an operator may set stands in
//! [`Limits`]; what protects the process whatever is set is a constant.

use std::time::Duration;

use serde::Deserialize;

/// Bytes of a request's header block. Ours have at most 14 headers of application data and a
/// 400-byte token; twice what a browser adds to that.
pub const HEADER_BLOCK_MAX: usize = 16 * 1024;
/// Bytes at which the parser gives up by itself. Between the two the request is answered with a
/// body that says what was wrong; above, the parser answers with a bare 431.
pub const HEADER_BLOCK_PARSER_MAX: usize = 48 * 1024;
/// Headers of a request.
pub const HEADERS_MAX: usize = 64;
/// Bytes of a request target: 200 ids of 36 characters fit.
pub const TARGET_MAX: usize = 8 * 1024;
/// Bytes that a connection may hold of what it has read and not yet used.
pub const READ_BUFFER_MAX: usize = 64 * 1024;

/// Requests that an HTTP/2 connection may have open: a page of pictures, not a crowd.
pub const H2_STREAMS: u32 = 100;
/// Bytes of a header list over which HTTP/2 answers with a bare 431, counted as its standard does:
/// each header with 32 bytes more than it has.
pub const H2_HEADER_LIST_MAX: u32 = 16 * 1024;
/// Streams that a client may end before we got to know of them, and those that end for its mistakes.
pub const H2_RESETS: usize = 100;
/// Bytes of one request body that may be on their way over HTTP/2.
pub const H2_STREAM_WINDOW: u32 = 64 * 1024;
/// Bytes of all request bodies of a connection that may be on their way.
pub const H2_CONNECTION_WINDOW: u32 = 256 * 1024;
/// Bytes of an answer that is made as it is sent that wait for the client.
pub const H2_SEND_BUFFER: usize = 64 * 1024;
/// Frames of control that may come at once, beside those that go with requests and their answers.
pub const H2_FRAMES_BURST: u32 = 1_000;
/// Frames of control that may come a second in the long run.
pub const H2_FRAMES_A_SECOND: u32 = 100;
/// How long an HTTP/2 connection without requests has to end once it is asked to.
pub const H2_FAREWELL: Duration = Duration::from_secs(1);

/// Bytes of a body on routes that take a small JSON object, and of the ignored body of a route
/// that takes none.
pub const BODY_SMALL: usize = 16 * 1024;
/// Bytes of a license challenge.
pub const BODY_LICENSE: usize = 64 * 1024;
/// Bytes of a telemetry batch, unpacked.
pub const BODY_TELEMETRY: usize = 1024 * 1024;
/// Bytes of a catalogue file.
pub const BODY_CATALOG: usize = 32 * 1024 * 1024;
/// Bytes of a guide, as it is sent. The largest public ones are some 150 MB unpacked.
pub const BODY_GUIDE: usize = 1024 * 1024 * 1024;
/// Bytes of a backup that is sent to be brought back: far more than a store of one machine takes.
pub const BODY_BACKUP: usize = 256 * 1024 * 1024 * 1024;
/// Bytes of a file of users, as it is sent: ten million of them with hashes. It is never held whole.
pub const BODY_USERS: usize = 4 * 1024 * 1024 * 1024;
/// Bytes of one line of that file: many times what is known of a user.
pub const USER_LINE: usize = 16 * 1024;
/// How deep JSON may nest.
pub const JSON_DEPTH: usize = 32;
/// Ids of a comma-separated list.
pub const LIST_IDS: usize = 200;
/// Bytes of schedule answers that are kept for those who ask the same: some ten of the largest, a day
/// of 200 livestreams, and thousands of the usual ones.
pub const ANSWERS_BYTES: usize = 96 * 1024 * 1024;
/// Characters of a request id that a client may choose.
pub const REQUEST_ID_MAX: usize = 64;
/// Hops of forwarding headers that are looked at.
pub const FORWARDED_HOPS: usize = 32;

/// First byte and header block of a request.
pub const HEAD_TIME: Duration = Duration::from_secs(10);
/// Idle keep-alive. Players beat every 10 seconds, so the time for headers must not end it.
pub const IDLE_TIME: Duration = Duration::from_secs(75);
/// A body of which nothing arrives.
pub const BODY_STALL: Duration = Duration::from_secs(10);
/// Bytes a second below which a body counts as stalled once [`BODY_STALL`] has passed.
pub const BODY_RATE: u64 = 500;
/// A client that does not read its answer.
pub const WRITE_STALL: Duration = Duration::from_secs(30);
/// What is read though nobody wants it, of a refused body or behind the last answer, so that the client
/// gets to read that: all of a telemetry batch that is a little too long, which a proxy sends on whole
/// before it looks for an answer.
pub const DRAIN_BYTES: usize = 2 * 1024 * 1024;
/// How long it is read for.
pub const DRAIN_TIME: Duration = Duration::from_secs(1);
/// How long the accept loop rests when the process is out of descriptors.
pub const ACCEPT_REST: Duration = Duration::from_millis(50);
/// How long running requests may take once the server is asked to stop.
pub const SHUTDOWN_TIME: Duration = Duration::from_secs(10);

/// A request that memory answers.
pub const DEADLINE_MEMORY: Duration = Duration::from_secs(5);
/// A request that waits for a password hash.
pub const DEADLINE_HASHING: Duration = Duration::from_secs(15);
/// A request that waits for the store.
pub const DEADLINE_STORE: Duration = Duration::from_secs(15);
/// A request that waits for another server.
pub const DEADLINE_UPSTREAM: Duration = Duration::from_secs(30);
/// An import, a verification.
pub const DEADLINE_BULK: Duration = Duration::from_secs(30 * 60);

/// Seconds after which a client that met a full lane may try again.
pub const RETRY_OVERLOAD: u32 = 2;

/// Bytes of log a second that are written in the long run; a gigabyte an hour is not a log.
pub const LOG_RATE: u64 = 256 * 1024;
/// Bytes of log that may be written at once.
pub const LOG_BURST: u64 = 4 * 1024 * 1024;
/// Bytes of one log line.
pub const LOG_LINE: usize = 8 * 1024;

/// The limits that are settings, section `limits` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Open connections in all.
    pub connections: u32,
    /// Open connections per address (IPv6: per /64); trusted proxies are exempt.
    pub connections_per_address: u32,
    /// Wrong passwords per account in [`Limits::login_window_minutes`].
    pub login_wrong_per_account: u32,
    /// Wrong passwords per address in the same time.
    pub login_wrong_per_address: u32,
    /// Minutes that a wrong password counts.
    pub login_window_minutes: u32,
    /// Sign-ups per address in ten minutes.
    pub sign_up_per_address: u32,
    /// Reset mails an hour per account; more are silently not sent.
    pub reset_mails_per_account: u32,
    /// Reset mails an hour per address.
    pub reset_mails_per_address: u32,
    /// Reset completions per address in 15 minutes.
    pub resets_per_address: u32,
    /// Wrong PINs in 15 minutes, after which PIN entry is locked for as long.
    pub pin_wrong: u32,
    /// Heartbeats a second per playback session.
    pub heartbeats_per_second: u32,
    /// Heartbeats that may come at once.
    pub heartbeat_burst: u32,
    /// Requests a second per partner; 0 is none, the default.
    pub partner_requests_per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_address: 256,
            login_wrong_per_account: 10,
            login_wrong_per_address: 50,
            login_window_minutes: 15,
            sign_up_per_address: 100,
            reset_mails_per_account: 3,
            reset_mails_per_address: 60,
            resets_per_address: 60,
            pin_wrong: 5,
            heartbeats_per_second: 2,
            heartbeat_burst: 10,
            partner_requests_per_second: 0,
        }
    }
}
