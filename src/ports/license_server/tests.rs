//! A license server is a socket that answers once.

use data_encoding::BASE64;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use playgate_types::{AssetId, SessionId, UnixSeconds, UserId};

fn settings(port: u16) -> LicenseServerSettings {
    LicenseServerSettings {
        url: format!("http://127.0.0.1:{port}/license?tenant=a"),
        authorization: Some("Bearer credential".to_owned()),
        style: Style::Plain,
        message: MessageSettings {
            header: Some("X-Custom-Data".to_owned()),
            ..MessageSettings::default()
        },
        drm: Drm::Widevine,
        spc: None,
        timeout: Duration::from_secs(60),
    }
}

fn about() -> LicenseSubject {
    LicenseSubject {
        user: UserId::from_bytes([1; 16]),
        session: SessionId::from_bytes([2; 16]),
        asset: AssetId::parse("film").unwrap(),
        kids: Vec::new(),
        now: UnixSeconds(0),
    }
}

fn playready(settings: &mut LicenseServerSettings) {
    settings.drm = Drm::Playready;
}

/// A server that reads one request, sends `answer`, and returns the request.
async fn serve(listener: &TcpListener, answer: &[u8]) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = vec![0; 4_096];
    let mut length = 0;
    // In a form, the challenge is base64.
    while ![&b"challenge"[..], b"spc=Y2hhbGxlbmdl"]
        .iter()
        .any(|end| request[..length].ends_with(end))
    {
        length += stream.read(&mut request[length..]).await.unwrap();
    }
    // The client may close the connection early.
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
    String::from_utf8(request[..length].to_vec()).unwrap()
}

async fn answered(answer: &[u8]) -> (String, Result<License, UpstreamError>) {
    answered_by(answer, |_| ()).await
}

async fn answered_by(
    answer: &[u8],
    change: impl FnOnce(&mut LicenseServerSettings),
) -> (String, Result<License, UpstreamError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut settings = settings(port);
    change(&mut settings);
    let server = HttpLicenseServer::new(&settings).unwrap();
    tokio::join!(
        serve(&listener, answer),
        server.license(Bytes::from_static(b"challenge"), about())
    )
}

#[tokio::test]
async fn a_challenge_is_sent_unchanged_without_internal_headers() {
    let (request, license) =
        answered(b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\nkey").await;
    let license = license.unwrap();
    assert_eq!(license.body, "key");
    assert_eq!(license.media, Some(HeaderValue::from_static("a/b")));
    assert!(request.starts_with("POST /license?tenant=a HTTP/1.1\r\n"));
    let mut headers: Vec<&str> = request
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| !line.starts_with("host: 127.0.0.1:"))
        .collect();
    headers.sort_unstable();
    assert_eq!(
        headers,
        [
            "authorization: Bearer credential",
            "content-length: 9",
            "content-type: application/octet-stream",
            "x-custom-data: eyJhc3NldElkIjoiZmlsbSIsInNlc3Npb25JZCI6IkFnSUNBZ0lDQWdJQ0FnSUNBZ0lDQWciLCJ1c2VySWQiOiJBUUVCQVFFQkFRRUJBUUVCQVFFQkFRIn0=",
        ]
    );
}

#[tokio::test]
async fn failures_are_distinguished() {
    let redirect = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n";
    let (_, result) = answered(redirect).await;
    assert!(matches!(result, Err(UpstreamError::Status(s)) if s == StatusCode::FOUND));
    let large = [
        &b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"[..],
        &vec![b'x'; LICENSE_MAX + 1],
    ]
    .concat();
    let (_, result) = answered(&large).await;
    assert!(matches!(result, Err(UpstreamError::TooLarge)), "{result:?}");
    for broken in [&b"not http\r\n\r\n"[..], b""] {
        let (_, result) = answered(broken).await;
        assert!(matches!(result, Err(UpstreamError::Connection(_))));
    }
    let whole = [
        &b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"[..],
        &vec![b'x'; LICENSE_MAX],
    ]
    .concat();
    let (_, result) = answered(&whole).await;
    assert_eq!(result.unwrap().body.len(), LICENSE_MAX);
}

#[tokio::test]
async fn a_soap_fault_is_passed_to_the_player() {
    const FAULT: &str = "<soap:Envelope><soap:Fault>no</soap:Fault></soap:Envelope>";
    let answer = |status: &str, media: &str, body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let fault = answer(
        "500 Internal Server Error",
        "text/xml; charset=utf-8",
        FAULT,
    );
    let (request, result) = answered_by(fault.as_bytes(), playready).await;
    assert!(request.contains("content-type: text/xml; charset=utf-8\r\n"));
    assert!(request.contains("AcquireLicense"));
    match result {
        Err(UpstreamError::Refused(said)) => assert_eq!(said.fault.unwrap().body, FAULT),
        other => panic!("{other:?}"),
    }
    for other in [
        answer("500 Oops", "text/html", FAULT),
        answer("500 Oops", "text/xml", "<error/>"),
        answer("302 Found", "text/xml", FAULT),
    ] {
        let (_, result) = answered_by(other.as_bytes(), playready).await;
        assert!(matches!(result, Err(UpstreamError::Status(_))), "{other}");
    }
    // Servers of other DRM systems send no SOAP faults.
    let (_, result) = answered(fault.as_bytes()).await;
    assert!(matches!(result, Err(UpstreamError::Status(_))));
}

#[tokio::test]
async fn repeated_failures_open_the_circuit_breaker() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = HttpLicenseServer::new(&LicenseServerSettings {
        timeout: Duration::from_millis(20),
        ..settings(port)
    });
    let silent = silent.unwrap();
    let ask = || silent.license(Bytes::new(), about());
    for _ in 0..FAILURES_MAX {
        assert!(matches!(ask().await, Err(UpstreamError::TimedOut)));
    }
    assert!(matches!(ask().await, Err(UpstreamError::Resting)));
}

#[tokio::test]
async fn error_statuses_do_not_open_the_circuit_breaker() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = HttpLicenseServer::new(&settings(listener.local_addr().unwrap().port()));
    let server = server.unwrap();
    let answer = b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for _ in 0..2 * FAILURES_MAX {
        let (_, result) = tokio::join!(
            serve(&listener, answer),
            server.license(Bytes::from_static(b"challenge"), about())
        );
        assert!(
            matches!(result, Err(UpstreamError::Status(_))),
            "{result:?}"
        );
    }
}

#[test]
fn urls_are_validated_with_the_settings() {
    for bad in [
        "",
        "license.example",
        "/license",
        "file:///etc/passwd",
        "ftp://license.example/",
        "http://user:secret@license.example/",
    ] {
        let settings = LicenseServerSettings {
            url: bad.to_owned(),
            ..settings(1)
        };
        assert!(HttpLicenseServer::new(&settings).is_err(), "{bad}");
    }
}

fn doverunner(settings: &mut LicenseServerSettings) {
    settings.style = Style::Doverunner;
    settings.message = MessageSettings {
        merchant: Some("TUTO".to_owned()),
        key: Some("lU5D8s3PWoLls3PWFWkClULlFWk5D8oC".to_owned()),
        access_key: Some("LT2FVJDp2Xr018zf4Di6lzvNOv3DKP20".to_owned()),
        ..MessageSettings::default()
    };
}

const KEY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 4\r\n\r\na2V5";

#[tokio::test]
async fn doverunner_gets_a_token_for_the_content_and_its_drm() {
    for (drm, name, media, body, license) in [
        (
            Drm::Widevine,
            "Widevine",
            "application/octet-stream",
            "challenge",
            "a2V5",
        ),
        (
            Drm::Playready,
            "PlayReady",
            "text/xml; charset=utf-8",
            "challenge",
            "a2V5",
        ),
        (
            Drm::Fairplay,
            "FairPlay",
            "application/x-www-form-urlencoded",
            "spc=Y2hhbGxlbmdl",
            "key",
        ),
    ] {
        let (request, answer) = answered_by(KEY, |settings| {
            doverunner(settings);
            settings.drm = drm;
        })
        .await;
        let headers = request.split("\r\n");
        let mut tokens = headers.filter_map(|line| line.strip_prefix("pallycon-customdata-v2: "));
        let token = BASE64.decode(tokens.next().unwrap().as_bytes()).unwrap();
        let token: serde_json::Value = serde_json::from_slice(&token).unwrap();
        assert_eq!(
            (&token["drm_type"], &token["cid"]),
            (&name.into(), &"film".into())
        );
        assert_eq!(token["user_id"], about().user.to_string());
        assert!(
            request.contains(&format!("content-type: {media}\r\n")),
            "{request}"
        );
        assert!(request.ends_with(&format!("\r\n\r\n{body}")), "{request}");
        assert_eq!(answer.unwrap().body, license);
    }
}

#[tokio::test]
async fn ezdrm_gets_custom_data_in_the_query() {
    let (request, answer) = answered_by(KEY, |settings| {
        settings.style = Style::Ezdrm;
        settings.url = settings.url.replace("tenant=a", "pX=12AB34");
    })
    .await;
    let (first, _) = request.split_once(" HTTP/1.1\r\n").unwrap();
    let data = first
        .strip_prefix("POST /license?pX=12AB34&CustomData=")
        .unwrap();
    let data = data_encoding::BASE64URL_NOPAD
        .decode(data.as_bytes())
        .unwrap();
    let data: serde_json::Value = serde_json::from_slice(&data).unwrap();
    let (user, session) = (about().user.to_string(), about().session.to_string());
    let expected = serde_json::json!({"userId": user, "sessionId": session, "assetId": "film"});
    assert_eq!(data, expected);
    assert_eq!(answer.unwrap().body, "a2V5");
}

#[test]
fn ezdrm_needs_the_id_of_the_account_in_the_url() {
    let mut settings = settings(1);
    settings.style = Style::Ezdrm;
    let error = HttpLicenseServer::new(&settings).unwrap_err().to_string();
    assert!(error.contains("pX"), "{error}");
    // FairPlay has the id of the asset in the path.
    settings.drm = Drm::Fairplay;
    assert!(HttpLicenseServer::new(&settings).is_ok());
}
