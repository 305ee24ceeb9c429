//! A line of an import of users.

use crate::operators::users::new_user::{AddUserRequest, MEMBERS, only_known, state};
use playgate_http::{ApiError, CombineResults, Object};
use playgate_types::{OfferId, PersonName};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownMembers {
    Refused,
    /// Left out, with a note.
    Noted,
}

pub(crate) struct UserLine {
    pub user: AddUserRequest,
    pub offers: Vec<OfferId>,
    /// What was repaired or left out, for the report.
    pub notes: Vec<String>,
}

impl UserLine {
    pub(crate) fn read(body: &Object, unknown: UnknownMembers) -> Result<Self, ApiError> {
        let mut notes = Vec::new();
        let name = body.text("name").map(|name| {
            // A name never costs the account.
            let (name, cleaned) = name.map_or((None, false), PersonName::cleaned);
            if cleaned {
                let note =
                    "the name has characters that cannot be shown, or over 256; they were left out";
                notes.push(note.to_owned());
            }
            name
        });
        let (user, state, offers, ()) = (
            AddUserRequest::read_named(body, name),
            state(body),
            offers(body),
            match unknown {
                UnknownMembers::Refused => only_known(body),
                UnknownMembers::Noted => Ok(()),
            },
        )
            .combine()?;
        let left_out = body.unknown(&MEMBERS)?;
        if !left_out.is_empty() {
            notes.push(format!("left out: {}", left_out.join(", ")));
        }
        Ok(Self {
            user: AddUserRequest { state, ..user },
            offers,
            notes,
        })
    }
}

fn offers(body: &Object) -> Result<Vec<OfferId>, ApiError> {
    let mut offers = Vec::new();
    for text in body.texts("offers")?.unwrap_or_default() {
        let offer = OfferId::parse(&text).map_err(|why| body.refuse("offers", why.0))?;
        if !offers.contains(&offer) {
            offers.push(offer);
        }
    }
    Ok(offers)
}
