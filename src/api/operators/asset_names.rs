//! What the ids of an answer stand for, as the catalogue and the schedule have it now.

use serde::Serialize;

use playgate_domain::catalog::Catalog;
use playgate_domain::schedule::{Program, Schedule};
use playgate_types::{AssetId, BroadcastId, Described, LivestreamId, UnixSeconds};

#[derive(Debug, Default, Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AssetNames {
    /// Livestream of the asset. Absent if there is none now, and in a user's own list.
    #[serde(skip_serializing_if = "Option::is_none")]
    livestream_id: Option<LivestreamId>,
    /// Name of the livestream. Absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    livestream_name: Option<String>,
    /// Title of the video or the programme; for a livestream the programme at that time. Absent in a user's own list.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

impl AssetNames {
    /// The programme of a livestream is `broadcast`, or if that is not known the one on air at `at`.
    pub(crate) fn new(
        (catalog, schedule): (&Catalog, &Schedule),
        asset: &AssetId,
        broadcast: Option<&BroadcastId>,
        at: UnixSeconds,
    ) -> Self {
        let catalog = catalog.snapshot();
        if let Some(video) = catalog.asset(asset) {
            return Self {
                title: Some(video.title.clone()),
                ..Self::default()
            };
        }
        let schedule = schedule.snapshot();
        let livestream = LivestreamId::from(asset);
        let program = match broadcast {
            Some(id) => schedule.program(id),
            None => (schedule.program(&BroadcastId::from(asset)))
                .or_else(|| schedule.program_at(&livestream, at)),
        };
        let livestream = program.as_ref().map_or(&livestream, Program::livestream);
        let found = catalog.livestream(livestream);
        Self {
            livestream_id: found.map(|one| one.id.clone()),
            livestream_name: found.map(|one| one.name.clone()),
            title: program.as_ref().map(Program::title),
        }
    }
}
