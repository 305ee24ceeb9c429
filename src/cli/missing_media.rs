//! Files of the origin that the catalogue names and the machine does not have: most often why a player
//! shows nothing.

use std::path::Path;

use serde_json::Value;

use super::admin::{Admin, path, with_query};
use super::exit::Failure;
use super::output;

/// Files that are named; more are counted.
const SHOWN: usize = 5;

/// What is missing of what the service's catalogue names, in words; nothing if all is there.
///
/// # Errors
/// That the service does not tell its catalogue.
pub async fn missing(admin: &mut Admin, directory: &Path) -> Result<Option<String>, Failure> {
    let target = with_query(path(&["catalog"]), &[("format", Some("json"))]);
    let missing = missing_files(&admin.get(&target).await?, directory);
    Ok((!missing.is_empty()).then(|| {
        let (first, directory) = (output::first(&missing, SHOWN), directory.display());
        format!("the catalogue names files that are not in {directory}: {first}")
    }))
}

fn missing_files(catalogue: &Value, directory: &Path) -> Vec<String> {
    let mut missing = Vec::new();
    for item in ["livestream", "asset"]
        .iter()
        .filter_map(|kind| catalogue[*kind].as_array())
        .flatten()
    {
        let playlists = item["playlist"].as_object().into_iter().flatten();
        missing.extend(playlists.filter_map(|(_, location)| {
            let location = location.as_str()?;
            let file = ["origin:", "loop:"]
                .iter()
                .find_map(|scheme| location.strip_prefix(scheme))?;
            // Whoever may not look cannot say that it is missing.
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
    fn what_is_not_there_is_told_with_whose_it_is() {
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
