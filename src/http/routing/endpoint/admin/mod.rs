//! Requests of the administration interface.

pub(crate) mod activity;
pub(crate) mod audit;
pub(crate) mod backups;
pub(crate) mod clock;
pub(crate) mod conformance;
pub(crate) mod content;
pub(crate) mod fault_targets;
pub(crate) mod fleet;
pub(crate) mod lab;
pub(crate) mod mail;
pub(crate) mod new_user;
pub(crate) mod operators;
pub(crate) mod partners;
pub(crate) mod playback;
pub(crate) mod requests;
pub(crate) mod rights;
pub(crate) mod schedule;
pub(crate) mod telemetry;
pub(crate) mod user_line;
pub(crate) mod users;

use crate::http::errors::api_error::ApiError;
use crate::http::request::strict_json::Object;
use crate::types::Malformed;
use crate::types::text::check_visible;

fn name(body: &Object) -> Result<String, ApiError> {
    body.required("name", |text| {
        let text = text.trim();
        check_visible(text)?;
        // Bounded, because operators type these names on the command line and read them in the audit record.
        let fits = (1..=128).contains(&text.chars().count());
        fits.then(|| text.to_owned())
            .ok_or(Malformed("must have 1 to 128 characters"))
    })
}

fn label(body: &Object) -> Result<String, ApiError> {
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
