//! `cargo xtask ablate`: each rule of the protocol switched off once, and its tests expected to be red.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use xtask::failure::{Explain, Outcome, failure};

use crate::folders::cargo;
use crate::services::Services;

/// Where the rules are.
const RULES: &str = "inbox-engine/src/rule.rs";
/// Which of the engine's tests shows which rule.
const ENGINE: &str = "inbox-engine/ablation.txt";
/// The same for tests on services.
const SERVICES: &str = "tests/ablation";

/// A test that shows what breaks without a rule.
#[derive(Debug)]
struct Witness {
    package: &'static str,
    pattern: String,
}

/// Runs each rule's tests with the rule off; all rules, or the ones named.
pub(crate) fn run(only: &[String]) -> Outcome<ExitCode> {
    let rules = rules()?;
    let witnesses = witnesses()?;
    if let Some(unknown) = only.iter().chain(witnesses.keys()).find(|name| !rules.contains(name)) {
        return failure(format!("`{unknown}` is no rule; the rules are in {RULES}"));
    }
    let services = Services::find_or_start()?;
    let mut bad = Vec::new();
    for rule in rules.iter().filter(|rule| only.is_empty() || only.contains(rule)) {
        let Some(tests) = witnesses.get(rule) else {
            println!("{rule:<26} no test names it");
            bad.push(rule.clone());
            continue;
        };
        for witness in tests {
            let Witness { package, pattern } = witness;
            let environment = match &services {
                Ok(services) => services.environment(),
                Err(_) if *package == "inbox-engine" => Vec::new(),
                Err(absent) => return failure(format!("{rule} needs services: {absent}")),
            };
            let red = !green(witness, Some(rule), &environment)?;
            let sound = red && green(witness, None, &environment)?;
            let word = match (red, sound) {
                (true, true) => "red without it",
                (true, false) => "RED WITH IT, too",
                (false, _) => "STAYS GREEN WITHOUT IT",
            };
            println!("{rule:<26} {package} {pattern}: {word}");
            if !sound {
                bad.push(rule.clone());
            }
        }
    }
    println!("\n{} rules, {} not shown: {}", rules.len(), bad.len(), bad.join(", "));
    Ok(if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the tests of a pattern pass. None at all is a failure of the table.
fn green(
    witness: &Witness,
    off: Option<&str>,
    environment: &[(&'static str, String)],
) -> Outcome<bool> {
    let mut command = cargo(&["test", "--quiet", "--package", witness.package]);
    match witness.package {
        "inbox-engine" => command.args(["--features", "ablation", "--lib"]),
        _ => command.args(["--test", "all"]),
    };
    command.arg(&witness.pattern).stderr(Stdio::null());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.env("INBOX_RULES_OFF", off.unwrap_or_default());
    let output = command.output().explain(|| "cannot run `cargo test`".to_owned())?;
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && !text.contains(" passed") || text.contains("running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered") {
        return failure(format!("no test is called `{}`", witness.pattern));
    }
    Ok(output.status.success())
}

/// The names of all rules, from the source.
fn rules() -> Outcome<Vec<String>> {
    let text = fs::read_to_string(RULES).explain(|| format!("cannot read {RULES}"))?;
    let body = text.split("pub enum Rule {").nth(1).and_then(|rest| rest.split("\n}").next());
    let lines = body.unwrap_or_default().lines().map(str::trim);
    let variant =
        |line: &str| line.strip_suffix(',').filter(|_| !line.starts_with('/')).map(str::to_owned);
    Ok(lines.filter_map(variant).collect())
}

/// Both tables: `Rule pattern` or `Rule: pattern` a line, `#` for remarks.
fn witnesses() -> Outcome<BTreeMap<String, Vec<Witness>>> {
    let mut all: BTreeMap<String, Vec<Witness>> = BTreeMap::new();
    let mut read = |file: &Path, package: &'static str| -> Outcome {
        let text =
            fs::read_to_string(file).explain(|| format!("cannot read {}", file.display()))?;
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let rule = words.next().unwrap_or_default().trim_end_matches(':').to_owned();
            let pattern = words.next().unwrap_or_default();
            let (package, pattern) = match pattern.strip_prefix("engine:") {
                Some(pattern) => ("inbox-engine", pattern),
                None => (package, pattern),
            };
            all.entry(rule).or_default().push(Witness { package, pattern: pattern.to_owned() });
        }
        Ok(())
    };
    read(Path::new(ENGINE), "inbox-engine")?;
    let mut files: Vec<_> = fs::read_dir(SERVICES)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.sort();
    for file in files {
        read(&file, "tests")?;
    }
    Ok(all)
}
