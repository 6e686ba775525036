//! Counts tests from what the test binaries print.

/// What all test binaries together reported.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// Names of the tests that failed.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// Takes in one line of output.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
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
        assert_eq!(tally, Tally { passed: 42, failed: 1, ignored: 2, failures });
    }
}
