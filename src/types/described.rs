//! The JSON type of a body, from which its part of the description of the interfaces is made.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use crate::{
    AssetId, BirthDate, BroadcastId, Drm, LivestreamId, Locale, LoginId, MailId, OfferId,
    OperatorId, PartnerId, Protocol, Role, SessionId, UnixSeconds, UserId,
};

/// A type that is written as JSON. `derive(Described)` implements it for a struct.
pub trait Described {
    const TYPE: JsonType;
}

#[derive(Clone, Copy, Debug)]
pub enum JsonType {
    Any,
    Boolean,
    Integer,
    Number,
    Text,
    /// An object of any members.
    AnyObject,
    OneOf(&'static [&'static str]),
    /// A schema in `data/openapi`.
    Named(&'static str),
    List(&'static JsonType),
    Map(&'static JsonType),
    OrNull(&'static JsonType),
    Object(&'static ObjectType),
}

impl JsonType {
    /// The type of a value that is absent instead of `null`.
    #[must_use]
    pub const fn unless_absent(self) -> Self {
        match self {
            Self::OrNull(present) => *present,
            other => other,
        }
    }
}

#[derive(Debug)]
pub struct ObjectType {
    pub name: &'static str,
    pub members: &'static [Member],
}

#[derive(Debug)]
pub struct Member {
    pub name: &'static str,
    pub json_type: JsonType,
    pub optional: bool,
    /// Whether the members of this object stand in its place.
    pub flattened: bool,
    pub text: &'static str,
}

macro_rules! described {
    ($($rust:ty => $json:expr,)*) => {
        $(impl Described for $rust {
            const TYPE: JsonType = $json;
        })*
    };
}

described! {
    bool => JsonType::Boolean,
    u8 => JsonType::Integer,
    u16 => JsonType::Integer,
    u32 => JsonType::Integer,
    u64 => JsonType::Integer,
    usize => JsonType::Integer,
    i64 => JsonType::Integer,
    f64 => JsonType::Number,
    str => JsonType::Text,
    String => JsonType::Text,
    UnixSeconds => JsonType::Named("Time"),
    UserId => JsonType::Named("UserId"),
    SessionId => JsonType::Named("SessionId"),
    LoginId => JsonType::Named("SessionId"),
    MailId => JsonType::Named("Id"),
    OperatorId => JsonType::Named("Id"),
    PartnerId => JsonType::Named("Id"),
    AssetId => JsonType::Named("AssetId"),
    BroadcastId => JsonType::Named("BroadcastId"),
    LivestreamId => JsonType::Named("LivestreamId"),
    OfferId => JsonType::Named("OfferId"),
    BirthDate => JsonType::Named("CalendarDate"),
    Locale => JsonType::Named("Locale"),
    Drm => JsonType::Named("Drm"),
    Protocol => JsonType::Named("Protocol"),
    Role => JsonType::Named("Role"),
}

impl<T: Described + ?Sized> Described for &T {
    const TYPE: JsonType = T::TYPE;
}

impl<T: Described + ToOwned + ?Sized> Described for Cow<'_, T> {
    const TYPE: JsonType = T::TYPE;
}

/// A part of a body that is appended after the rest.
impl<T: Described> Described for PhantomData<T> {
    const TYPE: JsonType = T::TYPE;
}

impl<T: Described> Described for Option<T> {
    const TYPE: JsonType = JsonType::OrNull(&T::TYPE);
}

impl<T: Described> Described for [T] {
    const TYPE: JsonType = JsonType::List(&T::TYPE);
}

impl<T: Described> Described for Vec<T> {
    const TYPE: JsonType = JsonType::List(&T::TYPE);
}

impl<K, T: Described> Described for BTreeMap<K, T> {
    const TYPE: JsonType = JsonType::Map(&T::TYPE);
}
