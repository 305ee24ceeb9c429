//! One connection: HTTP/1 and HTTP/2 loops, their time-outs, and the limits on frames and streams.

pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod h2_frame_limit;
pub(crate) mod h2_streams;
pub(crate) mod io_observer;
pub(crate) mod shutdown;
