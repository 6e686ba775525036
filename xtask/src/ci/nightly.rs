//! Which tests are left to `cargo xtask nightly`: the table `tests/nightly.txt`, with a reason for each line.

use std::fs;

use xtask::failure::{Explain, Outcome, failure};

use crate::folders::workspace;

/// From the workspace's root.
const FILE: &str = "tests/nightly.txt";

/// Tests whose path contains the pattern, and why they are not run for every push.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) pattern: String,
    pub(crate) reason: String,
}

/// All lines.
pub(crate) fn table() -> Outcome<Vec<Line>> {
    let file = workspace().join(FILE);
    parse(&fs::read_to_string(&file).explain(|| format!("cannot read {}", file.display()))?)
}

fn parse(text: &str) -> Outcome<Vec<Line>> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let read = |line: &str| match line.split_once(char::is_whitespace) {
        Some((pattern, reason)) if !reason.trim().is_empty() => {
            Ok(Line { pattern: pattern.to_owned(), reason: reason.trim().to_owned() })
        }
        _ => failure(format!("{FILE}: `{line}` gives no reason")),
    };
    lines.map(read).collect()
}

/// The filter of nextest for tests of every push.
pub(crate) fn push_filter(lines: &[Line]) -> String {
    let patterns: Vec<String> =
        lines.iter().map(|line| format!("test({})", line.pattern)).collect();
    format!("not ({})", patterns.join(" | "))
}

/// How many tests each tier runs. Fails where a line is not about exactly the tests that it seems to be about: about
/// none, or about one of another line's.
pub(crate) fn divide(lines: &[Line], tests: &[String]) -> Outcome<Tiers> {
    let mut nightly = 0;
    for test in tests {
        let about: Vec<&str> = lines
            .iter()
            .filter(|line| test.contains(&line.pattern))
            .map(|line| &*line.pattern)
            .collect();
        if let [one, other, ..] = about[..] {
            return failure(format!("{FILE}: both `{one}` and `{other}` are about {test}"));
        }
        nightly += about.len();
    }
    let about_none = |line: &&Line| !tests.iter().any(|test| test.contains(&line.pattern));
    if let Some(line) = lines.iter().find(about_none) {
        return failure(format!("{FILE}: no test has `{}` in its path", line.pattern));
    }
    Ok(Tiers { push: tests.len() - nightly, nightly })
}

/// Numbers of tests.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Tiers {
    /// Run for every push.
    pub(crate) push: usize,
    /// Run by `cargo xtask nightly` besides.
    pub(crate) nightly: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests() -> Vec<String> {
        ["services::slow::one", "services::slow::two", "quick"].map(str::to_owned).to_vec()
    }

    #[test]
    fn each_test_is_in_one_tier() {
        let lines = parse("# comment\n\nservices::slow  It takes minutes.\n").unwrap();
        assert_eq!(lines[0].reason, "It takes minutes.");
        assert_eq!(divide(&lines, &tests()).unwrap(), Tiers { push: 1, nightly: 2 });
        assert_eq!(push_filter(&lines), "not (test(services::slow))");
    }

    #[test]
    fn a_line_about_no_test_or_about_anothers_is_refused() {
        let about = |text: &str| divide(&parse(text).unwrap(), &tests()).unwrap_err().0;
        assert!(about("gone It was here.").contains("no test has `gone`"));
        let twice = about("slow Slow.\nslow::two Slower.");
        assert!(twice.contains("both `slow` and `slow::two`"), "{twice}");
        for line in ["slow\n", "slow  \n"] {
            assert!(parse(line).is_err(), "`{line}` has no reason");
        }
    }
}
