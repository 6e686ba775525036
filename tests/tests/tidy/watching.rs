//! What watches the two programs: rules for alerts and dashboards name metrics that there are, and say what they show
//! and what to do.

use std::collections::BTreeSet;

use serde_json::Value;
use service_kit::{
    docs_url,
    telemetry::{Metric, MetricKind},
};
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

/// Whether an address is that of a heading, on the site that messages name as well. The name of a standstill is always
/// one: `every_reason_has_its_section`.
fn is_heading(tree: &Tree, url: &str) -> bool {
    let site = docs_url("");
    let place = url.strip_prefix(site.trim_end_matches(".html"));
    let Some((page, wanted)) = place.and_then(|place| place.split_once(".html#")) else {
        return false;
    };
    if (page, wanted) == ("operations", "{{ $labels.reason }}") {
        return true;
    }
    let page = tree.text(&format!("docs/{page}.md")).unwrap_or_default();
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).any(|anchor| anchor == wanted)
}

/// Labels of ours that tell what else may have the same alert, and what the rules and their tests say of them.
const OWNERS: [&str; 2] = ["consumer", "outbox"];

/// The rule keeps consumers and outboxes apart, and so those of different environments; its test has two that fire.
fn owners_that_are_lost(place: &str, expr: &str, test: &str) -> Vec<String> {
    let mut found = Vec::new();
    let kept = OWNERS.map(|owner| format!("by (namespace, {owner}"));
    for grouping in expr.split("by (").skip(1).map(|rest| format!("by ({rest}")) {
        if !kept.iter().any(|kept| grouping.starts_with(kept)) {
            found.push(format!("{place} adds up different consumers or outboxes: {grouping}"));
        }
    }
    if ["sum(", "max(", "min(", "count("].iter().any(|over_all| expr.contains(over_all)) {
        found.push(format!("{place} drops every label: {expr}"));
    }
    let alerts = test.split("exp_labels:").skip(1);
    let owner = |alert: &str| -> Option<String> {
        let is_owner =
            |line: &&str| OWNERS.iter().any(|owner| line.starts_with(&format!("{owner}: ")));
        alert.lines().map(str::trim).find(is_owner).map(str::to_owned)
    };
    let owners: BTreeSet<String> = alerts.filter_map(owner).collect();
    if owners.len() < 2 {
        found.push(format!("{place} is not shown to fire for two that are named in its labels"));
    }
    found
}

fn rules_that_lack(tree: &Tree, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let tested = path.replace(".yml", ".test.yaml");
    let tests = tree.text(&tested).unwrap_or_default();
    for Alert { name, expr, summary, description, runbook_url, .. } in
        Alert::all(tree.text(path).unwrap_or_default())
    {
        let place = format!("{path}, {name},");
        found.extend(metrics_that_are_not(&place, &expr));
        let test = tests.split_once(&format!("- name: {name} fires\n"));
        let test = test.and_then(|(_, rest)| rest.split("- name: ").next()).unwrap_or_default();
        found.extend(owners_that_are_lost(&place, &expr, test));
        if summary.is_empty() || description.is_empty() {
            found.push(format!("{path}: {name} says nothing of itself"));
        }
        if !is_heading(tree, &runbook_url) {
            found.push(format!("{place} leads to {runbook_url:?}, which is no heading"));
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

/// What no alert is about, and a dashboard shows all the same.
const SHOWN: [&str; 2] = ["inbox_intake_requests_total", "inbox_attempts_failed_total"];

/// Who was called by an alert finds its metric on the dashboard.
fn metrics_without_a_panel(rules: &str, text: &str) -> Vec<String> {
    let shown =
        |name: &str| text.contains(&format!("{name}{{")) || text.contains(&format!("{name}["));
    let alerts = Alert::all(rules);
    let names: BTreeSet<&str> = alerts.iter().flat_map(|alert| named(&alert.expr)).collect();
    let lost = names.into_iter().filter(|name| !shown(name));
    lost.map(|name| format!("no panel shows {name}, which an alert is about")).collect()
}

#[test]
fn dashboards_show_what_alerts_are_about() {
    let tree = Tree::here();
    let text = |path: &str| tree.text(path).unwrap_or_default();
    for (rules, dashboard) in [RULES, RULES_OF_RELAYS].into_iter().zip(DASHBOARDS) {
        none(&metrics_without_a_panel(text(rules), text(dashboard)));
    }
    for name in SHOWN {
        assert!(text(DASHBOARDS[0]).contains(name), "no panel shows {name}");
    }
}

#[test]
fn rules_about_watching_see_what_breaks_them() {
    let page = "# P\n## What to do\n";
    let rules = "- alert: A\n  expr: sum by (topic) (outbox_gone) > max(inbox_ready)\n  annotations:\n    summary: s\n    \
                 runbook_url: docs/p.md#what-to-do\n";
    let tree = Tree::of(&[("a.yml", rules), ("docs/p.md", page)]);
    assert!(is_heading(&tree, &docs_url("p#what-to-do")) && !is_heading(&tree, &docs_url("p")));
    assert!(!is_heading(&tree, &docs_url("p#what-to-dó")));
    shows(
        &rules_that_lack(&tree, "a.yml"),
        &[
            "names outbox_gone",
            "adds up different consumers or outboxes: by (topic)",
            "drops every label",
            "is not shown to fire for two",
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
    shows(&metrics_without_a_panel(rules, "outbox_gone{a=\"b\"}"), &["no panel shows inbox_ready"]);
}
