//! Fetches a URL and streams the response.

use http::StatusCode;

use crate::output::{Exit, Failure};
use playgate_ports::fetch;
use playgate_ports::http_client::WebBody;
use playgate_ports::{FetchError, FetchOptions, Validators};

pub(crate) fn is_address(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

pub(crate) async fn get(address: &str, options: &FetchOptions) -> Result<WebBody, Failure> {
    let known = Validators::default();
    let timeouts = options.timeouts.unwrap_or_default();
    match fetch::get(address, options, &known, timeouts).await {
        Ok(Some(answer)) => Ok(answer.body),
        // Cannot happen without validators.
        Ok(None) => Err(Failure::failed(format!("{address}: not found"))),
        Err(error) => Err(Failure::new(exit(&error), format!("{address}: {error}"))),
    }
}

fn exit(error: &FetchError) -> Exit {
    match error {
        FetchError::Address(_) => Exit::Usage,
        FetchError::Status { status, .. } if *status == StatusCode::NOT_FOUND => Exit::NotFound,
        FetchError::Status { .. }
        | FetchError::File(_)
        | FetchError::Redirect(_)
        | FetchError::Coding(_)
        | FetchError::TooLarge
        | FetchError::TimedOut
        | FetchError::Connection(_) => Exit::Failed,
    }
}
