//! Fetches what an address names, to be passed on as it arrives.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, LOCATION, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::cli::exit::{Exit, Failure};

/// How long a server may take to accept a connection and to begin its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Redirections that are followed.
const REDIRECTS: usize = 5;

/// Whether an argument is an address and not a file.
#[must_use]
pub fn is_address(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Gets the body behind an address.
///
/// # Errors
/// That the address cannot be used, or what its server answered.
pub async fn get(address: &str) -> Result<Incoming, Failure> {
    let mut address = address.to_owned();
    for _ in 0..=REDIRECTS {
        let response = request(&address).await?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(response.into_body());
        }
        let moved = response
            .headers()
            .get(LOCATION)
            .and_then(|location| location.to_str().ok())
            .filter(|_| status.is_redirection());
        match moved {
            Some(location) if is_address(location) => address = location.to_owned(),
            Some(location) => address = relative(&address, location)?,
            None if status == StatusCode::NOT_FOUND => {
                return Err(Failure::new(Exit::NotFound, format!("{address}: {status}")));
            }
            None => return Err(Failure::failed(format!("{address}: {status}"))),
        }
    }
    Err(Failure::failed(format!("{address}: too many redirections")))
}

/// The address of a redirection that names no host: `/…`, or else beside the present path.
fn relative(address: &str, location: &str) -> Result<String, Failure> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if location.starts_with("//") {
        return Err(Failure::failed(format!(
            "{address} redirects to {location}"
        )));
    }
    if let Some(absolute) = location.strip_prefix('/') {
        return Ok(format!("{scheme}://{host}/{absolute}"));
    }
    let folder = path
        .split('?')
        .next()
        .and_then(|path| path.rsplit_once('/'))
        .map_or(String::new(), |(folder, _)| format!("{folder}/"));
    Ok(format!("{scheme}://{host}/{folder}{location}"))
}

async fn request(address: &str) -> Result<Response<Incoming>, Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::failed(format!("{address}: {why}"));
    let uri: Uri = address
        .parse()
        .map_err(|_| Failure::usage(format!("{address}: not an address")))?;
    if uri.scheme_str() != Some("http") {
        return Err(Failure::usage(format!("{address}: https is not supported here"))
            .hint("download it with another program and name the file, or pipe it in: `curl … | playgate epg import -`"));
    }
    let authority = uri
        .authority()
        .ok_or_else(|| Failure::usage(format!("{address}: not an address")))?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let host = authority
        .host()
        .trim_start_matches('[')
        .trim_end_matches(']');
    let port = authority.port_u16().unwrap_or(80);
    let request = Request::get(target)
        .header(HOST, authority.as_str())
        .header(USER_AGENT, concat!("playgate/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed(&error))?;
    let answer = async {
        let stream = TcpStream::connect((host, port))
            .await
            .map_err(|error| failed(&error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failed(&error))?;
        tokio::spawn(async {
            // How it ends is seen by whoever reads the body.
            let _ = connection.await;
        });
        sender
            .send_request(request)
            .await
            .map_err(|error| failed(&error))
    };
    timeout(PATIENCE, answer)
        .await
        .unwrap_or_else(|_| Err(failed(&"no answer in time")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read_as_browsers_do() {
        let at = |location| relative("http://a.example:81/guides/se.xml?x=1/2", location).unwrap();
        assert_eq!(at("/other"), "http://a.example:81/other");
        assert_eq!(at("new.xml"), "http://a.example:81/guides/new.xml");
        assert!(relative("http://a/b", "//evil/b").is_err());
    }
}
