//! The tables of BENCHMARKS.md are made of what was measured, `bench/results/*.json`.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use service_kit::testing::document;

use super::{Tree, none, shows};

const BENCHMARKS: &str = "BENCHMARKS.md";
/// A table stands between a line with its file and the next empty line.
const BEGINS: &str = "<!-- bench/results/";

/// What only some scenarios ask for, as a column names it.
const MORE: [(&str, &str); 14] = [
    ("slowest tenth", "slowest tenth of the rows, of that rate"),
    ("WAL B per event", "WAL bytes per event"),
    ("WAL B at the rate", "at the rate"),
    ("dead rows per event", "dead rows per event"),
    ("p50 ms", "p50 ms"),
    ("p99 ms", "p99 ms"),
    ("PostgreSQL ms, last minute", "PostgreSQL, ms per event"),
    ("consumer ms, last minute", "consumer, ms per event"),
    ("p50 ms at half", "p50 ms at half"),
    ("p99 ms at half", "p99 ms at half"),
    ("relay CPU ms", "CPU ms per event"),
    ("server CPU ms", "and of PostgreSQL"),
    ("idle tx/s", "transactions/s when idle"),
    ("idle CPU ms/s", "CPU ms/s when idle"),
];

/// The document with each table as its file has it.
fn with_tables(tree: &Tree) -> String {
    let mut text = String::new();
    let mut is_table = false;
    for line in tree.text(BENCHMARKS).unwrap_or_default().lines() {
        is_table &= !line.is_empty();
        if !is_table {
            text.push_str(line);
            text.push('\n');
        }
        if let Some(file) = line.strip_prefix(BEGINS).and_then(|rest| rest.strip_suffix(" -->")) {
            is_table = true;
            let results = tree.text(&format!("bench/results/{file}")).unwrap_or("[]");
            let results: Vec<Value> = serde_json::from_str(results).unwrap_or_default();
            text.push_str(&table(&results));
        }
    }
    text
}

fn table(results: &[Value]) -> String {
    let more: Vec<_> =
        MORE.iter().filter(|(key, _)| results.iter().any(|line| line[key].is_f64())).collect();
    let fixed = [
        "candidate",
        "events/s, median (min to max)",
        "CPU s per 100k, consumer + database",
        "peak MB",
    ];
    let heads: Vec<&str> = fixed.into_iter().chain(more.iter().map(|(_, head)| *head)).collect();
    let mut text = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for line in results {
        let rate = &line["events_per_s"];
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let per = |key: &str| number(&line[key]) * 100_000.0 / number(&line["events"]);
        let _ = write!(
            text,
            "| `{}` | {:.0} ({:.0} to {:.0}) | {:.2} + {:.2} | {:.0} |",
            line["candidate"].as_str().unwrap_or_default(),
            number(&rate["median"]),
            number(&rate["min"]),
            number(&rate["max"]),
            per("cpu_s"),
            per("server_cpu_s"),
            number(&line["rss_mb"]),
        );
        for (key, _) in &more {
            let figure = line[key].as_f64().map(|figure| format!("{figure:.2}"));
            let _ = write!(text, " {} |", figure.unwrap_or_default());
        }
        text.push('\n');
    }
    text
}

fn tables_of_other_results(tree: &Tree) -> Vec<String> {
    if tree.text(BENCHMARKS) == Some(&with_tables(tree)) {
        return Vec::new();
    }
    vec![format!(
        "{BENCHMARKS} has other tables than bench/results: run this test with UPDATE_DOCS=1"
    )]
}

#[test]
fn tables_of_benchmarks_are_what_was_measured() {
    let mut tree = Tree::here();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(BENCHMARKS);
    let there = document(path.to_str().unwrap_or_default(), &with_tables(&tree));
    for (path, text) in &mut tree.files {
        if path == BENCHMARKS {
            text.clone_from(&there);
        }
    }
    none(&tables_of_other_results(&tree));
}

#[test]
fn a_table_that_was_not_measured_is_seen() {
    let results = r#"[{"candidate": "batch", "events": 200000, "events_per_s": {"min": 1, "median": 2, "max": 3},
        "cpu_s": 1.0, "server_cpu_s": 2.0, "rss_mb": 90.4, "p50 ms": 1.5},
        {"candidate": "loop", "events": 200000, "events_per_s": {"min": 1, "median": 2, "max": 3},
        "cpu_s": 1.0, "server_cpu_s": 2.0, "rss_mb": 90.4}]"#;
    let right = "# B\n\n<!-- bench/results/a.json -->\n\
        | candidate | events/s, median (min to max) | CPU s per 100k, consumer + database | peak MB | p50 ms |\n\
        |---|---|---|---|---|\n| `batch` | 2 (1 to 3) | 0.50 + 1.00 | 90 | 1.50 |\n\
        | `loop` | 2 (1 to 3) | 0.50 + 1.00 | 90 |  |\n\nText.\n";
    let tree = |text: &str| Tree::of(&[(BENCHMARKS, text), ("bench/results/a.json", results)]);
    none(&tables_of_other_results(&tree(right)));
    shows(&tables_of_other_results(&tree(&right.replace("2 (1", "9 (1"))), &["UPDATE_DOCS"]);
}
