//! The fleet of a member, as a standby needs it.

use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;

use playgate_types::{ConnectionOrigin, SessionId};

pub trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ClientStream for S {}

/// How long a connection, or a request that was not sent yet or may be sent again, waits for an owner. A takeover is expected
/// to be shorter.
pub const OWNER_WAIT_MAX: Duration = Duration::from_secs(10);

/// A connection to the owner of the fleet.
pub struct OwnerStream {
    pub stream: Box<dyn ClientStream>,
    /// The owner expects HTTP/2.
    pub is_multiplexed: bool,
    /// Counts the connection until it ends.
    pub permit: OwnedSemaphorePermit,
    /// Completes when another member has become the owner.
    pub moved: FleetFuture<'static, ()>,
}

/// Why there is no connection to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOwner {
    Absent,
    /// This member or the owner has as many connections as it may have.
    Busy,
}

pub type FleetFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The fleet of this member.
pub trait StandbyFleet: Send + Sync {
    /// Whether this member is not the owner.
    fn is_standby(&self) -> bool;

    /// Waits until the store has every change that was acknowledged before this call. Returns false if that is not known
    /// in time.
    fn catch_up(&self) -> FleetFuture<'_, bool>;

    /// Whether the store was up to date a few seconds ago, and the owner gets the heartbeats that are answered here.
    fn is_following(&self) -> bool;

    /// This member has answered a heartbeat of the session, and the owner has to know.
    fn relay_beat(&self, session: SessionId);

    /// Counts a request of a client.
    fn count(&self, place: AnsweredBy);

    /// Connects to the owner, and waits for one if there is none.
    fn connect(&self, origin: ConnectionOrigin) -> FleetFuture<'_, Result<OwnerStream, NoOwner>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    This,
    Owner,
}
