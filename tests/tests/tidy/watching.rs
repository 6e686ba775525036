//! What watches the two programs: rules for alerts and dashboards name metrics that there are, and say what they show
//! and what to do.

use std::collections::BTreeSet;

use serde_json::Value;
use service_kit::telemetry::{Metric, MetricKind};
use tests::{Alert, RULES, RULES_OF_RELAYS};

use super::{Tree, none, shows};

const DASHBOARDS: [&str; 2] = ["deploy/grafana/inbox.json", "deploy/grafana/outbox.json"];

/// The names that a scrape of one of the two programs can have.
fn known() -> BTreeSet<String> {
    let all = inbox_consumer::telemetry::METRICS.iter().chain(outbox_relay::telemetry::METRICS);
    all.flat_map(|Metric { name, kind, .. }| match kind {
        MetricKind::Histogram => {
            ["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")).to_vec()
        }
        _ => vec![(*name).to_owned()],
    })
    .collect()
}

/// The metrics of ours that an expression names.
fn named(expr: &str) -> impl Iterator<Item = &str> {
    let part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = expr.split(move |letter| !part(letter));
    words.filter(|word| word.starts_with("inbox_") || word.starts_with("outbox_"))
}

fn metrics_that_are_not(place: &str, expr: &str) -> Vec<String> {
    let known = known();
    let lost = named(expr).filter(|name| !known.contains(*name));
    let mut found: Vec<String> =
        lost.map(|name| format!("{place} names {name}, which neither program measures")).collect();
    if named(expr).next().is_none() {
        found.push(format!("{place} names no metric of ours: {expr}"));
    }
    found
}

/// Anchors are made as code hosts make them.
fn anchor(heading: &str) -> String {
    let letters = heading.trim().to_lowercase();
    let kept = letters.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn is_heading(tree: &Tree, link: &str) -> bool {
    let Some((page, wanted)) = link.split_once('#') else { return false };
    let page = tree.text(page).unwrap_or_default();
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).any(|anchor| anchor == wanted)
}

fn rules_that_lack(tree: &Tree, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let tested = path.replace(".yml", ".test.yaml");
    let tests = tree.text(&tested).unwrap_or_default();
    for Alert { name, expr, summary, description, runbook, .. } in
        Alert::all(tree.text(path).unwrap_or_default())
    {
        found.extend(metrics_that_are_not(&format!("{path}, {name},"), &expr));
        if summary.is_empty() || description.is_empty() {
            found.push(format!("{path}: {name} says nothing of itself"));
        }
        if !is_heading(tree, &runbook) {
            found
                .push(format!("{path}: the runbook of {name} is {runbook:?}, which is no heading"));
        }
        for case in ["fires", "does not fire"] {
            if !tests.lines().any(|line| line.trim() == format!("- name: {name} {case}")) {
                found.push(format!("{tested} does not show that {name} {case}"));
            }
        }
    }
    found
}

/// The panels of a dashboard, those in its rows, too.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let top = dashboard["panels"].as_array().into_iter().flatten();
    let all = top.flat_map(|panel| {
        let inside = panel["panels"].as_array().into_iter().flatten();
        std::iter::once(panel).chain(inside)
    });
    all.filter(|panel| panel["type"] != "row").collect()
}

fn panels_that_lack(path: &str, text: &str) -> Vec<String> {
    let dashboard: Value = match serde_json::from_str(text) {
        Ok(dashboard) => dashboard,
        Err(error) => return vec![format!("{path} is no JSON: {error}")],
    };
    let mut found = Vec::new();
    let variables = dashboard["templating"]["list"].as_array().into_iter().flatten();
    if !variables.into_iter().any(|it| it["type"] == "datasource" && it["name"] == "datasource") {
        found.push(format!("{path} has no variable for its datasource"));
    }
    for panel in panels(&dashboard) {
        let title = panel["title"].as_str().unwrap_or_default();
        let place = format!("{path}, {title:?},");
        let said = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        for (what, value) in [
            ("title", &panel["title"]),
            ("description", &panel["description"]),
            ("unit", &panel["fieldConfig"]["defaults"]["unit"]),
        ] {
            if !said(value) {
                found.push(format!("{place} has no {what}"));
            }
        }
        if panel["datasource"]["uid"] != "${datasource}" {
            found.push(format!("{place} does not ask the datasource that was chosen"));
        }
        let targets = panel["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
        if targets.is_empty() {
            found.push(format!("{place} asks nothing"));
        }
        for target in targets {
            found.extend(metrics_that_are_not(&place, target["expr"].as_str().unwrap_or_default()));
        }
    }
    found
}

#[test]
fn alerts_name_metrics_that_there_are_and_what_to_do() {
    let tree = Tree::here();
    for path in [RULES, RULES_OF_RELAYS] {
        none(&rules_that_lack(&tree, path));
    }
}

#[test]
fn dashboards_name_metrics_that_there_are_and_say_what_they_show() {
    let tree = Tree::here();
    for path in DASHBOARDS {
        let text = tree.text(path).unwrap_or_default();
        none(&panels_that_lack(path, text));
        let dashboard: Value = serde_json::from_str(text).unwrap();
        assert!(panels(&dashboard).len() >= 10, "{path} shows little");
    }
}

#[test]
fn rules_about_watching_see_what_breaks_them() {
    let page = "# P\n## What to do\n";
    let rules = "- alert: A\n  expr: outbox_gone > inbox_ready\n  annotations:\n    summary: s\n    \
                 runbook: docs/p.md#what-to-dó\n";
    let tree = Tree::of(&[("a.yml", rules), ("docs/p.md", page)]);
    assert!(is_heading(&tree, "docs/p.md#what-to-do") && !is_heading(&tree, "docs/p.md"));
    shows(
        &rules_that_lack(&tree, "a.yml"),
        &[
            "names outbox_gone",
            "A says nothing",
            "which is no heading",
            "does not show that A fires",
            "does not show that A does not fire",
        ],
    );
    let dashboard = r#"{"panels": [{"type": "row", "panels": [{"type": "stat", "title": "T",
        "targets": [{"expr": "rate(inbox_transaction_seconds[5m])"}, {"expr": "up"}]}]}]}"#;
    shows(
        &panels_that_lack("d.json", dashboard),
        &[
            "no variable",
            "has no description",
            "has no unit",
            "does not ask the datasource",
            "names inbox_transaction_seconds",
            "names no metric of ours: up",
        ],
    );
    shows(&panels_that_lack("d.json", "{"), &["is no JSON"]);
}
