//! Requests about users and their PINs.

use crate::operators::users::line::UnknownMembers;
use crate::partner::users::request::ParentalControlChange;
use playgate_domain::accounts::{UserOrder, UserSearch};
use playgate_http::routing::resolve::{known, partner_in_query};
use playgate_http::{
    ApiError, BodyStream, CombineResults, ErrorCode, Input, ParseRequest, PartnerIdOrName, Payload,
    UserIdOrEmail,
};
use playgate_types::{
    BirthDate, Country, DeviceId, Email, Locale, Malformed, PersonName, Pin, UserId,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UsersRequest {
    pub partner: Option<PartnerIdOrName>,
    /// The filter without its partner, whose name still has to be looked up.
    pub search: UserSearch,
}

/// Bounds the users that a search keeps in memory. A narrower search, or `after`, reaches the rest.
const OFFSET_MAX: usize = 10_000;

const TEXT_MAX: usize = 254;

fn searched(text: &str) -> Result<String, Malformed> {
    let text = text.trim();
    if text.is_empty() || text.len() > TEXT_MAX {
        return Err(Malformed("must have from 1 to 254 octets"));
    }
    Ok(text.to_owned())
}

/// Parses the sort order: `email`, or `-email` for descending.
fn order(text: &str) -> Result<(UserOrder, bool), Malformed> {
    let (name, descending) = match text.strip_prefix('-') {
        Some(name) => (name, true),
        None => (text, false),
    };
    let order = match name {
        "id" => UserOrder::Id,
        "email" => UserOrder::Email,
        "name" => UserOrder::Name,
        "created" => UserOrder::Created,
        _ => {
            let why = "must be id, email, name or created, with a minus sign for descending";
            return Err(Malformed(why));
        }
    };
    Ok((order, descending))
}

fn state(text: &str) -> Result<bool, Malformed> {
    match text {
        "active" => Ok(false),
        "disabled" => Ok(true),
        _ => Err(Malformed("must be active or disabled")),
    }
}

impl ParseRequest for UsersRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (partner, after, limit, text, country) = (
            partner_in_query(input),
            input.query.parsed("after", UserId::parse),
            input.page(),
            input.query.parsed("search", searched),
            input.query.parsed("country", Country::parse),
        )
            .combine()?;
        let (disabled, tag, sort, offset, count) = (
            input.query.parsed("state", state),
            input.query.parsed("tag", searched),
            input.query.parsed("sort", order),
            input.number("offset", 5, "must be from 0 to 10000"),
            input.query.flag("count"),
        )
            .combine()?;
        let (order, descending) = sort.unwrap_or_default();
        // `after` is an id, which says nothing about the place of a user in another order.
        if after.is_some() && (order != UserOrder::Id || descending) {
            let why = "is allowed only in the order of ids; use `offset` with another `sort`";
            return Err(ApiError::field("after", why));
        }
        let offset = offset.unwrap_or_default();
        if offset > OFFSET_MAX {
            return Err(ApiError::field("offset", "must be from 0 to 10000"));
        }
        Ok(Self {
            partner,
            search: UserSearch {
                partner: None,
                text,
                country,
                disabled,
                tag,
                order,
                descending,
                after,
                offset,
                limit,
                count,
            },
        })
    }
}

pub(crate) struct ImportUsersRequest {
    pub partner: Option<PartnerIdOrName>,
    pub dry_run: bool,
    pub unknown: UnknownMembers,
    pub file: BodyStream,
}

impl ParseRequest for ImportUsersRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let (partner, dry_run, ignore) = (
            partner_in_query(input),
            input.query.flag("dryRun"),
            input.query.flag("ignoreUnknown"),
        )
            .combine()?;
        Ok(Self {
            partner,
            dry_run,
            unknown: match ignore {
                true => UnknownMembers::Noted,
                false => UnknownMembers::Refused,
            },
            file: payload.streamed()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserRequest {
    pub user: UserIdOrEmail,
}

impl ParseRequest for UserRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            user: UserIdOrEmail::parse(input)?,
        })
    }
}

pub(crate) struct UserDeviceRequest {
    pub user: UserIdOrEmail,
    pub device: DeviceId,
}

impl ParseRequest for UserDeviceRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let device = input.text("device");
        let device = device.and_then(|id| known(DeviceId::parse(&id), ErrorCode::DeviceNotFound));
        let (user, device) = (UserIdOrEmail::parse(input), device).combine()?;
        Ok(Self { user, device })
    }
}

pub(crate) struct ChangeUserRequest {
    pub user: UserIdOrEmail,
    pub email: Option<Email>,
    pub name: Option<PersonName>,
    pub locale: Option<Locale>,
    pub country: Option<Country>,
    pub birth_date: Option<BirthDate>,
    pub parental_control: Option<ParentalControlChange>,
    pub tags: Option<Vec<String>>,
    pub disabled: Option<bool>,
}

impl ChangeUserRequest {
    const TAGS_MAX: usize = 32;
}

impl ParseRequest for ChangeUserRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        // A member that is lost would be answered as a change.
        body.only(&[
            "email",
            "name",
            "locale",
            "country",
            "birthDate",
            "parentalControl",
            "tags",
            "disabled",
        ])?;
        let email = body.parsed("email", Email::parse)?;
        let fit = |tags: &Vec<String>| {
            tags.len() <= Self::TAGS_MAX
                && tags
                    .iter()
                    .all(|tag| (1..=64).contains(&tag.chars().count()))
        };
        let tags = body.texts("tags").and_then(|tags| {
            if tags.as_ref().is_some_and(|tags| !fit(tags)) {
                return Err(body.refuse("tags", "are at most 32, of 1 to 64 characters each"));
            }
            Ok(tags)
        });
        let (user, name, locale, country, birth_date, parental_control, tags, disabled) = (
            UserIdOrEmail::parse(input),
            body.parsed("name", PersonName::parse),
            body.parsed("locale", Locale::parse),
            body.parsed("country", Country::parse),
            body.parsed("birthDate", BirthDate::parse),
            ParentalControlChange::read(&body),
            tags,
            body.boolean("disabled"),
        )
            .combine()?;
        Ok(Self {
            user,
            email,
            name,
            locale,
            country,
            birth_date,
            parental_control,
            tags,
            disabled,
        })
    }
}

pub(crate) struct SetPinRequest {
    pub user: UserIdOrEmail,
    /// If absent, a PIN is generated and mailed.
    pub pin: Option<Pin>,
}

impl ParseRequest for SetPinRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            user: UserIdOrEmail::parse(input)?,
            pin: payload.object()?.parsed("pinCode", Pin::parse)?,
        })
    }
}
