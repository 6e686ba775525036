//! What is documented is there, and what is there is documented.

use std::collections::BTreeSet;

use tests::Markdown;

use super::{Tree, none, shows};

const MAP: &str = "ARCHITECTURE.md";

/// The crates whose every module is on the map; what else has sources is there as a folder.
const CRATES: [&str; 5] = [
    "inbox-consumer/src/",
    "inbox-engine/src/",
    "inbox-kafka/src/",
    "outbox-core/src/",
    "outbox-relay/src/",
];

/// Every module of the crates is on the map, and the map leads nowhere else. A row names a file, or a
/// folder for its `mod.rs`; braces stand for several.
fn map_and_modules(tree: &Tree) -> Vec<String> {
    let rows = rows_of_the_map(tree.text(MAP).unwrap_or_default());
    let mut found = Vec::new();
    for source in tree.production().filter(|source| source.below(&CRATES)) {
        let folder = source.path.strip_suffix("mod.rs");
        let named = |row: &String| *row == source.path || folder == Some(row);
        if !rows.iter().any(named) {
            let first = source.text.lines().next().unwrap_or_default();
            let what = first.trim_start_matches("//! ").trim_end_matches('.');
            found.push(format!("{MAP} lacks the row: | `{}` | {what} |", source.path));
        }
    }
    let exists =
        |row: &str| tree.files.iter().any(|(path, _)| path == row || path.starts_with(row));
    let lost = rows.iter().filter(|row| !exists(row));
    found.extend(lost.map(|row| format!("{MAP} has a row for {row}, which is not there")));
    found
}

/// What the first column of the map's table names.
fn rows_of_the_map(text: &str) -> BTreeSet<String> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let named = cells.filter_map(|cell| cell.split_once('`').map(|(name, _)| name));
    named.filter(|name| name.contains('/')).flat_map(spread).collect()
}

/// `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`.
fn spread(name: &str) -> Vec<String> {
    let Some((front, (inside, end))) =
        name.split_once('{').and_then(|(front, rest)| Some((front, rest.split_once('}')?)))
    else {
        return vec![name.to_owned()];
    };
    inside.split(',').map(|part| format!("{front}{}{end}", part.trim())).collect()
}

/// Each `key("section.name", …)` has a row in its section.
fn keys_without_a_row(tree: &Tree) -> Vec<String> {
    let keys = tree.text("inbox-consumer/src/config/keys.rs").unwrap_or_default();
    let document = tree.text("docs/configuration.md").unwrap_or_default();
    let mut found = Vec::new();
    for place in keys.split("key(").skip(1) {
        let Some(path) =
            place.trim_start().strip_prefix('"').and_then(|path| path.split('"').next())
        else {
            continue;
        };
        let (section, name) = path.split_once('.').unwrap_or((path, ""));
        let part = document.split("\n## ").find(|part| part.starts_with(&format!("[{section}]")));
        if !part.is_some_and(|part| part.contains(&format!("`{name}`"))) && !name.is_empty() {
            found.push(format!("docs/configuration.md does not document `{path}`"));
        }
    }
    found
}

/// Links between the documents lead somewhere.
fn dead_links(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| path.strip_suffix(".md").is_some()) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for place in text.split("](").skip(1) {
            let link = place.split(')').next().unwrap_or_default();
            if link.contains(':') {
                continue;
            }
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let full = if target.is_empty() { path.clone() } else { normal(folder, target) };
            if !anchor.is_empty() && lacks(tree, &full, anchor) {
                found.push(format!("{path} links to {link}, but {full} has no such heading"));
            }
            let below = format!("{full}/");
            let there = |(path, _): &(String, String)| *path == full || path.starts_with(&below);
            if !tree.files.iter().any(there) {
                found.push(format!("{path} links to {target}, which is not there"));
            }
        }
    }
    found
}

/// Whether a document that is there has no heading for an anchor.
fn lacks(tree: &Tree, path: &str, anchor: &str) -> bool {
    let anchors = tree.text(path).map(|text| Markdown::read(text).anchors());
    anchors.is_some_and(|anchors| !anchors.iter().any(|own| own == anchor))
}

/// Tests that documents name, as `file::what_it_proves`, are there.
fn lost_tests(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let sources = tree.sources();
    for (path, text) in tree.files.iter().filter(|(path, _)| path.strip_suffix(".md").is_some()) {
        let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        for (file, test) in quoted.filter_map(named_test) {
            let (own, inside) = (format!("/{file}.rs"), format!("/{file}/"));
            let mut there = sources
                .iter()
                .filter(|source| source.path.ends_with(&own) || source.path.contains(&inside));
            let begins = [format!("fn {test}("), format!("fn {test}<")];
            if !there.any(|source| begins.iter().any(|begin| source.text.contains(begin))) {
                found.push(format!("{path} names the test {file}::{test}, which is not there"));
            }
        }
    }
    found
}

/// File and function of a test, whose name is a sentence.
fn named_test(quoted: &str) -> Option<(&str, &str)> {
    let (file, test) = quoted.rsplit_once("::")?;
    let file = file.rsplit("::").next()?;
    let word = |text: &str| {
        text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    (word(file) && word(test) && test.matches('_').count() > 2).then_some((file, test))
}

fn normal(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn the_map_shows_every_module_and_nothing_else() {
    none(&map_and_modules(&Tree::here()));
}

#[test]
fn every_configuration_key_is_documented() {
    none(&keys_without_a_row(&Tree::here()));
}

#[test]
fn no_link_between_documents_is_dead() {
    none(&dead_links(&Tree::here()));
}

#[test]
fn every_test_that_a_document_names_is_there() {
    none(&lost_tests(&Tree::here()));
}

#[test]
fn rules_about_documents_see_what_breaks_them() {
    let map = "| path | what |\n|---|---|\n| `inbox-engine/src/` | a |\n| `inbox-engine/src/{b,gone}.rs` | b |\n[x](docs/x.md) [a](inbox-engine) [o](#one) [d](docs/configuration.md#c) [e](docs/configuration.md#d) `b::it_is_all_there` `b::it_is_not_there` `b::one`";
    let tree = Tree::of(&[
        (MAP, map),
        ("inbox-engine/src/mod.rs", "//! A."),
        ("inbox-engine/src/b.rs", "//! B.\nfn it_is_all_there() {}"),
        ("inbox-engine/src/c.rs", "//! What c is."),
        (
            "inbox-consumer/src/config/keys.rs",
            "key(\"one.a\", 1), key(\n  \"one.b\", 1), key(\"two.a\")",
        ),
        ("docs/configuration.md", "# C\n\n## [one]\n\n| `a` | x |\n\n## [two]\n\n| `b` |"),
    ]);
    let wrong = [
        "gone.rs, which is not there",
        "| `inbox-engine/src/c.rs` | What c is |",
        "config/keys.rs",
    ];
    shows(&map_and_modules(&tree), &wrong);
    shows(&keys_without_a_row(&tree), &["`one.b`", "`two.a`"]);
    shows(&dead_links(&tree), &["docs/x.md", "#one", "configuration.md#d"]);
    shows(&lost_tests(&tree), &["b::it_is_not_there, which"]);
}
