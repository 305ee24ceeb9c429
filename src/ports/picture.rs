//! Fetches pictures whose addresses a guide or a catalogue has. Type, size, time and network are bounded here: who
//! publishes a guide must not choose what a browser of operators runs, nor targets inside the network.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::fetch::{FetchError, Validators, get};
use super::fetch_options::{FetchOptions, FetchTimeouts};

/// In bytes.
pub(crate) const PICTURE_MAX: usize = 1024 * 1024;

const TIMEOUTS: FetchTimeouts = FetchTimeouts {
    answer: Duration::from_secs(4),
    piece: Duration::from_secs(4),
    whole: Duration::from_secs(8),
};

#[derive(Debug)]
pub struct Picture {
    pub media: &'static str,
    pub bytes: Bytes,
}

/// Fetches a picture from a public address; `None` if what is there is none.
pub async fn fetch_picture(address: &str) -> Result<Option<Picture>, FetchError> {
    let options = FetchOptions {
        only_public: true,
        ..FetchOptions::default()
    };
    fetch_with(address, &options).await
}

async fn fetch_with(address: &str, options: &FetchOptions) -> Result<Option<Picture>, FetchError> {
    let fetched = async {
        let known = Validators::default();
        let Some(mut answer) = get(address, options, &known, TIMEOUTS).await? else {
            return Ok(None);
        };
        let mut bytes = BytesMut::new();
        while let Some(frame) = answer.body.frame().await {
            let frame = frame.map_err(|error| FetchError::Connection(error.into()))?;
            bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
            if bytes.len() > PICTURE_MAX {
                return Ok(None);
            }
        }
        let bytes = bytes.freeze();
        Ok(media_of(&bytes).map(|media| Picture { media, bytes }))
    };
    let fetched = timeout(TIMEOUTS.whole, fetched).await;
    fetched.unwrap_or(Err(FetchError::TimedOut))
}

/// Returns the media type of a picture by its first bytes, and not by a header or file name, which may be wrong on purpose.
/// SVG is no picture: it can have scripts.
pub fn media_of(bytes: &[u8]) -> Option<&'static str> {
    let webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    let gif = bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a");
    [
        (bytes.starts_with(b"\x89PNG\r\n\x1a\n"), "image/png"),
        (bytes.starts_with(b"\xff\xd8\xff"), "image/jpeg"),
        (gif, "image/gif"),
        (webp, "image/webp"),
    ]
    .into_iter()
    .find_map(|(is, media)| is.then_some(media))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// The address of a server that answers one connection with a body.
    fn serve(body: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/logo", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head).unwrap();
            let begin = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n";
            // The client may close the connection early.
            let _ = stream.write_all(&[begin.as_bytes(), &body].concat());
        });
        address
    }

    #[tokio::test]
    async fn a_picture_is_known_by_its_bytes_and_everything_else_is_none() {
        let options = FetchOptions::default();
        for (body, media) in [
            (b"\x89PNG\r\n\x1a\nrest".to_vec(), Some("image/png")),
            (b"\xff\xd8\xff\xe0".to_vec(), Some("image/jpeg")),
            (b"RIFF\x00\x00\x00\x00WEBPVP8 ".to_vec(), Some("image/webp")),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>".to_vec(), None),
            (b"<script>alert(1)</script>".to_vec(), None),
            ([b"GIF89a".to_vec(), vec![0; PICTURE_MAX]].concat(), None),
        ] {
            let found = fetch_with(&serve(body), &options).await.unwrap();
            assert_eq!(found.map(|picture| picture.media), media);
        }
    }

    #[tokio::test]
    async fn a_private_address_is_never_asked() {
        let address = serve(b"\x89PNG\r\n\x1a\n".to_vec());
        let refused = fetch_picture(&address).await.unwrap_err();
        assert!(refused.to_string().contains("private address"), "{refused}");
    }
}
