//! Decodes rights: defaults, rules and overrides of single broadcasts.

use playgate_decode::{Decoder, Node, ObjectMember, TableDecoder, Value};
use playgate_domain::catalog::{
    CATCHUP_DAYS_MAX, CatalogImport, Condition, Effects, Glob, Hours, PG_AGE_MAX, RULE_IDS_MAX,
    Reference, Rule, Spanned, TimeWindow, Window,
};
use playgate_types::{BroadcastId, LivestreamId, Malformed};

pub(super) fn one_rule(decoder: &Decoder, root: &[ObjectMember]) -> CatalogImport {
    let mut import = CatalogImport::default();
    rule(&mut import, TableDecoder::from_root(decoder, "rule", root));
    import
}

pub(super) fn read(decoder: &Decoder, root: &[ObjectMember]) -> Effects {
    let table = TableDecoder::from_root(decoder, "rights", root);
    let effects = effects(&table);
    table.finish();
    effects
}

pub(super) fn rule(import: &mut CatalogImport, table: TableDecoder<'_>) {
    let mut livestreams = Vec::new();
    if let Some(node) = table.node("livestream") {
        let nodes = node.elements();
        for node in nodes {
            if let Some(id) = table.parse("livestream", node, LivestreamId::parse) {
                record_reference(import, &table, node, true);
                livestreams.push(id);
            }
        }
        // An empty list is an error: the rule would otherwise apply to all livestreams.
        if nodes.is_empty() {
            table.wrong("livestream", node, "must name a livestream");
        }
        let bytes: usize = livestreams.iter().map(|id| id.as_str().len()).sum();
        if bytes > RULE_IDS_MAX {
            table.wrong(
                "livestream",
                node,
                "names too many livestreams; use two rules",
            );
        }
    }
    // Sorted and unique, so that the same rule with its ids in another order is not a change.
    livestreams.sort_unstable();
    livestreams.dedup();
    let condition = Condition {
        livestreams,
        when: when(&table),
        title: table.parsed("title", Glob::parse),
        category: table.parsed("category", Glob::parse),
        rating: rating(&table),
    };
    // A rule has no id: its line is that of the table.
    let line = table.line("");
    let effects = effects(&table);
    table.finish();
    let item = Rule { condition, effects };
    import.rules.push(Spanned { line, item });
}

/// Decodes the window of a rule: two dates with times, or two times of day.
fn when(table: &TableDecoder<'_>) -> Option<TimeWindow> {
    let node = table.node("window")?;
    let window = table.as_table("window", node)?;
    let of_day = |name: &str| {
        let member = window.members().iter().find(|member| member.name == name);
        matches!(member.map(|member| &member.node.value), Some(Value::Text(text)) if text.len() == 5)
    };
    // A time of day has five characters; no date has.
    if !(of_day("from") && of_day("to")) {
        let window = into_window(window);
        // A window without ends is omitted, as in an export.
        let ends = window.from.is_some() || window.to.is_some();
        return ends.then_some(TimeWindow::Window(window));
    }
    let (from, to) = (window.text("from")?, window.text("to")?);
    window.finish();
    Hours::parse(from, to)
        .map_err(|Malformed(why)| table.wrong("window", node, why))
        .map(TimeWindow::Hours)
        .ok()
}

pub(super) fn window(table: &TableDecoder<'_>, name: &'static str) -> Window {
    table.table(name).map(into_window).unwrap_or_default()
}

fn into_window(table: TableDecoder<'_>) -> Window {
    let window = Window {
        from: table.time("from"),
        to: table.time("to"),
    };
    if let (Some(from), Some(to)) = (window.from, window.to)
        && to <= from
    {
        // An empty window would silently make the item unavailable.
        table.report("`to` must be after `from`");
    }
    table.finish();
    window
}

fn rating(table: &TableDecoder<'_>) -> Option<(u8, u8)> {
    let rating = table.table("rating")?;
    let bounds = 0..=i64::from(PG_AGE_MAX);
    let least = rating.number("from", bounds.clone()).unwrap_or(0);
    let most = rating.number("to", bounds).unwrap_or(PG_AGE_MAX);
    if most < least {
        rating.report("`to` must not be less than `from`");
    }
    rating.finish();
    Some((least, most))
}

pub(super) fn broadcast(import: &mut CatalogImport, table: TableDecoder<'_>) {
    let line = table.line("id");
    let id = table.needed_parsed("id", BroadcastId::parse);
    let effects = effects(&table);
    table.finish();
    if let Some(id) = id {
        let item = (id, effects);
        import.broadcasts.push(Spanned { line, item });
    }
}

const EFFECTS: [&str; 5] = [
    "live",
    "catchup",
    "catchup_days",
    "start_over",
    "extended_rights",
];

fn effects(table: &TableDecoder<'_>) -> Effects {
    let mut effects = Effects {
        live: table.boolean("live"),
        catchup: table.boolean("catchup"),
        catchup_days: catchup_days(table),
        start_over: table.boolean("start_over"),
        ..Effects::default()
    };
    extended_rights(table, &mut effects);
    // A misspelt member would otherwise leave a rule without effect.
    if !table.has_any(&EFFECTS) {
        table.report("sets no rights");
    }
    effects
}

pub(super) fn catchup_days(table: &TableDecoder<'_>) -> Option<u16> {
    table.number("catchup_days", 0..=i64::from(CATCHUP_DAYS_MAX))
}

pub(super) fn extended_rights(table: &TableDecoder<'_>, effects: &mut Effects) {
    if let Some(rights) = table.table("extended_rights") {
        effects.pause = rights.boolean("pause");
        effects.rewind = rights.boolean("rewind");
        effects.fast_forward = rights.boolean("fastForward");
        rights.finish();
    }
}

pub(super) fn record_reference(
    import: &mut CatalogImport,
    table: &TableDecoder<'_>,
    node: &Node,
    livestream: bool,
) {
    if let Value::Text(id) = &node.value {
        import.references.push(Spanned {
            line: node.span.line,
            item: Reference {
                by: table.what().to_owned(),
                livestream,
                id: id.clone(),
            },
        });
    }
}
