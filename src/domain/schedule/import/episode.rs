//! Season and episode of a programme, from the numbering systems that guides use.

/// Both are counted from 1, as viewers do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct EpisodeNumber {
    pub(super) season: Option<u16>,
    pub(super) episode: Option<u16>,
    /// Whether the number comes from `xmltv_ns`, which is exact; `onscreen` is display text.
    exact: bool,
}

impl EpisodeNumber {
    /// Takes the numbers of an `episode-num` element, if they are better than the known ones.
    pub(super) fn offer(&mut self, system: &str, text: &str) {
        let found = match &*system.to_ascii_lowercase().replace('-', "_") {
            "xmltv_ns" => xmltv_ns(text),
            "onscreen" | "" | "sxxexx" | "common" => onscreen(text),
            // One number each, so that both are one.
            "season" => return self.season = self.season.or(number(text.trim())),
            "episode" => return self.episode = self.episode.or(number(text.trim())),
            // Other systems have ids of other services, such as `dd_progid`.
            _ => return,
        };
        let empty = self.season.is_none() && self.episode.is_none();
        let better = found.exact && !self.exact;
        if (found.season.is_some() || found.episode.is_some()) && (empty || better) {
            *self = found;
        }
    }
}

/// `season.episode.part`, each counted from 0, empty if unknown, with an optional `/total`.
fn xmltv_ns(text: &str) -> EpisodeNumber {
    let mut parts = text.split('.').map(|part| {
        let number = part.split('/').next().unwrap_or_default().trim();
        // Guides count from 0, viewers from 1.
        number.parse::<u16>().ok()?.checked_add(1)
    });
    EpisodeNumber {
        season: parts.next().flatten(),
        episode: parts.next().flatten(),
        exact: true,
    }
}

/// What stands before the number of a season, in the languages of guides.
const SEASON: [&str; 13] = [
    "s",
    "season",
    "series",
    "staffel",
    "saison",
    "temporada",
    "stagione",
    "sezon",
    "säsong",
    "sesong",
    "sæson",
    "seizoen",
    "kausi",
];
/// What stands before the number of an episode.
const EPISODE: [&str; 19] = [
    "e",
    "ep",
    "eps",
    "epi",
    "episode",
    "episodes",
    "épisode",
    "episodio",
    "episódio",
    "folge",
    "f",
    "afl",
    "aflevering",
    "avsnitt",
    "afsnit",
    "jakso",
    "odcinek",
    "odc",
    "osa",
];

/// `S2E5`, `s02 e05`, `2x05`, `E5`, `Season 2, Episode 5`, `5/22`.
fn onscreen(text: &str) -> EpisodeNumber {
    let text = text.to_lowercase();
    let mut found = EpisodeNumber::default();
    let mut rest = &*text;
    // The number before, if only an `x` stands behind it.
    let mut times: Option<u16> = None;
    let mut is_first = true;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, digits) = rest.split_at_checked(at).unwrap_or((rest, ""));
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let (digits, after) = digits.split_at_checked(end).unwrap_or((digits, ""));
        let value = number(digits);
        let word = before.trim_end_matches(|c: char| !c.is_alphabetic());
        let word = word
            .rsplit(|c: char| !c.is_alphabetic())
            .next()
            .unwrap_or_default();
        if SEASON.contains(&word) {
            found.season = found.season.or(value);
        } else if EPISODE.contains(&word) {
            found.episode = found.episode.or(value);
        } else if word == "x" && times.is_some() {
            (found.season, found.episode) = (times, value);
        } else if is_first
            && before
                .trim_matches(|c: char| !c.is_alphanumeric())
                .is_empty()
            && after.starts_with('/')
        {
            // The total follows.
            found.episode = value;
        }
        times = value.filter(|_| after.trim_start().starts_with('x'));
        is_first = false;
        rest = after;
    }
    found
}

/// The digits that a text begins with. Zero means unknown.
fn number(text: &str) -> Option<u16> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let digits = text.get(..end.unwrap_or(text.len()))?;
    digits.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_guides_are_read() {
        for (system, text, season, episode) in [
            ("xmltv_ns", "1.4.", Some(2), Some(5)),
            ("xmltv_ns", " 1/3 . 4/10 . 0/2", Some(2), Some(5)),
            ("xmltv_ns", ".11.", None, Some(12)),
            ("xmltv_ns", "2..", Some(3), None),
            ("xmltv_ns", "65535.0.", None, Some(1)),
            ("xmltv_ns", "..", None, None),
            ("xmltv_ns", "a.-1", None, None),
            ("onscreen", "S02E05", Some(2), Some(5)),
            ("onscreen", "s2 e5 of 10", Some(2), Some(5)),
            ("onscreen", "2x05", Some(2), Some(5)),
            ("", "E5", None, Some(5)),
            ("onscreen", "Season 2, Episode 5", Some(2), Some(5)),
            ("onscreen", "Ep. 12", None, Some(12)),
            ("onscreen", "Folge 7", None, Some(7)),
            ("onscreen", "(S5, ep22)", Some(5), Some(22)),
            ("onscreen", "5/22", None, Some(5)),
            ("onscreen", "Staffel 3, Folge 4/10", Some(3), Some(4)),
            ("onscreen", "S00E05", None, Some(5)),
            ("onscreen", "Area 51", None, None),
            ("SxxExx", "S02E05", Some(2), Some(5)),
            ("common", "S02E05", Some(2), Some(5)),
            ("xmltv-ns", "1.4.", Some(2), Some(5)),
            ("season", "2", Some(2), None),
            ("episode", " 5 ", None, Some(5)),
            ("onscreen", "Pilot", None, None),
            ("onscreen", "S0E0", None, None),
            ("dd_progid", "EP01234567.0005", None, None),
        ] {
            let mut found = EpisodeNumber::default();
            found.offer(system, text);
            assert_eq!((found.season, found.episode), (season, episode), "{text}");
        }
    }

    #[test]
    fn the_exact_system_wins_in_any_order() {
        let given = [
            ("onscreen", "S9E9"),
            ("xmltv_ns", "1.4."),
            ("xmltv_ns", ".."),
        ];
        for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
            let mut found = EpisodeNumber::default();
            for nth in order {
                found.offer(given[nth].0, given[nth].1);
            }
            assert_eq!((found.season, found.episode), (Some(2), Some(5)));
        }
    }
}
