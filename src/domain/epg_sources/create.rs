//! Creates livestreams for guide channels that the catalogue does not have.

use super::error::EpgSourceError;
use crate::catalog::{Catalog, CatalogImport, Livestream, Mode, NAME_MAX, Spanned};
use crate::schedule::text_limits::FILENAME_MAX;
use crate::schedule::{Image, MakeLivestreams, Schedule, Unmapped};
use playgate_types::BroadcastId;

pub(super) struct CatalogLivestreams<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) schedule: &'a Schedule,
}

impl MakeLivestreams for CatalogLivestreams<'_> {
    type Error = EpgSourceError;

    fn make(&self, channels: &[Unmapped]) -> Result<(), EpgSourceError> {
        let Self { catalog, schedule } = self;
        let import = CatalogImport {
            livestreams: channels
                .iter()
                .map(|channel| Spanned {
                    // These items come from no file, so errors name no line.
                    line: 0,
                    item: livestream(channel),
                })
                .collect(),
            ..CatalogImport::default()
        };
        let is_broadcast = |id: &str| {
            BroadcastId::parse(id).is_ok_and(|id| schedule.snapshot().program(&id).is_some())
        };
        catalog.import(import, Mode::Merge, false, &is_broadcast)?;
        Ok(())
    }
}

fn livestream(channel: &Unmapped) -> Livestream {
    let name = channel.name.as_deref().unwrap_or(channel.id.as_str());
    // Cut at a character: the catalogue rejects longer names, and guides may have any.
    let end = name.floor_char_boundary(NAME_MAX);
    let name = name.get(..end).unwrap_or_default().to_owned();
    let mut livestream = Livestream::new(channel.id.clone(), name);
    let icon = channel
        .icon
        .as_deref()
        .filter(|icon| icon.len() <= FILENAME_MAX);
    livestream.images.extend(icon.map(|icon| Image {
        kind: Image::kind_of(None).into(),
        default: true,
        filename: icon.into(),
        embedded_text: false,
    }));
    livestream
}
