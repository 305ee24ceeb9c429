//! Maps errors of EPG sources, which only operators see, to API errors. The message says what to correct;
//! what the network or the other server reported goes to the log.

use std::io::ErrorKind;

use crate::errors::api_error::{ApiError, ErrorCode};
use playgate_domain::epg_sources::EpgSourceError;
use playgate_ports::FetchError;
use playgate_ports::http_client::no_connection;

impl From<EpgSourceError> for ApiError {
    fn from(error: EpgSourceError) -> Self {
        match error {
            EpgSourceError::NotFound => {
                Self::new(ErrorCode::EpgSourceNotFound, "no EPG source has this name")
            }
            EpgSourceError::Busy => Self::overloaded(),
            EpgSourceError::NotModified => {
                failed("the server answered 304 (not modified) to a request without conditions")
            }
            EpgSourceError::Fetch(error) => failed(&reason(&error)).with_cause(error),
            EpgSourceError::Schedule(error) => error.into(),
            EpgSourceError::Catalog(error) => error.into(),
        }
    }
}

fn failed(why: &str) -> ApiError {
    ApiError::new(
        ErrorCode::EpgSourceFailed,
        format!("{why}; nothing was imported"),
    )
}

fn reason(error: &FetchError) -> String {
    match error {
        FetchError::Address(why) => format!("the address {}", why.0),
        FetchError::File(error) if error.kind() == ErrorKind::NotFound => {
            "the file does not exist".to_owned()
        }
        FetchError::File(error) if error.kind() == ErrorKind::PermissionDenied => {
            "the service lacks permission to read the file".to_owned()
        }
        FetchError::File(_) => "the file cannot be read; the log has the reason".to_owned(),
        FetchError::Status { status, .. } => format!("the server answered {}", status.as_u16()),
        FetchError::Redirect(why) => format!("the server redirects {why}"),
        FetchError::Coding(_) => {
            "the server used a content coding that was not requested".to_owned()
        }
        FetchError::TooLarge => "the guide is larger than 1 GiB".to_owned(),
        FetchError::TimedOut => "the server did not answer in time".to_owned(),
        FetchError::Connection(error) => no_connection(&**error).to_owned(),
    }
}
