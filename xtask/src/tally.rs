//! Counts tests from what the test binaries print.

use std::collections::VecDeque;

/// What all test binaries together reported.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// Names of the tests that failed.
    pub(crate) failures: Vec<String>,
    /// What each of them printed, its last lines without backtraces: a long log is often cut in its middle, these come
    /// at its end.
    pub(crate) printed: Vec<Printed>,
    /// The lines that are read belong to the last of `printed`.
    in_section: bool,
    in_backtrace: bool,
}

/// The end of what a failed test printed.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) test: String,
    pub(crate) lines: VecDeque<String>,
}

const LINES_MAX: usize = 25;

impl Tally {
    /// Takes in one line of output.
    pub(crate) fn read(&mut self, line: &str) {
        let section = line.strip_prefix("---- ").and_then(|x| x.strip_suffix(" stdout ----"));
        if let Some(test) = section {
            (self.in_section, self.in_backtrace) = (true, false);
            self.printed.push(Printed { test: test.to_owned(), lines: VecDeque::new() });
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            for count in counts.split([';', '.']) {
                let mut words = count.split_whitespace();
                let Some(Ok(number)) = words.next().map(str::parse::<u64>) else { continue };
                match words.next() {
                    Some("passed") => self.passed += number,
                    Some("failed") => self.failed += number,
                    Some("ignored") => self.ignored += number,
                    _ => {}
                }
            }
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|x| x.strip_suffix(" ... FAILED"))
        {
            self.failures.push(name.to_owned());
        } else {
            self.keep(line);
        }
    }

    fn keep(&mut self, line: &str) {
        match line {
            "failures:" => self.in_section = false,
            "stack backtrace:" => self.in_backtrace = true,
            _ => self.in_backtrace &= !line.contains("panicked at"),
        }
        let keeps = self.in_section && !self.in_backtrace && !line.is_empty();
        if let Some(printed) = self.printed.last_mut().filter(|_| keeps) {
            printed.lines.push_back(line.to_owned());
            if printed.lines.len() > LINES_MAX {
                printed.lines.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_binaries_add_up() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "test a::c - should panic ... FAILED",
            "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.05s",
            "test result: ok. 40 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.05s",
        ] {
            tally.read(line);
        }
        let failures = vec!["a::c - should panic".to_owned()];
        assert_eq!(
            tally,
            Tally { passed: 42, failed: 1, ignored: 2, failures, ..Tally::default() }
        );
    }

    #[test]
    fn the_end_of_what_a_failed_test_printed_is_kept() {
        let mut tally = Tally::default();
        let noise: Vec<_> = (0..100).map(|number| format!("line {number}")).collect();
        let head = ["failures:", "", "---- a::b stdout ----", ""];
        let tail = [
            "thread 'other' panicked at y.rs:1:1:",
            "stack backtrace:",
            "   0: main",
            "thread 'a::b' panicked at x.rs:1:1:",
            "left: 1",
            "failures:",
            "    a::b",
        ];
        for line in head.into_iter().chain(noise.iter().map(String::as_str)).chain(tail) {
            tally.read(line);
        }
        let [Printed { test, lines }] = &tally.printed[..] else { panic!("{tally:?}") };
        assert_eq!((&**test, lines.len(), &*lines[0]), ("a::b", LINES_MAX, "line 78"));
        assert_eq!(lines[LINES_MAX - 1], "left: 1");
    }
}
