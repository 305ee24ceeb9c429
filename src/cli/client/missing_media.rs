//! Finds media files that the catalogue names and that do not exist: the most frequent reason for a black
//! player.

use std::path::Path;

use serde_json::Value;

use super::Admin;
use crate::output::members::elements;
use crate::output::{self, Failure};

/// Maximum number of files listed; the rest is counted.
const FILES_SHOWN: usize = 5;

pub(crate) async fn missing(
    admin: &mut Admin,
    directory: &Path,
) -> Result<Option<String>, Failure> {
    let missing = missing_files(&admin.catalog().await?, directory);
    Ok((!missing.is_empty()).then(|| {
        let (first, directory) = (output::first(&missing, FILES_SHOWN), directory.display());
        format!("media files missing in {directory}: {first}")
    }))
}

fn missing_files(catalogue: &Value, directory: &Path) -> Vec<String> {
    let mut missing = Vec::new();
    let kinds = ["livestream", "asset"].into_iter();
    for item in kinds.flat_map(|kind| elements(catalogue, kind)) {
        let playlists = item["playlist"].as_object().into_iter().flatten();
        missing.extend(playlists.filter_map(|(_, location)| {
            let location = location.as_str()?;
            let file = ["origin:", "loop:"]
                .iter()
                .find_map(|scheme| location.strip_prefix(scheme))?;
            // Without permission to look, a file does not count as missing.
            let absent = matches!(directory.join(file).try_exists(), Ok(false));
            absent.then(|| format!("{location} of {}", item["id"].as_str().unwrap_or("?")))
        }));
    }
    missing
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_files_are_listed_with_their_items() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("there.mpd"), "").unwrap();
        let catalogue = json!({
            "livestream": [{"id": "card", "playlist": {"dash": "loop:a/b.mpd", "hls": "origin:there.mpd"}}],
            "asset": [{"id": "film", "playlist": {"dash": "https://cdn.example/x.mpd", "hls": "origin:c.m3u8"}}, {"id": "bare"}],
        });
        assert_eq!(
            missing_files(&catalogue, folder.path()),
            ["loop:a/b.mpd of card", "origin:c.m3u8 of film"]
        );
    }
}
