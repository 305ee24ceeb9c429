//! Maps errors of catalogue and entitlement to API errors.

use crate::errors::api_error::{ApiError, Details, ErrorCode, ImportProblem};
use playgate_decode::Mistake;
use playgate_domain::catalog::CatalogError;
use playgate_domain::entitlement::{Denied, GrantError};
use playgate_formats::catalog_report::CatalogImportBody;

impl From<CatalogError> for ApiError {
    fn from(error: CatalogError) -> Self {
        match error {
            CatalogError::Invalid(problems) => Self::new(
                ErrorCode::ImportInvalid,
                "the request contains mistakes; nothing was changed",
            )
            .with_details(Details::Problems {
                problems: problems.into_iter().map(problem).collect(),
            }),
            CatalogError::TooMany { what, rows, most } => Self::malformed(format!(
                "the catalogue would have {rows} {what}, and the limit is {most}; nothing was imported"
            )),
            CatalogError::Held(imported) => {
                let why: Vec<String> = imported.issues.iter().map(ToString::to_string).collect();
                let message = format!(
                    "nothing was changed: {}; repeat with `accept` to change it anyway",
                    why.join("; ")
                );
                let report = serde_json::to_value(CatalogImportBody::held(imported));
                Self::new(ErrorCode::ImportHeld, message)
                    .with_details(Details::Report(report.unwrap_or_default()))
            }
            CatalogError::NoVersion => Self::new(
                ErrorCode::CatalogVersionNotFound,
                "this version of the catalogue is not kept; see the history",
            ),
            CatalogError::VersionDamaged => Self::internal(error),
            CatalogError::NoLivestream => {
                Self::new(ErrorCode::LivestreamNotFound, "no livestream has this id")
            }
            CatalogError::NoRule => {
                Self::new(ErrorCode::RuleNotFound, "no rule has this number and text")
            }
            CatalogError::Store(error) => error.into(),
        }
    }
}

fn problem(problem: Mistake) -> ImportProblem {
    ImportProblem {
        line: Some(problem.line).filter(|line| *line > 0),
        message: problem.message,
    }
}

impl From<GrantError> for ApiError {
    fn from(error: GrantError) -> Self {
        match error {
            GrantError::OfferNotFound => {
                Self::new(ErrorCode::OfferNotFound, "no offer has this id")
            }
            GrantError::UserNotFound => Self::new(ErrorCode::UserNotFound, "there is no such user"),
            GrantError::ExpiryPast => Self::field("expiry", "must be in the future"),
            GrantError::TooMany => Self::malformed("the user has too many active grants"),
            GrantError::NotGranted => Self::new(
                ErrorCode::GrantNotFound,
                "the user does not have this offer",
            ),
            GrantError::Store(error) => error.into(),
        }
    }
}

pub const fn denial(denied: Denied) -> ErrorCode {
    match denied {
        Denied::AssetNotFound => ErrorCode::AssetNotFound,
        Denied::GeoBlocked => ErrorCode::GeoBlocked,
        Denied::NotEntitled => ErrorCode::NotEntitled,
        Denied::NotAvailable => ErrorCode::NotAvailable,
        Denied::NoLiveRights => ErrorCode::NoLiveRights,
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        let message = match denied {
            Denied::AssetNotFound => "no asset has this id",
            Denied::GeoBlocked => "the asset is not offered in this country",
            Denied::NotEntitled => "the user has no offer that contains this asset",
            Denied::NotAvailable => "the asset is not available at this time",
            Denied::NoLiveRights => "the program has no live rights",
        };
        Self::new(denial(denied), message)
    }
}
