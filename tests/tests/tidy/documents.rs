//! What is documented is there, and what is there is documented.

use tests::Markdown;

use super::{Tree, none, shows};

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// What one reads before the first change. Why things are so is in `docs/decisions.md`.
const ARCHITECTURE_BYTES_MAX: usize = 15_000;

fn architecture_too_long(tree: &Tree) -> Vec<String> {
    let bytes = tree.text(ARCHITECTURE).unwrap_or_default().len();
    if bytes <= ARCHITECTURE_BYTES_MAX {
        return Vec::new();
    }
    vec![format!(
        "{ARCHITECTURE} has {bytes} bytes; the most is {ARCHITECTURE_BYTES_MAX}: a reason belongs into \
         docs/decisions.md, what one file is about into its first line"
    )]
}

/// Every crate of the workspace is named by its folder.
fn crates_not_in_the_architecture(tree: &Tree) -> Vec<String> {
    let manifest = tree.text("Cargo.toml").unwrap_or_default();
    let members = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let members = members.map_or("", |(members, _)| members);
    let spans = Markdown::read(tree.text(ARCHITECTURE).unwrap_or_default()).spans;
    let named = |folder: &&str| spans.iter().any(|(_, code)| code == *folder);
    let folders = members.split('"').skip(1).step_by(2);
    let sentence = |folder| format!("{ARCHITECTURE} does not name the crate `{folder}`");
    folders.filter(|folder| !named(folder)).map(sentence).collect()
}

/// Code with a slash in it is a path from the root, without any short form, and leads to something.
fn paths_not_in_the_tree(tree: &Tree) -> Vec<String> {
    let spans = Markdown::read(tree.text(ARCHITECTURE).unwrap_or_default()).spans;
    let mut found = Vec::new();
    for (line, code) in spans.iter().filter(|(_, code)| code.contains('/')) {
        let place = code.trim_end_matches('/');
        let below = format!("{place}/");
        let there = |(own, _): &(String, String)| own == place || own.starts_with(&below);
        if !tree.files.iter().any(there) {
            found.push(format!("{ARCHITECTURE}:{line} names {code}, which is not there"));
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
fn the_architecture_is_short() {
    none(&architecture_too_long(&Tree::here()));
}

#[test]
fn the_architecture_names_every_crate() {
    none(&crates_not_in_the_architecture(&Tree::here()));
}

#[test]
fn every_path_that_the_architecture_names_is_there() {
    none(&paths_not_in_the_tree(&Tree::here()));
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
    let architecture = "`inbox-engine`, `inbox-engine/src`, `inbox-engine/src/{b,c}.rs`, `src/b.rs`\n[x](docs/x.md) [a](inbox-engine) [o](#one) [d](docs/configuration.md#c) [e](docs/configuration.md#d) `b::it_is_all_there` `b::it_is_not_there` `b::one`";
    let tree = Tree::of(&[
        (ARCHITECTURE, architecture),
        (
            "Cargo.toml",
            "[workspace]\nmembers = [\"inbox-engine\", \"outbox-core\"]\nother = [\"x\"]",
        ),
        ("inbox-engine/src/b.rs", "//! B.\nfn it_is_all_there() {}"),
        ("inbox-engine/src/c.rs", "//! What c is."),
        ("docs/configuration.md", "# C\n\n## [one]\n\n| `a` | x |\n\n## [two]\n\n| `b` |"),
    ]);
    let long = "x".repeat(ARCHITECTURE_BYTES_MAX + 1);
    shows(&architecture_too_long(&Tree::of(&[(ARCHITECTURE, &long)])), &["has 15001 bytes"]);
    shows(&crates_not_in_the_architecture(&tree), &["`outbox-core`"]);
    shows(&paths_not_in_the_tree(&tree), &["1 names inbox-engine/src/{b,c}.rs", "names src/b.rs"]);
    shows(&dead_links(&tree), &["docs/x.md", "#one", "configuration.md#d"]);
    shows(&lost_tests(&tree), &["b::it_is_not_there, which"]);
}
