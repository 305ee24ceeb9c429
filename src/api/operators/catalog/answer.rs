//! Answers about the versions of the catalogue.

use serde::Serialize;

use playgate_domain::catalog::Version;
use playgate_formats::catalog_report::ImportReply;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UndoReply {
    pub version: u64,
    #[serde(flatten)]
    pub report: ImportReply,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionLine {
    version: u64,
    replaced_at: i64,
    replaced_by: &'static str,
    livestreams: u32,
    assets: u32,
    offers: u32,
    rules: u32,
}

impl From<Version> for VersionLine {
    fn from(version: Version) -> Self {
        let Version { number, record } = version;
        Self {
            version: number,
            replaced_at: record.replaced.0,
            replaced_by: record.by.as_str(),
            livestreams: record.livestreams,
            assets: record.assets,
            offers: record.offers,
            rules: record.rules,
        }
    }
}
