//! `cargo xtask ablate`: each rule of the protocol is switched off, and its tests have to fail.
//!
//! A package that tests rules has a file `ablation.txt`, or several in a folder `ablation`: lines of a
//! rule and a pattern of test names (`engine:` in front means a test of inbox-engine, `store:` one of
//! inbox-store, `handler:` one of inbox-handler, `consumer:` one of inbox-consumer, `relay:` one of outbox-relay). The same tests must pass with the rule on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use xtask::command::capture;
use xtask::failure::{Explain, Outcome, failure};
use xtask::server::{PORTS_SLOT, Process};

use crate::built::{Built, build_tests};
use crate::folders::workspace;
use crate::services::Services;
use crate::toolchain;

/// How often a test may pass without its rule before the rule counts as not needed.
const CHANCES: u32 = 3;

/// Who has tests of rules.
const PACKAGES: [&str; 3] = ["inbox-engine", "inbox-consumer", "tests"];
/// How many steps the engine's histories have without a rule: a rare course of things has its time to happen.
const STEPS: &str = "10000000";
/// How many rules are judged at the same time: their tests wait for servers most of the time.
const AT_ONCE: usize = 4;
/// The first of as many numbers that nextest gives to no test, so that tests beside ours take other ports.
const FIRST_SLOT: usize = 40;
/// Without its rule a test may wait for something that never happens: for so long at least, and for so many times as
/// long as it took with the rule.
const WITHOUT_MIN: Duration = Duration::from_mins(2);
const WITHOUT_TIMES: u32 = 3;
const WITH_MAX: Duration = Duration::from_mins(5);

/// Which rules.
#[derive(Args, Debug)]
pub(crate) struct Choice {
    /// Only these rules; otherwise all.
    rules: Vec<String>,
    /// Only rules that a change since this commit may touch: a changed file names the rule, or has a test of it, or its
    /// row in a table is new.
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, default_missing_value = "HEAD", conflicts_with = "rules")]
    changed: Option<String>,
}

/// Tests of one rule in one package.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    rule: String,
    package: &'static str,
    pattern: String,
}

/// How tests ended.
#[derive(Debug)]
enum Run {
    Passed(u64),
    Failed(String),
}

/// Runs the tests of every chosen rule, with the rule and without.
pub(crate) fn run(choice: &Choice) -> Outcome<ExitCode> {
    toolchain::ensure(toolchain::BUILD)?;
    toolchain::ensure(toolchain::TLS)?;
    let began = Instant::now();
    let rules = match &choice.changed {
        Some(commit) => touched(&changed_files(commit)?, &all_rules()?, &table()?),
        None => chosen(&choice.rules)?,
    };
    if rules.is_empty() {
        println!("the change touches no rule");
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for row in table()? {
        let Some(rule) = rules.iter().find(|rule| **rule == row.rule) else {
            known(&row)?;
            continue;
        };
        rows.entry(rule).or_default().push(row);
    }
    // The tests of this workspace are built with the feature `ablation` on.
    let mut programs = build_tests()?;
    programs.retain(|built| built.is_test);
    let services = Services::find_or_start()??;
    let wrong = judge_all(&rules, &rows, &programs, &services.environment())?;
    println!(
        "\n{} rules in {} s, {wrong} without a test that fails when they are off",
        rules.len(),
        began.elapsed().as_secs()
    );
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How many rules have no test that fails without them. Prints a line about each rule as soon as it is judged.
fn judge_all(
    rules: &[String],
    rows: &BTreeMap<&str, Vec<Row>>,
    programs: &[Built],
    environment: &[(&'static str, String)],
) -> Outcome<usize> {
    let left = Mutex::new(rules.iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let judge_some = |slot: usize| -> Outcome<usize> {
        let bench = Bench { programs, environment, slot };
        let mut wrong = 0;
        while let Some(rule) = next() {
            let verdict = bench.judge(rows.get(rule.as_str()).map_or(&[], Vec::as_slice))?;
            wrong += usize::from(verdict.is_err());
            let word = if verdict.is_ok() { "ok" } else { "WRONG" };
            let sentence = verdict.unwrap_or_else(|sentence| sentence);
            println!("{rule:<26} {word:<6} {sentence}");
        }
        Ok(wrong)
    };
    thread::scope(|scope| {
        let slots = FIRST_SLOT..FIRST_SLOT + AT_ONCE;
        let threads = slots.map(|slot| scope.spawn(move || judge_some(slot))).collect::<Vec<_>>();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(wrong) => wrong,
            Err(_) => failure("a thread that judges rules has died"),
        };
        threads.into_iter().map(join).sum()
    })
}

/// The rules by name, from the enum in the engine.
fn all_rules() -> Outcome<Vec<String>> {
    let file = workspace().join("inbox-engine/src/rule.rs");
    let text = fs::read_to_string(&file).explain(|| format!("cannot read {}", file.display()))?;
    let body = text.split_once("pub enum Rule {").and_then(|(_, rest)| rest.split_once("\n}"));
    let lines = body.map_or("", |(body, _)| body).lines().map(str::trim);
    let names = lines.filter_map(|line| line.strip_suffix(','));
    Ok(names.filter(|name| name.chars().all(char::is_alphanumeric)).map(str::to_owned).collect())
}

fn chosen(named: &[String]) -> Outcome<Vec<String>> {
    let all = all_rules()?;
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        return failure(format!(
            "there is no rule `{unknown}`; inbox-engine/src/rule.rs has them all"
        ));
    }
    Ok(if named.is_empty() { all } else { named.to_vec() })
}

/// Path and text of each file that differs from a commit, new ones included.
fn changed_files(commit: &str) -> Outcome<Vec<(String, String)>> {
    let git =
        |arguments: &[&str]| capture(Command::new("git").args(arguments).current_dir(workspace()));
    let changed = git(&["diff", "--name-only", commit])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    let text =
        |path: &str| Some((path.to_owned(), fs::read_to_string(workspace().join(path)).ok()?));
    Ok(changed.lines().chain(new.lines()).filter_map(text).collect())
}

/// The rules that a change of these files may touch: a file names the rule, or has a test of it, or is a table with a row
/// of it.
fn touched(changed: &[(String, String)], rules: &[String], rows: &[Row]) -> Vec<String> {
    let is_touched = |rule: &&String| {
        changed.iter().any(|(path, text)| {
            let path = Path::new(path);
            let has = |extension: &str| path.extension().is_some_and(|own| own == extension);
            if has("txt") {
                let words = text.lines().filter_map(|line| line.split([' ', ':']).next());
                return words.into_iter().any(|word| word == rule.as_str());
            }
            has("rs")
                && (names(text, rule)
                    || rows.iter().any(|row| row.rule == **rule && has_test(path, row)))
        })
    };
    rules.iter().filter(is_touched).cloned().collect()
}

/// Whether code names a rule, and not another whose name begins alike.
fn names(text: &str, rule: &str) -> bool {
    let path = format!("Rule::{rule}");
    text.split(&path).skip(1).any(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
}

/// Whether a file is one of the modules that the pattern of a row names; behind them it names a function.
fn has_test(file: &Path, row: &Row) -> bool {
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    let modules = row.pattern.rsplit_once("::").map_or(&*row.pattern, |(modules, _)| modules);
    modules.split("::").any(|module| Some(module) == stem)
}

fn known(row: &Row) -> Outcome {
    let Row { rule, package, .. } = row;
    if all_rules()?.contains(rule) {
        return Ok(());
    }
    failure(format!("a table of {package} has a row for `{rule}`, which is no rule"))
}

fn table() -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for package in PACKAGES {
        for file in files(&workspace().join(package)) {
            let text = fs::read_to_string(&file);
            let text = text.explain(|| format!("cannot read {}", file.display()))?;
            rows.extend(read(package, &text));
        }
    }
    Ok(rows)
}

fn files(package: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(package.join("ablation")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.push(package.join("ablation.txt"));
    files.retain(|file| file.is_file());
    files.sort();
    files
}

fn read(package: &'static str, text: &str) -> Vec<Row> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let pairs = lines.filter_map(|line| line.trim().split_once(char::is_whitespace));
    let row = |(rule, pattern): (&str, &str)| {
        let (package, pattern) = match pattern.trim().split_once(':') {
            Some(("engine", pattern)) => ("inbox-engine", pattern),
            Some(("store", pattern)) => ("inbox-store", pattern),
            Some(("handler", pattern)) => ("inbox-handler", pattern),
            Some(("consumer", pattern)) => ("inbox-consumer", pattern),
            Some(("relay", pattern)) => ("outbox-relay", pattern),
            _ => (package, pattern.trim()),
        };
        let rule = rule.trim_end_matches(':').to_owned();
        Row { rule, package, pattern: pattern.to_owned() }
    };
    pairs.map(row).collect()
}

/// What tests run on.
struct Bench<'a> {
    programs: &'a [Built],
    environment: &'a [(&'static str, String)],
    /// Its ports are those of this number.
    slot: usize,
}

impl Bench<'_> {
    /// A rule holds its place if each of its rows passes with it and fails without it.
    fn judge(&self, rows: &[Row]) -> Outcome<Result<String, String>> {
        if rows.is_empty() {
            return Ok(Err("no table names a test for it".to_owned()));
        }
        let mut sentences = Vec::new();
        for row in rows {
            let Row { package, pattern, .. } = row;
            let began = Instant::now();
            match self.tests(row, false, WITH_MAX)? {
                Run::Passed(0) => {
                    return Ok(Err(format!("no test of {package} is named `{pattern}`")));
                }
                Run::Passed(_) => {}
                Run::Failed(how) => {
                    return Ok(Err(format!("{package} {pattern}: {how} with the rule on")));
                }
            }
            let time = (began.elapsed() * WITHOUT_TIMES).max(WITHOUT_MIN);
            match self.without(row, time)? {
                Run::Passed(count) => {
                    let sentence = format!("{package} {pattern}: {count} passed without it");
                    return Ok(Err(sentence));
                }
                Run::Failed(how) => sentences.push(format!("{package} {pattern}: {how}")),
            }
        }
        Ok(Ok(sentences.join("; ")))
    }

    /// Without its rule. Some rules prevent a race, which has a few chances to happen.
    fn without(&self, row: &Row, time: Duration) -> Outcome<Run> {
        let mut run = self.tests(row, true, time)?;
        for _ in 1..CHANCES {
            if matches!(run, Run::Failed(_)) {
                break;
            }
            run = self.tests(row, true, time)?;
        }
        Ok(run)
    }

    /// Runs the tests of a row in every test program of its package.
    fn tests(&self, row: &Row, off: bool, time: Duration) -> Outcome<Run> {
        let folder = workspace().join(row.package);
        let mut passed = 0;
        for built in self.programs.iter().filter(|built| built.package == folder) {
            let mut command = Command::new(&built.program);
            command.arg(&row.pattern).current_dir(&folder);
            command.envs(self.environment.iter().cloned()).env(PORTS_SLOT, self.slot.to_string());
            if off {
                command.env("INBOX_RULES_OFF", &row.rule).env("INBOX_STEPS", STEPS);
            }
            match finish(&mut command, time)? {
                Run::Passed(count) => passed += count,
                failed @ Run::Failed(_) => return Ok(failed),
            }
        }
        Ok(Run::Passed(passed))
    }
}

/// Runs a test program to its end, but no longer than this time.
fn finish(command: &mut Command, time: Duration) -> Outcome<Run> {
    let program = command.get_program().to_owned();
    let doing = || format!("cannot run {}", program.display());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().explain(doing)?;
    let process = Process::of(child.id());
    let reader = thread::spawn(move || child.wait_with_output());
    let deadline = Instant::now() + time;
    while !reader.is_finished() {
        if Instant::now() > deadline {
            process.inspect(|process| process.signal("KILL"));
            let seconds = time.as_secs();
            return Ok(Run::Failed(format!("stood still for {seconds} s")));
        }
        thread::sleep(Duration::from_millis(10));
    }
    let output = match reader.join() {
        Ok(output) => output.explain(|| "a test program".to_owned())?,
        Err(_) => return failure("the thread that waits for a test program has died"),
    };
    let (passed, failed) = counts(&String::from_utf8_lossy(&output.stdout));
    Ok(match (output.status.success(), failed) {
        (true, _) => Run::Passed(passed),
        (false, 0) => Run::Failed(format!("died ({})", output.status)),
        (false, failed) => Run::Failed(format!("{failed} of {} failed", failed + passed)),
    })
}

/// How many tests passed and failed, from the last line of a test program: `test result: ok. 2 passed; 1 failed; …`.
fn counts(printed: &str) -> (u64, u64) {
    let result = printed.lines().rev().find_map(|line| line.strip_prefix("test result: "));
    let number = |word: &str| {
        let before = result?.split_once(word)?.0;
        before.rsplit([' ', '.']).find(|part| !part.is_empty())?.parse().ok()
    };
    (number(" passed").unwrap_or(0), number(" failed").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_rules_and_patterns() {
        let rows =
            read("tests", "# comment\n\nInbox   services::a\nLaneOrder: engine:batching::b\n");
        let row = |rule: &str, package, pattern: &str| {
            let (rule, pattern) = (rule.to_owned(), pattern.to_owned());
            Row { rule, package, pattern }
        };
        let second = row("LaneOrder", "inbox-engine", "batching::b");
        assert_eq!(rows, [row("Inbox", "tests", "services::a"), second]);
    }

    #[test]
    fn the_last_line_of_a_test_program_is_counted() {
        let printed =
            "test a ... ok\ntest result: FAILED. 40 passed; 2 failed; 0 ignored; 0 measured\n\n";
        assert_eq!(counts(printed), (40, 2));
        assert_eq!(counts("nothing"), (0, 0));
    }

    #[test]
    fn a_change_touches_the_rules_that_its_files_name_or_test() {
        let rules = ["Inbox", "InboxRows", "LaneOrder", "Fenced"].map(str::to_owned);
        let rows = read("tests", "LaneOrder engine:batching::b\nFenced release::c\n");
        let change =
            |path: &str, text: &str| touched(&[(path.to_owned(), text.to_owned())], &rules, &rows);
        assert_eq!(change("a/src/b.rs", "if Rule::InboxRows.on() {"), ["InboxRows"]);
        assert_eq!(change("inbox-engine/src/tests/batching.rs", ""), ["LaneOrder"]);
        assert_eq!(change("tests/ablation/release.txt", "Fenced release::c"), ["Fenced"]);
        assert!(change("docs/release.md", "Inbox").is_empty());
    }

    #[test]
    fn every_row_names_a_rule_of_the_engine() {
        let rules = all_rules().expect("the engine has an enum of rules");
        assert!(rules.len() > 40 && rules.contains(&"Inbox".to_owned()), "{rules:?}");
        for row in table().expect("the tables can be read") {
            assert!(rules.contains(&row.rule), "{row:?}");
        }
    }
}
