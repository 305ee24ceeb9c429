//! Requests about users and what they may play.

use super::super::login::password;
use super::super::users::ParentalControlChange;
use super::super::{Input, Payload};
use super::known;
use super::system::PartnerRef;
use crate::domain::accounts::{FirstPassword, ForeignHash, NewUser};
use crate::http::body::BodyStream;
use crate::http::combine::CombineResults;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::strict_json::Object;
use crate::types::{
    AssetId, BirthDate, Country, Email, LiveOffset, Locale, OfferId, PersonName, Pin, UnixSeconds,
    UserId,
};

/// A user by id, or by e-mail with the partner, which may be left out where there is only one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRef {
    /// By id.
    Id(UserId),
    /// By e-mail.
    Email(Email, Option<PartnerRef>),
}

fn partner(input: &Input<'_>) -> Result<Option<PartnerRef>, ApiError> {
    Ok(input
        .query
        .one("partner")?
        .map(|text| PartnerRef::read(&text)))
}

impl UserRef {
    /// Reads the user of a path.
    ///
    /// # Errors
    /// `USER_NOT_FOUND` for what is neither an id nor an address.
    pub fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let text = input.text("user")?;
        if let Ok(user) = UserId::parse(&text) {
            return Ok(Self::Id(user));
        }
        let email = known(Email::parse(&text), ErrorCode::UserNotFound)?;
        Ok(Self::Email(email, partner(input)?))
    }
}

/// GET users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsersRequest {
    /// Of this partner only.
    pub partner: Option<PartnerRef>,
    /// Those after this one, in the order of ids.
    pub after: Option<UserId>,
    /// At most so many.
    pub limit: usize,
}

impl UsersRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let (partner, after, limit) = (
            partner(input),
            input.query.parsed("after", UserId::parse),
            input.page(),
        )
            .combine()?;
        Ok(Self {
            partner,
            after,
            limit,
        })
    }
}

/// POST users.
pub struct AddUserRequest {
    /// The partner; may be left out where there is only one.
    pub partner: Option<PartnerRef>,
    /// The e-mail address.
    pub email: Email,
    /// The password, or what another service stored of it.
    pub password: FirstPassword,
    /// The name.
    pub name: Option<PersonName>,
    /// The language.
    pub locale: Option<Locale>,
    /// The country.
    pub country: Option<Country>,
    /// The day of birth.
    pub birth_date: Option<BirthDate>,
}

impl AddUserRequest {
    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (mut request, of_query) = (Self::read(&body), partner(input)).combine()?;
        request.partner = request.partner.or(of_query);
        Ok(request)
    }

    /// Reads a user: of a body, or of a line of an import.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the members.
    pub fn read(body: &Object) -> Result<Self, ApiError> {
        let (partner, email, password, name, locale, country, birth_date) = (
            body.text("partner"),
            body.required("email", Email::parse),
            first_password(body),
            body.parsed("name", PersonName::parse),
            body.parsed("locale", Locale::parse),
            body.parsed("country", Country::parse),
            body.parsed("birthDate", BirthDate::parse),
        )
            .combine()?;
        Ok(Self {
            partner: partner.map(PartnerRef::read),
            email,
            password,
            name: name.filter(|name| !name.as_str().is_empty()),
            locale,
            country,
            birth_date,
        })
    }
}

impl AddUserRequest {
    /// Whose user, who, and with what password.
    #[must_use]
    pub fn into_parts(self) -> (Option<PartnerRef>, NewUser, FirstPassword) {
        let new = NewUser {
            email: self.email,
            name: self.name,
            country: self.country,
            locale: self.locale,
            birth_date: self.birth_date,
        };
        (self.partner, new, self.password)
    }
}

/// POST users/import.
pub struct ImportUsersRequest {
    /// The partner of the users whose lines name none.
    pub partner: Option<PartnerRef>,
    /// Reports what would be added, and adds nobody.
    pub dry_run: bool,
    /// A JSON object a line, as it arrives.
    pub file: BodyStream,
}

impl ImportUsersRequest {
    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let (partner, dry_run) = (partner(input), input.query.flag("dryRun")).combine()?;
        Ok(Self {
            partner,
            dry_run,
            file: payload.streamed()?,
        })
    }
}

fn first_password(body: &Object) -> Result<FirstPassword, ApiError> {
    let hash = body.parsed("passwordHash", ForeignHash::parse)?;
    match (body.text("password")?, hash) {
        (None, None) => Ok(FirstPassword::None),
        (Some(_), None) => password(body, "password").map(FirstPassword::Plain),
        (None, Some(hash)) => Ok(FirstPassword::Hashed(hash)),
        (Some(_), Some(_)) => Err(body.refuse("passwordHash", "excludes password")),
    }
}

/// One user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRequest {
    /// The user.
    pub user: UserRef,
}

impl UserRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            user: UserRef::parse(input)?,
        })
    }
}

/// PUT on a user: a merge.
pub struct ChangeUserRequest {
    /// The user.
    pub user: UserRef,
    /// The name.
    pub name: Option<PersonName>,
    /// The language.
    pub locale: Option<Locale>,
    /// The country.
    pub country: Option<Country>,
    /// The day of birth.
    pub birth_date: Option<BirthDate>,
    /// Parental control.
    pub parental_control: Option<ParentalControlChange>,
    /// All tags.
    pub tags: Option<Vec<String>>,
    /// Whether the account is shut.
    pub disabled: Option<bool>,
}

impl ChangeUserRequest {
    /// Tags of one user.
    const TAGS: usize = 32;

    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let fit = |tags: &Vec<String>| {
            tags.len() <= Self::TAGS
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
            UserRef::parse(input),
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

/// PUT on a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRequest {
    /// The user.
    pub user: UserRef,
    /// The offer.
    pub offer: OfferId,
    /// When it ends, where not as the offer says.
    pub expiry: Option<UnixSeconds>,
}

impl GrantRequest {
    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (user, offer, expiry) = (
            UserRef::parse(input),
            input.parsed("offer", OfferId::parse),
            body.integer("expiry"),
        )
            .combine()?;
        Ok(Self {
            user,
            offer,
            expiry: expiry.map(UnixSeconds),
        })
    }
}

/// DELETE on a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokeGrantRequest {
    /// The user.
    pub user: UserRef,
    /// The offer.
    pub offer: OfferId,
}

impl RevokeGrantRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            user: UserRef::parse(input)?,
            offer: input.parsed("offer", OfferId::parse)?,
        })
    }
}

/// PUT on the PIN.
pub struct SetPinRequest {
    /// The user.
    pub user: UserRef,
    /// The PIN; one is drawn and mailed where none is given.
    pub pin: Option<Pin>,
}

impl SetPinRequest {
    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            user: UserRef::parse(input)?,
            pin: payload.object()?.parsed("pinCode", Pin::parse)?,
        })
    }
}

/// GET why: whether the user may play the asset, and which rule says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainEntitlementRequest {
    /// The user.
    pub user: UserRef,
    /// A livestream, a broadcast or a video on demand.
    pub asset: AssetId,
    /// How far back on a livestream.
    pub offset: LiveOffset,
    /// The country to ask for.
    pub country: Option<Country>,
}

impl ExplainEntitlementRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let (user, asset, offset, country) = (
            UserRef::parse(input),
            input.parsed("asset", AssetId::parse),
            input.query.parsed("offset", LiveOffset::parse),
            input.query.parsed("country", Country::parse),
        )
            .combine()?;
        Ok(Self {
            user,
            asset,
            offset: offset.unwrap_or(LiveOffset::LIVE),
            country,
        })
    }
}
