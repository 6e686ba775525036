//! `ablation.txt` names a test for each rule that the engine enforces, and each of them exists.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The lines of the table: rule and pattern.
fn table() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("ablation.txt")).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    rows.map(|line| {
        let (rule, pattern) = line.split_once(char::is_whitespace).unwrap();
        (rule.to_owned(), pattern.trim().to_owned())
    })
    .collect()
}

fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// Rules named in the engine's own files (not in its tests, not in the list of rules).
fn enforced() -> BTreeSet<String> {
    let mut rules = BTreeSet::new();
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() || path.ends_with("rule.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (place, _) in text.match_indices("Rule::") {
            let name = text[place + 6..].split(|c: char| !c.is_alphanumeric()).next().unwrap();
            // In a doc comment it is the method that is named.
            if name != "on" {
                rules.insert(name.to_owned());
            }
        }
    }
    rules
}

#[test]
fn every_rule_of_the_engine_is_in_the_table() {
    let listed: BTreeSet<String> = table().into_iter().map(|(rule, _)| rule).collect();
    let missing: Vec<String> = enforced().difference(&listed).cloned().collect();
    assert!(missing.is_empty(), "no test in ablation.txt for {missing:?}");
}

#[test]
fn every_pattern_of_the_table_names_a_test() {
    let mut text = String::new();
    sources(&root().join("src/tests"), &mut text);
    for (rule, pattern) in table() {
        let (module, test) = pattern.split_once("::").unwrap();
        let file = root().join("src/tests").join(module).with_extension("rs");
        assert!(file.exists(), "{rule}: no tests in {}", file.display());
        let named = text.contains(&format!("fn {test}"))
            || fs::read_to_string(file).unwrap().contains(&format!("fn {test}"));
        assert!(named, "{rule}: no test is called {pattern}");
    }
}
