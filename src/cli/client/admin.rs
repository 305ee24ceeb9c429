//! Client of the operators' interface; all administrative commands use it.
//!
//! With a running server it connects to the administration socket. Without one it opens the store and
//! serves the same interface in its own process. Commands cannot tell the difference.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, LINK};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use serde_json::Value;
use tokio::time::{Instant, interval_at};

use super::error::AdminError;
use super::request_body::{self, RequestBody};
use crate::output::{self, Failure};
use crate::process::caller;
use playgate_http::access::local_admin::LOCAL_SCHEME;
use playgate_types::percent_encoded;

pub(crate) struct Admin {
    pub(super) sender: SendRequest<RequestBody>,
}

impl Admin {
    /// Lets the server write a new snapshot and reads it with `read`. `file_missing` returns whether an error means
    /// that the file is gone.
    pub(crate) async fn read_new_snapshot<T, E>(
        &mut self,
        mut read: impl FnMut(&Path) -> Result<T, E>,
        file_missing: impl Fn(&E) -> bool,
    ) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        const TRIES_MAX: usize = 10;
        let mut tries = 0;
        loop {
            tries += 1;
            let snapshot = self.post(&path(&["store", "snapshot"]), None).await?;
            let snapshot = PathBuf::from(output::text(&snapshot, "path"));
            match read(&snapshot) {
                // The next checkpoint may delete the file before it is read. The snapshot that follows is read instead.
                Err(error) if tries < TRIES_MAX && file_missing(&error) && !snapshot.exists() => {}
                result => return Ok(result?),
            }
        }
    }

    /// Sends a request with an optional JSON body and returns the JSON response. An error response becomes
    /// a [`Failure`] with its exit code.
    pub(crate) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        match self.ask(method, path, body).await? {
            Ok(answer) => Ok(answer),
            Err(refusal) => Err(self.explain_missing(path, refusal).await),
        }
    }

    /// Like [`Admin::call`], but returns an error response as the inner result.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Result<Value, AdminError>, Failure> {
        let body = body.map_or_else(request_body::nothing, |body| {
            request_body::whole(body.to_string())
        });
        self.send(method, path, "application/json", body).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Value, Failure> {
        self.call(Method::GET, path, None).await
    }

    pub(crate) async fn post(
        &mut self,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        self.call(Method::POST, path, body).await
    }

    pub(crate) async fn put(&mut self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.call(Method::PUT, path, Some(body)).await
    }

    pub(crate) async fn delete(&mut self, path: &str) -> Result<Value, Failure> {
        self.call(Method::DELETE, path, None).await
    }

    /// Returns a part of a list, and what its `Link` header names.
    pub(crate) async fn page(&mut self, path: &str) -> Result<LinkedPage, Failure> {
        let body = request_body::nothing();
        let response = self
            .exchange(Method::GET, path, "application/json", body)
            .await?;
        let links = response.headers().get(LINK);
        let links = links.and_then(|links| links.to_str().ok());
        let links = links.unwrap_or_default().to_owned();
        let value = read(response).await??;
        Ok(LinkedPage { value, links })
    }

    /// Returns the catalogue as JSON, in the format of its file.
    pub(crate) async fn catalog(&mut self) -> Result<Value, Failure> {
        let target = with_query(path(&["catalog"]), &[("format", Some("json"))]);
        self.get(&target).await
    }

    /// Sends a body of any length and shows `progress` on a terminal. An error response is the inner
    /// result, since it may contain a report.
    pub(crate) async fn upload(
        &mut self,
        path: &str,
        content_type: &'static str,
        body: RequestBody,
        progress: impl Fn() -> String,
    ) -> Result<Result<Value, AdminError>, Failure> {
        let sending = self.send(Method::POST, path, content_type, body);
        watched(sending, |_| progress()).await
    }

    /// Starts a long operation and shows on a terminal that it is running.
    pub(crate) async fn work(&mut self, path: &str) -> Result<Result<Value, AdminError>, Failure> {
        let asking = self.send(
            Method::POST,
            path,
            "application/json",
            request_body::nothing(),
        );
        watched(asking, |seconds| format!("running for {seconds} s")).await
    }

    pub(crate) async fn download(&mut self, path: &str) -> Result<(), Failure> {
        let response = self
            .exchange(
                Method::GET,
                path,
                "application/json",
                request_body::nothing(),
            )
            .await?;
        if !response.status().is_success() {
            return Err(read(response).await?.err().map_or_else(
                || Failure::failed("the server gave no reason"),
                Failure::from,
            ));
        }
        let mut body = response.into_body();
        let mut out = output::DataWriter::new();
        // Printed frame by frame: an export may be larger than the memory.
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| connection_failure(&error))?;
            if let Some(data) = frame.data_ref() {
                // The rest of an export may have gigabytes.
                if out.write(data)? == output::Reader::Gone {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(crate) async fn text(&mut self, path: &str) -> Result<String, Failure> {
        let asked = self.exchange(
            Method::GET,
            path,
            "application/json",
            request_body::nothing(),
        );
        let body = asked.await?.into_body().collect().await;
        let bytes = body.map_err(|error| connection_failure(&error))?.to_bytes();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: RequestBody,
    ) -> Result<Result<Value, AdminError>, Failure> {
        read(self.exchange(method, path, content_type, body).await?).await
    }

    pub(super) async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: RequestBody,
    ) -> Result<Response<Incoming>, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            // HTTP/1.1 requires a host; the administration socket has none.
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, HeaderValue::from_static(content_type))
            // The kernel reports only the user of this process, and not the user who called `sudo`.
            .header(AUTHORIZATION, format!("{LOCAL_SCHEME}{}", caller::name()))
            .body(body)
            .map_err(|error| Failure::usage(error.to_string()))?;
        self.sender
            .ready()
            .await
            .map_err(|error| connection_failure(&error))?;
        self.sender
            .send_request(request)
            .await
            .map_err(|error| connection_failure(&error))
    }
}

pub(crate) struct LinkedPage {
    pub value: Value,
    links: String,
}

impl LinkedPage {
    /// The address of the page that follows, if there may be one.
    pub(crate) fn next(&self) -> Option<String> {
        self.linked("next").map(str::to_owned)
    }

    /// The number behind which later entries are.
    pub(crate) fn position(&self) -> Option<u64> {
        let (_, after) = self.linked("prev")?.rsplit_once("after=")?;
        after.split('&').next()?.parse().ok()
    }

    fn linked(&self, relation: &str) -> Option<&str> {
        let wanted = format!("rel=\"{relation}\"");
        // An address contains no space.
        self.links.split(", ").find_map(|link| {
            let (address, parameters) = link.strip_prefix('<')?.split_once('>')?;
            parameters.contains(&wanted).then_some(address)
        })
    }
}

async fn watched<T>(work: impl Future<Output = T>, say: impl Fn(u64) -> String) -> T {
    let second = Duration::from_secs(1);
    let began = Instant::now();
    // Short commands show nothing.
    let mut tick = interval_at(began + second, second / 4);
    let watched = output::watched();
    tokio::pin!(work);
    let mut shown = false;
    let answer = loop {
        tokio::select! {
            answer = &mut work => break answer,
            _ = tick.tick(), if watched => {
                shown = true;
                output::progress(&say(began.elapsed().as_secs()));
            }
        }
    };
    // Clears the line, which the result would otherwise follow.
    if shown {
        output::progress("");
    }
    answer
}

async fn read(response: Response<Incoming>) -> Result<Result<Value, AdminError>, Failure> {
    let status = response.status();
    let body = response
        .into_body()
        .collect()
        .await
        .map_err(|error| connection_failure(&error))?
        .to_bytes();
    let value = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&body).map_err(|_| {
            Failure::failed(format!("the server responded with {status} without JSON"))
        })?
    };
    Ok(if status.is_success() {
        Ok(value)
    } else {
        Err(AdminError::new(status, &value))
    })
}

pub(super) fn connection_failure(error: &hyper::Error) -> Failure {
    // The innermost cause is the most specific, such as a file that cannot be read.
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    Failure::failed(format!("request failed: {cause}"))
}

/// Builds a path of the interface from encoded segments, so that an id may contain any character.
pub(crate) fn path(segments: &[&str]) -> String {
    let mut path = "/admin/v1".to_owned();
    for segment in segments {
        path.push('/');
        path.push_str(&percent_encoded(segment));
    }
    path
}

pub(crate) fn with_query(mut path: String, parameters: &[(&str, Option<&str>)]) -> String {
    let mut separator = if path.contains('?') { '&' } else { '?' };
    for (name, value) in parameters {
        if let Some(value) = value {
            path.push(separator);
            path.push_str(name);
            path.push('=');
            path.push_str(&percent_encoded(value));
            separator = '&';
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_encode_any_id() {
        assert_eq!(path(&["users", "a b@c/d"]), "/admin/v1/users/a%20b%40c%2Fd");
        let query = with_query(
            path(&["users"]),
            &[("a", None), ("b", Some("1&2")), ("c", Some(""))],
        );
        assert_eq!(query, "/admin/v1/users?b=1%262&c=");
    }
}
