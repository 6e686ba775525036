//! What a test run came to, out of the `JUnit` file that nextest writes.

use std::fs;
use std::path::Path;

use roxmltree::{Document, Node};

use xtask::failure::{Explain, Outcome};

/// The lines that are kept of what a failed test printed.
const LINES_MAX: usize = 25;

/// All tests of a run.
#[derive(Default, Debug)]
pub(crate) struct Report {
    pub(crate) tests: Vec<Tested>,
}

/// One test.
#[derive(Debug, PartialEq)]
pub(crate) struct Tested {
    /// The test program and the test's path: `tests::all services::first::one`.
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) end: End,
}

/// How a test ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Passed,
    /// It passed only when it was run again; with the end of what its first run printed.
    Flaky(Vec<String>),
    /// With the end of what it printed.
    Failed(Vec<String>),
}

impl Report {
    pub(crate) fn read(file: &Path) -> Outcome<Self> {
        let reading = || format!("cannot read {}", file.display());
        Self::parse(&fs::read_to_string(file).explain(reading)?).explain(reading)
    }

    fn parse(text: &str) -> Result<Self, roxmltree::Error> {
        let document = Document::parse(text)?;
        let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
        Ok(Self { tests: cases.map(tested).collect() })
    }

    pub(crate) fn count(&self, is_counted: fn(&End) -> bool) -> usize {
        self.tests.iter().filter(|test| is_counted(&test.end)).count()
    }

    /// The slowest tests, the slowest first.
    pub(crate) fn slowest(&self, most: usize) -> Vec<&Tested> {
        let mut tests: Vec<&Tested> = self.tests.iter().collect();
        tests.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        tests.truncate(most);
        tests
    }
}

fn tested(case: Node<'_, '_>) -> Tested {
    let attribute = |name| case.attribute(name).unwrap_or_default();
    let child =
        |names: &[&str]| case.children().find(|node| names.contains(&node.tag_name().name()));
    let end = if let Some(failed) = child(&["failure", "error"]) {
        End::Failed(printed(case, failed))
    } else if let Some(flaky) = child(&["flakyFailure", "flakyError"]) {
        End::Flaky(printed(flaky, flaky))
    } else {
        End::Passed
    };
    Tested {
        name: format!("{} {}", attribute("classname"), attribute("name")),
        seconds: attribute("time").parse().unwrap_or_default(),
        end,
    }
}

/// The end of what a failed run printed, without backtraces; its message where it printed nothing.
fn printed(outputs: Node<'_, '_>, failed: Node<'_, '_>) -> Vec<String> {
    let is_output =
        |node: &Node<'_, '_>| ["system-out", "system-err"].contains(&node.tag_name().name());
    let texts = outputs.children().filter(is_output).filter_map(|node| node.text());
    let mut in_backtrace = false;
    let mut lines: Vec<String> = Vec::new();
    for line in texts.flat_map(str::lines) {
        match line {
            "stack backtrace:" => in_backtrace = true,
            _ => in_backtrace &= !line.contains("panicked at"),
        }
        if !in_backtrace && !line.trim().is_empty() {
            lines.push(line.to_owned());
        }
    }
    lines.drain(..lines.len().saturating_sub(LINES_MAX));
    if lines.is_empty() {
        lines.extend(failed.attribute("message").or(failed.attribute("type")).map(str::to_owned));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"<testsuites><testsuite name="tests::all">
        <testcase name="a::one" classname="tests::all" time="0.5"/>
        <testcase name="a::two" classname="tests::all" time="7.25">
            <flakyFailure type="test failure"><system-out>first run</system-out></flakyFailure>
        </testcase>
        <testcase name="a::three" classname="tests::all" time="2">
            <failure type="test timeout"/>
        </testcase>
        <testcase name="a::four" classname="tests::all" time="1">
            <failure type="test failure" message="it failed"/>
            <system-out>OUT</system-out><system-err>ERR</system-err>
        </testcase></testsuite></testsuites>"#;

    #[test]
    fn each_end_of_a_test_is_told_from_the_others() {
        let noise: Vec<String> = (0..100).map(|number| format!("line {number}")).collect();
        let backtrace = "thread 'b' panicked at y.rs:1:1:\nstack backtrace:\n   0: main\n\
                         thread 'a' panicked at x.rs:1:1:\nleft: 1\n";
        let text = FILE.replace("OUT", &noise.join("\n")).replace("ERR", backtrace);
        let report = Report::parse(&text).unwrap();
        let ends: Vec<&End> = report.tests.iter().map(|test| &test.end).collect();
        assert_eq!(ends[0], &End::Passed);
        assert_eq!(ends[1], &End::Flaky(vec!["first run".to_owned()]));
        assert_eq!(ends[2], &End::Failed(vec!["test timeout".to_owned()]));
        let End::Failed(lines) = ends[3] else { panic!("{ends:?}") };
        assert_eq!((lines.len(), &*lines[0]), (LINES_MAX, "line 78"));
        assert_eq!(lines[LINES_MAX - 1], "left: 1");
        let slowest: Vec<_> = report.slowest(2).iter().map(|test| &*test.name).collect();
        assert_eq!(slowest, ["tests::all a::two", "tests::all a::three"]);
        assert_eq!(report.count(|end| *end == End::Passed), 1);
    }
}
