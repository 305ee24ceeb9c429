//! What is known of the routes apart from their handlers. The table of routes gives it to those that handlers use.

/// The two interfaces: each has its own listeners and its own table of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteSet {
    /// Of partners: their clients and players.
    Public,
    /// Of operators.
    Ops,
}

/// HTTP method of a route. Every GET route also answers HEAD, and every path answers OPTIONS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteMethod {
    Get,
    Post,
    Put,
    Delete,
}

impl RouteMethod {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// The token that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredToken {
    None,
    Partner,
    /// That of a user, beside the one of the partner.
    User,
    Operator,
}

/// See the fields of [`Route`](crate::routing::route::Route).
#[derive(Clone, Copy, Debug)]
pub struct RouteFacts {
    pub method: RouteMethod,
    pub pattern: &'static str,
    pub label: &'static str,
    pub operation_id: &'static str,
    pub token: RequiredToken,
}

/// The routes of each interface, in the order of its table.
#[derive(Clone, Debug, Default)]
pub struct AllRouteFacts {
    pub public: Vec<RouteFacts>,
    pub ops: Vec<RouteFacts>,
}
