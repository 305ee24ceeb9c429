//! What several requests of the administration interface share.

use playgate_http::{ApiError, Input, Object, ParseRequest, PartnerIdOrName, Payload};
use playgate_types::Malformed;
use playgate_types::text::check_visible;

pub(crate) fn name(body: &Object) -> Result<String, ApiError> {
    body.required("name", |text| {
        let text = text.trim();
        check_visible(text)?;
        // Bounded, because operators type these names on the command line and read them in the audit record.
        let fits = (1..=128).contains(&text.chars().count());
        fits.then(|| text.to_owned())
            .ok_or(Malformed("must have 1 to 128 characters"))
    })
}

pub(crate) fn label(body: &Object) -> Result<String, ApiError> {
    let label = body.parsed("label", |text| {
        let text = text.trim();
        if !text.is_empty() {
            check_visible(text)?;
        }
        let fits = text.chars().count() <= 64;
        fits.then(|| text.to_owned())
            .ok_or(Malformed("must have at most 64 characters"))
    })?;
    Ok(label.unwrap_or_default())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartnerRequest {
    pub partner: PartnerIdOrName,
}

impl ParseRequest for PartnerRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            partner: PartnerIdOrName::read(&input.text("partner")?),
        })
    }
}
