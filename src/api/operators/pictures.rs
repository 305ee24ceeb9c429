//! Pictures of livestreams, broadcasts and videos for the console, which loads nothing from other hosts itself.

use std::sync::Arc;

use http::HeaderValue;
use http::header::CACHE_CONTROL;
use tokio::sync::Semaphore;

use playgate_domain::schedule::Image;
use playgate_http::offload::cold;
use playgate_http::{ApiError, Context, Input, OperatorAuth, ParseRequest, Payload, Reply};
use playgate_ports::picture::fetch_picture;
use playgate_services::Services;
use playgate_types::{AssetId, BroadcastId, LivestreamId};

crate::openapi::words::words! { => r##"
[operations.admin_picture]
summary = "Load a picture"
text = "The default picture of a livestream, broadcast or video, for the console. Playgate fetches it: from public addresses only, up to 1 MiB, and PNG, JPEG, GIF or WebP."
returns."200" = { text = "The picture.", media = ["image/png", "image/jpeg", "image/gif", "image/webp"], examples = { "image/png" = "PNG", "image/jpeg" = "JFIF", "image/gif" = "GIF89a", "image/webp" = "RIFF" } }
returns."204" = { text = "There is no picture, or it could not be fetched." }
"## }

/// Pictures that are fetched at a time. A page of the schedule has some dozens, mostly of one server.
static FETCHES: Semaphore = Semaphore::const_new(4);

/// A logo hardly ever changes, and a picture of a programme never.
const KEPT: HeaderValue = HeaderValue::from_static("private, max-age=86400");

pub(crate) struct PictureRequest {
    pub asset: AssetId,
}

impl ParseRequest for PictureRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            asset: input.parsed("asset", AssetId::parse)?,
        })
    }
}

pub(crate) async fn picture(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PictureRequest,
) -> Result<Reply, ApiError> {
    let Some(address) = address(services, &request.asset).await? else {
        return Ok(Reply::no_content());
    };
    let Ok(_fetch) = FETCHES.acquire().await else {
        return Ok(Reply::no_content());
    };
    match fetch_picture(&address).await {
        Ok(Some(picture)) => {
            let media = HeaderValue::from_static(picture.media);
            Ok(Reply::bytes(media, picture.bytes).with_header(CACHE_CONTROL, KEPT))
        }
        Ok(None) => Ok(Reply::no_content()),
        Err(error) => {
            tracing::debug!(asset = request.asset.as_str(), %error, "failed to fetch a picture");
            Ok(Reply::no_content())
        }
    }
}

/// The address of the default picture, if it is a whole one.
async fn address(services: &Services, id: &AssetId) -> Result<Option<String>, ApiError> {
    let catalog = services.catalog.snapshot();
    let livestream = catalog.livestream(&LivestreamId::from(id));
    let known = livestream.map(|one| &one.images);
    let known = known.or_else(|| catalog.asset(id).map(|one| &one.images));
    if let Some(images) = known {
        return Ok(default_of(images));
    }
    let (schedule, broadcast) = (Arc::clone(&services.schedule), BroadcastId::from(id));
    let found = cold(services, move || schedule.broadcast(&broadcast)).await?;
    Ok(found.and_then(|(_, broadcast)| default_of(&broadcast.metadata.images)))
}

fn default_of(images: &[Image]) -> Option<String> {
    let image = (images.iter().find(|image| image.default)).or_else(|| images.first())?;
    let address = image.filename.as_ref();
    let is_web = address.starts_with("https://") || address.starts_with("http://");
    is_web.then(|| address.to_owned())
}
