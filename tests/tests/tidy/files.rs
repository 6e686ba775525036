//! What every file looks like.

use super::source::Source;
use super::{Tree, none, shows};

const LINES_MAX: usize = 400;
const LINES_OF_TESTS_MAX: usize = 600;

fn without_a_first_line(tree: &Tree) -> Vec<String> {
    let bare = |source: &Source| !source.text.starts_with("//! ");
    let sentence =
        |source: Source| format!("{} does not begin with `//!` and what it is", source.path);
    tree.sources().into_iter().filter(bare).map(sentence).collect()
}

fn too_long(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for source in tree.sources() {
        let max = if source.is_test { LINES_OF_TESTS_MAX } else { LINES_MAX };
        let lines = source.text.lines().count();
        if lines > max {
            found.push(format!("{} has {lines} lines; the most is {max}: split it", source.path));
        }
    }
    found
}

/// Marks of work that is not done, and of tests that do not run. (Written apart, so that this file
/// does not hold them.)
const LEFTOVERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("#[ig", "nore"),
    concat!("#[should", "_panic"),
    concat!("#[al", "low("),
    concat!("#![al", "low("),
];

fn leftovers(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for source in tree.sources() {
        for mark in LEFTOVERS.iter().filter(|mark| source.text.contains(**mark)) {
            found
                .push(format!("{} has `{mark}`: finish it, or say why with `expect`", source.path));
        }
    }
    found
}

/// Names that say nothing, or that DESIGN's list of words replaces.
const EMPTY_NAMES: [&str; 11] = [
    "base",
    "common",
    "data",
    "helper",
    "helpers",
    "impl",
    "info",
    "manager",
    "processor",
    "service",
    "util",
];

fn empty_names(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for source in tree.sources() {
        for name in source.declared() {
            let parts = parts_of(&name);
            // Names of others, where their traits are implemented: the driver's, and of http-body.
            let own = !["type_info", "Data"].contains(&name.as_str());
            let empty = |part: &&String| own && EMPTY_NAMES.contains(&part.as_str());
            if let Some(part) = parts.iter().find(empty) {
                found.push(format!(
                    "{}: `{name}` has \"{part}\" in it, which says nothing",
                    source.path
                ));
            }
            // The standard library's own name is the one to use.
            if parts.len() > 1 && parts[0] == "get" && name != "get_mut" {
                found.push(format!("{}: `{name}` needs no \"get\"", source.path));
            }
        }
    }
    found
}

/// `LaneState` and `lane_state` are `lane`, `state`.
fn parts_of(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for piece in name.split('_').filter(|piece| !piece.is_empty()) {
        let mut lower_before = false;
        for (at, letter) in piece.char_indices() {
            if at == 0 || (letter.is_uppercase() && lower_before) {
                parts.push(String::new());
            }
            lower_before = letter.is_lowercase();
            parts.last_mut().unwrap().extend(letter.to_lowercase());
        }
    }
    parts
}

/// Paths that only one machine has.
fn paths_of_one_machine(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let private = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/tmp/", "wt")];
    for (path, text) in &tree.files {
        for place in private.iter().filter(|place| text.contains(**place)) {
            found.push(format!("{path} names {place}, a place on somebody's machine"));
        }
    }
    found
}

#[test]
fn every_file_begins_by_saying_what_it_is() {
    none(&without_a_first_line(&Tree::here()));
}

#[test]
fn no_file_is_too_long() {
    none(&too_long(&Tree::here()));
}

#[test]
fn nothing_is_left_for_later_ignored_or_silenced() {
    none(&leftovers(&Tree::here()));
}

#[test]
fn names_say_something() {
    none(&empty_names(&Tree::here()));
}

#[test]
fn nothing_names_one_machine() {
    none(&paths_of_one_machine(&Tree::here()));
}

#[test]
fn rules_about_files_see_what_breaks_them() {
    let long = "//! x\n".repeat(500);
    let later = format!("//! x\n// {} this", LEFTOVERS[0]);
    let home = format!("see {}me", concat!("/ho", "me/"));
    let tree = Tree::of(&[
        ("a/src/bare.rs", "fn f() {}"),
        ("a/src/long.rs", &long),
        ("a/src/tests.rs", &long),
        ("a/src/later.rs", &later),
        ("a/src/names.rs", "//! x\nstruct LaneManager; fn get_it() {} struct Database;"),
        ("README.md", &home),
    ]);
    shows(&without_a_first_line(&tree), &["bare.rs"]);
    shows(&too_long(&tree), &["a/src/long.rs has 500 lines"]);
    shows(&leftovers(&tree), &["later.rs"]);
    shows(&empty_names(&tree), &["LaneManager", "get_it"]);
    shows(&paths_of_one_machine(&tree), &["README.md"]);
}
