//! The catalogue for clients, and the reports of catalogue imports.

use serde::Serialize;

use playgate_domain::catalog::{Asset, ExtendedRights, Livestream, Window};
use playgate_domain::schedule::Image;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageReply<'a> {
    r#type: &'a str,
    default: bool,
    filename: &'a str,
    embedded_text: bool,
}

impl<'a> From<&'a Image> for ImageReply<'a> {
    fn from(image: &'a Image) -> Self {
        Self {
            r#type: &image.kind,
            default: image.default,
            filename: &image.filename,
            embedded_text: image.embedded_text,
        }
    }
}

fn images(images: &[Image]) -> Vec<ImageReply<'_>> {
    images.iter().map(ImageReply::from).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExtendedRightsReply {
    pause: bool,
    rewind: bool,
    fast_forward: bool,
}

/// A livestream. Its rights are the defaults of its broadcasts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LivestreamReply<'a> {
    id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<ImageReply<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    zone: &'static str,
    live_rights: bool,
    catchup_days: u16,
    start_over: bool,
    extended_rights: ExtendedRightsReply,
    encrypted: bool,
    protocols: Vec<&'static str>,
}

impl<'a> From<&'a Livestream> for LivestreamReply<'a> {
    fn from(livestream: &'a Livestream) -> Self {
        let ExtendedRights {
            pause,
            rewind,
            fast_forward,
        } = livestream.extended;
        Self {
            id: livestream.id.as_str(),
            name: &livestream.name,
            images: images(&livestream.images),
            number: livestream.number,
            group: livestream.group.as_deref(),
            zone: livestream.zone.name(),
            live_rights: livestream.live_rights,
            catchup_days: livestream.catchup_days,
            start_over: livestream.start_over,
            extended_rights: ExtendedRightsReply {
                pause,
                rewind,
                fast_forward,
            },
            encrypted: livestream.encrypted,
            protocols: livestream.playlist.0.keys().map(|p| p.as_str()).collect(),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct WindowReply {
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AssetReply<'a> {
    id: &'a str,
    title: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<ImageReply<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pg_age: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<WindowReply>,
    encrypted: bool,
    protocols: Vec<&'static str>,
}

impl<'a> From<&'a Asset> for AssetReply<'a> {
    fn from(asset: &'a Asset) -> Self {
        let Window { from, to } = asset.available;
        let bounded = from.is_some() || to.is_some();
        Self {
            id: asset.id.as_str(),
            title: &asset.title,
            images: images(&asset.images),
            pg_age: asset.pg_age,
            // Left out without bounds: an empty window would read as never.
            available: bounded.then(|| WindowReply {
                from: from.map(|at| at.0),
                to: to.map(|at| at.0),
            }),
            encrypted: asset.encrypted,
            protocols: asset.playlist.0.keys().map(|p| p.as_str()).collect(),
        }
    }
}
