//! The kernel of the HTTP server: from a socket to a handler and back. It knows no route and no resource.
//!
//! A request arrives at a listener ([`server`]) and a [`connection`]. The [`pipeline`] shows its way on one page: the
//! head is read and validated ([`request`]), the route found ([`routing`]), access checked ([`access`]), the body read,
//! the request parsed into a value of its type and handled, and the [`response`] built. The table of routes, which names
//! parsers and handlers, comes from above. At a [`standby`] of a fleet some requests go to the owner instead. No product
//! rule belongs here, and nothing here names the store.
//!
//! The floors, each of which imports only those below it:
//!
//! ```text
//! server
//! connection
//! standby
//! pipeline
//! routing                        what a route is, typed requests, the router
//! state, faults, metrics         what requests share
//! response, access
//! request
//! errors, route_facts
//! ```

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod access;
pub(crate) mod connection;
pub(crate) mod connection_state;
pub mod errors;
pub(crate) mod faults;
pub mod freshness;
pub mod metrics;
pub mod offload;
pub mod pipeline;
pub mod request;
pub mod response;
pub mod route_facts;
pub mod routing;
pub mod server;
pub(crate) mod standby;
pub mod standby_fleet;
pub mod state;

pub use access::auth::{
    Anyone, Authenticator, OperatorAuth, OperatorIdentity, PartnerAuth, PartnerIdentity, RateClass,
    UserAuth, UserIdentity,
};
pub use errors::api_error::{ApiError, CombineResults, ErrorCode};
pub use request::body::BodyStream;
pub use request::context::Context;
pub use request::headers::HeaderNames;
pub use request::object::Object;
pub use request::payload::{BodyRule, Payload};
pub use request::query::{IdList, Query};
pub use response::descriptions::About;
pub use response::localized_messages::Messages;
pub use response::prepared::{CompressibleBody, Kept, Prepared};
pub use response::reply::Reply;
pub use route_facts::{RouteFacts, RouteSet};
pub use routing::endpoint::{Input, ParseRequest};
pub use routing::resolve::{PartnerIdOrName, UserIdOrEmail};
pub use routing::route::{Endpoint, Route};
pub use routing::router::{RouteMatch, Router};
pub use server::listener::{Listener, RunningServer};
pub use state::HttpState;
