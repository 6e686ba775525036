//! The rules of the protocol: each is somewhere in the code, and what switches those of statements off is apart from them.

use super::source::Source;
use super::{Tree, none, shows};

const ENUM: &str = "inbox-engine/src/rule.rs";

/// The files that exist under the feature `ablation` alone.
fn is_ablation(path: &str) -> bool {
    path.ends_with("/ablation.rs")
}

/// The rules of the tables of tests.
fn listed(tree: &Tree) -> Vec<(&str, &str)> {
    let tables = tree
        .files
        .iter()
        .filter(|(path, _)| path.ends_with("/ablation.txt") || path.starts_with("tests/ablation/"));
    let rows = tables.flat_map(|(path, text)| text.lines().map(move |line| (path, line.trim())));
    let rows = rows.filter(|(_, line)| !line.starts_with('#'));
    let rule = |line: &'_ str| line.find([' ', ':']).unwrap_or(line.len());
    let rows = rows.map(|(path, line)| (path.as_str(), &line[..rule(line)]));
    rows.filter(|(_, rule)| !rule.is_empty()).collect()
}

fn rules_that_nothing_enforces(tree: &Tree) -> Vec<String> {
    let production: Vec<Source> = tree.production().filter(|source| source.path != ENUM).collect();
    let paths: Vec<String> = production.iter().flat_map(Source::paths).collect();
    let enforced = |rule: &str| {
        let rule = format!("Rule::{rule}");
        paths.iter().any(|path| path.ends_with(&rule))
    };
    let lacking = listed(tree).into_iter().filter(|(_, rule)| !enforced(rule));
    let sentence =
        |(table, rule)| format!("{table} has {rule}, which is in no code: its tests show nothing");
    lacking.map(sentence).collect()
}

fn cuts_out_of_place(tree: &Tree) -> Vec<String> {
    let outside = |source: &Source| !is_ablation(&source.path);
    let cutting = tree.production().filter(|source| outside(source) && source.says("Cut"));
    let sentence =
        |source: Source| format!("{} has a cut: they are in `ablation.rs` alone", source.path);
    cutting.map(sentence).collect()
}

fn ablation_in_every_build(tree: &Tree) -> Vec<String> {
    const FEATURE: &str = "#[cfg(feature = \"ablation\")]";
    let mut found = Vec::new();
    for source in tree.production() {
        let lines: Vec<&str> = source.text.lines().map(str::trim).collect();
        let declared = |line: &str| line.ends_with("mod ablation;");
        let pairs = lines.windows(2).filter(|pair| declared(pair[1]) && pair[0] != FEATURE);
        found.extend(pairs.map(|_| format!("{} has `ablation` in every build", source.path)));
    }
    found
}

#[test]
fn each_rule_with_a_test_is_in_the_code() {
    none(&rules_that_nothing_enforces(&Tree::here()));
}

#[test]
fn what_switches_rules_of_statements_off_is_in_no_build_for_users() {
    none(&cuts_out_of_place(&Tree::here()));
    none(&ablation_in_every_build(&Tree::here()));
}

#[test]
fn rules_about_rules_see_what_breaks_them() {
    let tree = Tree::of(&[
        (ENUM, "pub enum Rule { A, B, C, D }\nfn f() { Rule::D.on() }"),
        ("inbox-engine/ablation.txt", "# X: a comment\nA module::test\n\nB: module::test"),
        ("tests/ablation/a.txt", "C store:module::test\nD: module::test"),
        ("inbox-engine/src/a.rs", "// Rule::D\nfn a() { if Rule::A.on() {} }"),
        ("inbox-store/src/postgres/ablation.rs", "Cut::new(Rule::B, \"x\", \"\")"),
        ("inbox-store/src/postgres/mod.rs", "#[cfg(feature = \"ablation\")]\nmod ablation;"),
        ("inbox-store/src/sqlite/mod.rs", "use a;\nmod ablation;"),
        ("inbox-store/src/sqlite/claim.rs", "Cut::new(Rule::C, \"x\", \"\")"),
    ]);
    shows(&rules_that_nothing_enforces(&tree), &["tests/ablation/a.txt has D"]);
    shows(&cuts_out_of_place(&tree), &["sqlite/claim.rs"]);
    shows(&ablation_in_every_build(&tree), &["sqlite/mod.rs"]);
}
