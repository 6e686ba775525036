//! The operations page has a section for every reason that a person may meet, and warnings that must not
//! get lost are where people read.

use tests::{Alert, RULES, RULES_OF_RELAYS};

use super::{Tree, none, shows};

const PAGE: &str = "docs/operations.md";

/// Where the names are given out: the compiler sees to it that every variant has one.
const NAMES: [(&str, &str); 2] = [
    ("inbox-engine/src/standstill.rs", "pub fn name(&self)"),
    ("inbox-engine/src/fault.rs", "pub fn as_str(self)"),
];

/// Reasons that only a table or a command knows.
const MORE: [&str; 3] = ["not_owned", "owner_silent", "releasing"];

/// What each section says.
const PARTS: [&str; 3] = ["**Meaning**", "**Symptoms**", "**Action**"];

/// Sentences without which somebody loses something, and where they have to be.
const WARNINGS: [(&str, &str); 4] = [
    // A12: mail and HTTP are not covered.
    ("README.md", "exactly-once for what a handler does outside its transaction"),
    ("inbox-handler/src/handler/mod.rs", "**Only what goes through `tx` happens exactly once.**"),
    (PAGE, "What a handler does outside its transaction"),
    // A11: what an attempt leaves in memory.
    ("inbox-handler/src/handler/mod.rs", "**It may run more than once for an event**"),
];

/// The names that a function of the engine gives out.
fn names(text: &str, function: &str) -> Vec<String> {
    let body = text.split_once(function).map_or("", |(_, behind)| behind);
    let body = body.split("\n    }\n").next().unwrap_or_default();
    let arms = body.lines().filter_map(|line| line.split_once("=> \""));
    arms.filter_map(|(_, name)| name.split('"').next()).map(str::to_owned).collect()
}

fn missing_sections(tree: &Tree) -> Vec<String> {
    let page = tree.text(PAGE).unwrap_or_default();
    let of = |(path, function): &(&str, &str)| names(tree.text(path).unwrap_or_default(), function);
    let all = NAMES.iter().flat_map(of).chain(MORE.map(str::to_owned));
    let mut found = Vec::new();
    for name in all {
        let head = format!("### `{name}`");
        let section = page.split("\n#").find(|part| format!("#{part}").starts_with(&head));
        let Some(section) = section else {
            found.push(format!("{PAGE} has no section {head}"));
            continue;
        };
        let lacking = PARTS.iter().filter(|part| !section.contains(**part));
        found.extend(lacking.map(|part| format!("{PAGE}: the section of {name} lacks {part}")));
    }
    found
}

fn missing_warnings(tree: &Tree) -> Vec<String> {
    // Line breaks are the editor's.
    let flat =
        |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace("/// ", "");
    let has =
        |path: &str, words: &str| tree.text(path).is_some_and(|text| flat(text).contains(words));
    let lost = WARNINGS.iter().filter(|(path, words)| !has(path, words));
    lost.map(|(path, words)| format!("{path} does not say any more: {words}")).collect()
}

#[test]
fn every_reason_has_its_section() {
    let tree = Tree::here();
    for (path, function) in &NAMES {
        let names = names(tree.text(path).unwrap_or_default(), function);
        assert!(names.len() >= 7, "{path} gives out only {names:?}");
    }
    none(&missing_sections(&tree));
}

#[test]
fn warnings_are_where_people_read() {
    none(&missing_warnings(&Tree::here()));
}

/// What the page says of a rule for alerts that is not as the file says it.
fn alerts_without_a_row(tree: &Tree) -> Vec<String> {
    let page = tree.text(PAGE).unwrap_or_default();
    let of = |rules| Alert::all(tree.text(rules).unwrap_or_default());
    let rows = [of(RULES), of(RULES_OF_RELAYS)].concat();
    let lost = rows.iter().map(Alert::row).filter(|row| !page.lines().any(|line| line == row));
    lost.map(|row| format!("{PAGE} lacks the row: {row}")).collect()
}

#[test]
fn the_page_has_the_alerts_of_the_rule_file() {
    let tree = Tree::here();
    for rules in [RULES, RULES_OF_RELAYS] {
        assert!(Alert::all(tree.text(rules).unwrap_or_default()).len() >= 9, "{rules}");
    }
    none(&alerts_without_a_row(&tree));
}

#[test]
fn rules_about_operations_see_what_breaks_them() {
    let engine = "pub fn name(&self) -> &str {\n Self::A(_) => \"a_reason\",\n Self::B => \"b_reason\",\n    }\n";
    let more: String =
        MORE.iter().map(|name| format!("\n### `{name}`\n{}\n", PARTS.join(" "))).collect();
    let page =
        format!("# P\n{more}\n### `a_reason`\n**Meaning** x\n**Action** y\n## Q\n**Symptoms**");
    let tree = Tree::of(&[(NAMES[0].0, engine), (PAGE, &page)]);
    shows(&missing_sections(&tree), &["a_reason lacks **Symptoms**", "no section ### `b_reason`"]);
    assert_eq!(missing_warnings(&tree).len(), WARNINGS.len());
    let rules = "- alert: InboxX\n  expr: a{b=\"c|d\"} > 1\n  for: 1m\n  annotations:\n    summary: because\n";
    let tree = Tree::of(&[(RULES, rules), (PAGE, "")]);
    shows(&alerts_without_a_row(&tree), &["| `InboxX` | 1m | because |"]);
}
