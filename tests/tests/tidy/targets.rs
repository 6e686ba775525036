//! What manifests tell cargo not to test has no tests.

use super::source::Source;
use super::{Tree, none, shows};

/// Languages of fences that rustdoc does not run.
const NOT_RUST: [&str; 5] = ["json", "sh", "sql", "text", "toml"];

/// Whether a file of a package is one of a target, from the section that declares it: `lib]` or `[bin]]`.
fn belongs(section: &str, inside: &str) -> bool {
    if section.starts_with("lib]") {
        let of_bins = inside == "src/main.rs" || inside.starts_with("src/bin/");
        return inside.starts_with("src/") && !of_bins;
    }
    let value = |key: &str| {
        let line = section.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.map(|value| value.trim_end_matches('"'))
    };
    let file = value("path")
        .map_or_else(|| format!("src/bin/{}.rs", value("name").unwrap_or_default()), str::to_owned);
    inside == file || file.strip_suffix("main.rs").is_some_and(|folder| inside.starts_with(folder))
}

fn has_test(source: &Source) -> bool {
    ["#[test]", "::test]", "::test(", "proptest!"].iter().any(|mark| source.code.contains(mark))
}

fn has_doctest(source: &Source) -> bool {
    let lines = source.text.lines().map(str::trim_start);
    let prose = lines.filter_map(|line| line.strip_prefix("//!").or(line.strip_prefix("///")));
    let mut fences = prose.filter_map(|line| line.trim_start().strip_prefix("```"));
    while let Some(language) = fences.next() {
        if !NOT_RUST.contains(&language.trim_end()) {
            return true;
        }
        fences.next();
    }
    false
}

fn tests_that_never_run(tree: &Tree) -> Vec<String> {
    let sources = tree.sources();
    let mut found = Vec::new();
    for (path, manifest) in &tree.files {
        let Some(folder) = path.strip_suffix("Cargo.toml") else { continue };
        let sections = manifest.split("\n[");
        for section in sections.filter(|it| it.starts_with("lib]") || it.starts_with("[bin]]")) {
            let says = |line: &str| section.lines().any(|own| own == line);
            for source in &sources {
                let inside = source.path.strip_prefix(folder);
                if !inside.is_some_and(|inside| belongs(section, inside)) {
                    continue;
                }
                if says("test = false") && has_test(source) {
                    found.push(format!("{} has a test, which {path} switches off", source.path));
                }
                if says("doctest = false") && has_doctest(source) {
                    found.push(format!("{} has a doctest, which {path} switches off", source.path));
                }
            }
        }
    }
    found
}

#[test]
fn no_test_is_switched_off_in_a_manifest() {
    none(&tests_that_never_run(&Tree::here()));
}

#[test]
fn rules_about_targets_see_what_breaks_them() {
    let manifest = "[package]\n\n[lib]\ndoctest = false\n\n[[bin]]\nname = \"b\"\ntest = false\n\n\
        [[bin]]\nname = \"c\"\npath = \"src/bin/c/main.rs\"\ntest = false\n";
    let test = "#[test]\nfn t() {}";
    let tree = Tree::of(&[
        ("a/Cargo.toml", manifest),
        ("a/src/lib.rs", test),
        ("a/src/run.rs", "//! ```\n//! f();\n//! ```"),
        ("a/src/shell.rs", "//! ```sh\n//! ls\n//! ```"),
        ("a/src/bin/b.rs", test),
        ("a/src/bin/c/part.rs", test),
        ("a/tests/all.rs", test),
    ]);
    let wrong = ["run.rs has a doctest", "bin/b.rs has a test", "c/part.rs has a test"];
    shows(&tests_that_never_run(&tree), &wrong);
}
