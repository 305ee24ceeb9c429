//! Files of pages that are built into the binary. The console and the lab's player serve theirs through it.

use std::sync::Arc;

use http::HeaderValue;
use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_FRAME_OPTIONS};

use playgate_http::{
    ApiError, CompressibleBody, Input, Kept, ParseRequest, Payload, Prepared, Reply,
};

pub(crate) struct EmbeddedFileRequest {
    pub name: String,
}

impl ParseRequest for EmbeddedFileRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            name: input.text("file")?.into_owned(),
        })
    }
}

/// Browsers revalidate each time: scripts must match the binary and one another.
const MAX_AGE: u32 = 0;

pub(crate) type EmbeddedFile = (&'static str, Prepared);

/// The files of a folder of `data/`, with their names and media types, for [`embed`].
macro_rules! files {
    ($folder:literal, $($name:literal: $media:expr),* $(,)?) => {
        [$((
            $name,
            $media,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/", $folder, "/", $name)),
        )),*]
    };
}
pub(crate) use files;

pub(crate) fn embed(
    (name, media, text): (&'static str, HeaderValue, &'static str),
) -> EmbeddedFile {
    (name, prepared(media, text))
}

pub(crate) fn prepared(
    media: HeaderValue,
    text: impl AsRef<[u8]> + Into<CompressibleBody>,
) -> Prepared {
    Prepared {
        media,
        kept: Kept {
            tag: Kept::tag_of(text.as_ref()),
            max_age: MAX_AGE,
        },
        body: Arc::new(text.into()),
        until: None,
    }
}

pub(crate) fn find<'a>(files: &'a [EmbeddedFile], name: &str) -> Option<&'a Prepared> {
    let (_, file) = files.iter().find(|(known, _)| *known == name)?;
    Some(file)
}

pub(crate) fn reply(file: &Prepared, policy: HeaderValue) -> Reply {
    // The pages hold tokens: no other page may frame them, and their address stays out of `Referer`.
    Reply::prepared(file.clone())
        .with_header(CONTENT_SECURITY_POLICY, policy)
        .with_header(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
        .with_header(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"))
}
