//! All numeric limits, with unit and reason. [`LimitsConfig`] holds those that operators can set; the constants
//! protect the process in any configuration.

use std::time::Duration;

pub use super::keys::LimitsConfig;

/// Bytes of a request's header block: twice a browser's own headers plus our at most 14 headers with a
/// 400-byte token.
pub const HEADER_BLOCK_MAX: usize = 16 * 1024;
/// Bytes at which the HTTP parser itself rejects a request, with a bare 431. Between the two limits the error response
/// explains the reason.
pub const HEADER_BLOCK_PARSER_MAX: usize = 48 * 1024;
pub const HEADERS_MAX: usize = 64;
/// Bytes of a request target: 200 ids of 36 characters fit.
pub const TARGET_MAX: usize = 8 * 1024;
/// Unprocessed bytes that a connection may buffer.
pub const READ_BUFFER_MAX: usize = 64 * 1024;

/// Concurrent requests on an HTTP/2 connection: enough for a page of pictures.
pub const H2_STREAMS: u32 = 100;
/// Bytes of an HTTP/2 header list above which the response is a bare 431. HTTP/2 counts 32 extra bytes per
/// header.
pub const H2_HEADER_LIST_MAX: u32 = 16 * 1024;
/// Streams reset by the client before the server has seen them, and streams reset for client errors.
pub const H2_RESETS: usize = 100;
/// Flow control window of one request body, in bytes.
pub const H2_STREAM_WINDOW: u32 = 64 * 1024;
/// Flow control window of all request bodies of a connection, in bytes.
pub const H2_CONNECTION_WINDOW: u32 = 256 * 1024;
/// Bytes of a streamed response that are buffered for the client.
pub const H2_SEND_BUFFER: usize = 64 * 1024;
/// Burst of control frames, not counting those that belong to requests and responses.
pub const H2_FRAMES_BURST: u32 = 1_000;
/// Control frames per second, on average.
pub const H2_FRAMES_A_SECOND: u32 = 100;
/// Time for an HTTP/2 connection without requests to close after GOAWAY.
pub const H2_GOAWAY_TIME: Duration = Duration::from_secs(1);

/// Bytes of a body on routes that take a small JSON object, and of an ignored body.
pub const BODY_SMALL: usize = 16 * 1024;
/// Bytes of a license challenge.
pub const BODY_LICENSE: usize = 64 * 1024;
/// Bytes of a telemetry batch, uncompressed.
pub const BODY_TELEMETRY: usize = 1024 * 1024;
/// Bytes of a guide as sent. The largest public guides have about 150 MB uncompressed.
pub const BODY_GUIDE: usize = 1024 * 1024 * 1024;
/// Bytes of an uploaded backup: far more than the store of one machine has.
pub const BODY_BACKUP: usize = 256 * 1024 * 1024 * 1024;
/// Bytes of a user import: ten million users with hashes. The file is streamed.
pub const BODY_USERS: usize = 4 * 1024 * 1024 * 1024;
/// Bytes of one line of a user import: many times a user's record.
pub const USER_LINE: usize = 16 * 1024;
pub const LIST_IDS: usize = 200;
/// Bytes of cached schedule responses: about ten of the largest (a day of 200 livestreams), or thousands of
/// usual ones.
pub const RESPONSE_CACHE_BYTES: usize = 96 * 1024 * 1024;
/// Characters of a request id sent by a client.
pub const REQUEST_ID_MAX: usize = 64;
pub const FORWARDED_HOPS: usize = 32;

/// Time for the first byte and the header block of a request.
pub const HEAD_TIME: Duration = Duration::from_secs(10);
/// Idle time of a keep-alive connection. Players send a heartbeat every 10 seconds, so the header time-out
/// must not apply.
pub const IDLE_TIME: Duration = Duration::from_secs(75);
/// Time without progress after which a request body has stalled.
pub const BODY_STALL: Duration = Duration::from_secs(10);
/// Bytes per second below which a body counts as stalled after [`BODY_STALL`].
pub const BODY_RATE: u64 = 500;
/// Time without progress after which a client has stopped reading the response.
pub const WRITE_STALL: Duration = Duration::from_secs(30);
/// Bytes of a rejected body, or after the last response, that are read and discarded so that the client
/// gets the response. Covers a telemetry batch slightly over the limit, which a proxy sends in full before
/// it reads a response.
pub const DRAIN_BYTES: usize = 2 * 1024 * 1024;
/// Time limit of that reading.
pub const DRAIN_TIME: Duration = Duration::from_secs(1);
/// Pause of the accept loop when the process has no free descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time for running requests to finish at shutdown.
pub const SHUTDOWN_TIME: Duration = Duration::from_secs(10);

pub const DEADLINE_MEMORY: Duration = Duration::from_secs(5);
pub const DEADLINE_HASHING: Duration = Duration::from_secs(15);
pub const DEADLINE_STORE: Duration = Duration::from_secs(15);
pub const DEADLINE_UPSTREAM: Duration = Duration::from_secs(30);
pub const DEADLINE_BULK: Duration = Duration::from_secs(30 * 60);

/// Retry-After, in seconds, when a worker pool is full.
pub const RETRY_OVERLOAD: u32 = 2;

/// Average bytes of log per second, about a gigabyte per hour.
pub const LOG_RATE: u64 = 256 * 1024;
/// Burst of log output, in bytes.
pub const LOG_BURST: u64 = 4 * 1024 * 1024;
/// Bytes of one log line.
pub const LOG_LINE: usize = 8 * 1024;
