//! Reset of a lab partner to a fixture: a file of users.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use crate::operators::lab::lab_partner;
use crate::operators::users::new_user::AddUserRequest;
use crate::partner::users::request::ParentalControlChange;
use playgate_domain::accounts::{Accounts, OperatorChange, PreparedSignUp, UserChange};
use playgate_http::offload::{bulk, cold, pool};
use playgate_http::{
    ApiError, Context, ErrorCode, Input, Object, OperatorAuth, ParseRequest, PartnerIdOrName,
    Payload, Reply,
};
use playgate_services::Services;
use playgate_types::{Described, Malformed, OfferId, PartnerId, Pin, UnixSeconds};

crate::openapi::words::words! { PartnerWasReset => r##"
[requests.PartnerReset]
fixture = "FixtureName?: `demo`, `empty`, or the name of a file in `fixtures` of the data directory. Default `empty`."

[operations.admin_reset_partner]
summary = "Reset a lab partner"
text = "Removes all users of the partner with their sessions, devices, grants, mail and counters, its requests in the journal, and its faults, clock offset and scenario. Then adds the users of the fixture. Its tokens stay. Resets at the same time run one after the other; one that waits for ten seconds is refused with `OVERLOADED`."
send = "PartnerReset: The fixture."
returns."200" = "PartnerWasReset: The partner was reset."
errors = ["PARTNER_NOT_FOUND", "LAB_NOT_ALLOWED", "FIXTURE_NOT_FOUND", "PASSWORD_TOO_SHORT", "PASSWORD_TOO_LONG", "PASSWORD_TOO_COMMON"]
"## }

const DEMO: &str = include_str!("../../../data/fixtures/demo.toml");

const DIRECTORY: &str = "fixtures";

/// A reset has to be quick, and each user costs a password hash.
const USERS_MAX: usize = 20;

/// How long a reset waits for those before it; each takes less than a second.
const TURN_WAIT_MAX: Duration = Duration::from_secs(10);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    #[serde(default)]
    user: Vec<Value>,
}

/// A user of a fixture. It has the members of `POST /admin/v1/users` and those below.
struct FixtureUser {
    account: PreparedSignUp,
    pin: Option<Pin>,
    parental: ParentalControlChange,
    offers: Vec<OfferId>,
}

#[derive(Described, Serialize)]
struct PartnerWasReset {
    /// Number of users that were removed.
    removed: usize,
    /// Number of users that were added.
    users: usize,
}

pub(crate) async fn reset(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: ResetPartnerRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    let directory = services.config.server.data_dir.join(DIRECTORY);
    let name = request.fixture;
    let text = cold(services, move || match &*name {
        "demo" => Ok(DEMO.to_owned()),
        "empty" => Ok(String::new()),
        name => fs::read_to_string(directory.join(format!("{name}.toml"))).map_err(|error| {
            // Without the path: a client of the lab must not learn the layout of the machine.
            let message = format!("there is no fixture {name}; put {name}.toml into `{DIRECTORY}` of the data directory");
            ApiError::new(ErrorCode::FixtureNotFound, message).with_cause(error)
        }),
    })
    .await?;
    // Before anything is removed: a mistake in the fixture must leave the partner as it was.
    let users = read_fixture(services, partner, &text, cx.now)?;
    // Two resets of one partner would remove each other's users half way.
    let Ok(_turn) = timeout(TURN_WAIT_MAX, services.turns.resets.lock()).await else {
        let message = "other resets are running; try again after Retry-After seconds";
        return Err(ApiError::new(ErrorCode::Overloaded, message));
    };
    let (accounts, journal, now) = (services.accounts.clone(), services.journal.clone(), cx.now);
    let removed = bulk(services, move || {
        let removed = accounts.reset_partner(partner, now)?;
        journal.erase_partner(partner)?;
        Ok::<_, ApiError>(removed)
    })
    .await?;
    // Reset after the removal, so that a failed removal leaves clock and faults as they were.
    services.lab.reset(&partner);
    let count = users.len();
    for user in users {
        add(services, cx, user).await?;
    }
    let counts = format!("removed {removed}, added {count}");
    Reply::counted(
        &counts,
        &PartnerWasReset {
            removed,
            users: count,
        },
    )
}

/// Reads and validates the users of a fixture.
fn read_fixture(
    services: &Services,
    partner: PartnerId,
    text: &str,
    now: UnixSeconds,
) -> Result<Vec<FixtureUser>, ApiError> {
    let fixture: Fixture = toml::from_str(text)
        .map_err(|error| ApiError::field("fixture", format!("is invalid: {}", error.message())))?;
    // Each password costs a hash, and the request has one deadline.
    if fixture.user.len() > USERS_MAX {
        let why = format!("has more than {USERS_MAX} users");
        return Err(ApiError::field("fixture", why));
    }
    let catalog = services.catalog.snapshot();
    let mut emails = HashSet::new();
    let mut users = Vec::with_capacity(fixture.user.len());
    for user in &fixture.user {
        // Converted to JSON, so that the rules and messages are those of the users' route.
        let body = Object::read(user.to_string().as_bytes());
        let user = read_user(&services.accounts, partner, &body, now)?;
        let unknown = |offer: &&OfferId| catalog.offer(offer).is_none();
        if let Some(offer) = user.offers.iter().find(unknown) {
            return Err(body.refuse("offers", format!("the catalogue has no offer {offer}")));
        }
        if !emails.insert(user.account.address().1.clone()) {
            return Err(body.refuse("email", "must not be that of another user of the fixture"));
        }
        users.push(user);
    }
    Ok(users)
}

fn read_user(
    accounts: &Accounts,
    partner: PartnerId,
    body: &Object,
    now: UnixSeconds,
) -> Result<FixtureUser, ApiError> {
    // A misspelt member would silently leave a test without its condition.
    body.only(&[
        "email",
        "password",
        "name",
        "country",
        "locale",
        "birthDate",
        "pinCode",
        "parentalControl",
        "offers",
    ])?;
    let offers = body.texts("offers")?.unwrap_or_default();
    let offers = offers
        .iter()
        .map(|offer| OfferId::parse(offer).map_err(|why| body.refuse("offers", why.0)));
    let (_, new, password, _) = AddUserRequest::read(body)?.into_parts();
    Ok(FixtureUser {
        account: accounts.prepare(partner, new, password, now)?,
        pin: body.parsed("pinCode", Pin::parse)?,
        parental: ParentalControlChange::read(body)?.unwrap_or_default(),
        offers: offers.collect::<Result<_, _>>()?,
    })
}

async fn add(services: &Services, cx: &Context, user: FixtureUser) -> Result<(), ApiError> {
    let (accounts, now) = (&services.accounts, cx.now);
    // Without a partner: the hashes of a reset must not take the turns of the partner's own logins.
    let pool = pool(services, cx, None);
    let id = accounts.add_prepared(user.account, &pool).await?.id;
    if let Some(pin) = &user.pin {
        accounts.override_pin(&id, pin, &pool).await?;
    }
    let change = OperatorChange {
        user_change: UserChange {
            parental_enabled: user.parental.enabled,
            parental_limit: user.parental.limit,
            ..UserChange::default()
        },
        ..OperatorChange::default()
    };
    accounts.change_by_operator(&id, change, now, &pool).await?;
    for offer in user.offers {
        services.grants.grant(id, offer, None, None, now).await?;
    }
    Ok(())
}

pub(crate) struct ResetPartnerRequest {
    pub partner: PartnerIdOrName,
    pub fixture: String,
}

impl ParseRequest for ResetPartnerRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        body.only(&["fixture"])?;
        let fixture = body.parsed("fixture", |text| {
            // The name becomes part of a file name.
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            let fits = (1..=64).contains(&text.len()) && text.chars().all(plain);
            fits.then(|| text.to_owned())
                .ok_or(Malformed("must have only letters, digits, - and _"))
        })?;
        Ok(Self {
            partner: PartnerIdOrName::read(&input.text("partner")?),
            fixture: fixture.unwrap_or_else(|| "empty".to_owned()),
        })
    }
}
