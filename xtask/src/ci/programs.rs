//! The programs of the lab in their short forms: that each still does its work. What they measure is looked at by hand.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

use xtask::failure::{Outcome, failure};

use crate::{debezium, program};

/// A program and its options.
const SHORT: [(&str, &str); 12] = [
    ("soak", "--events 20000"),
    ("deploy", "--events 5000"),
    (
        "relay-chaos",
        "--kills 6 --freezes 2 --failovers 1 --restores 1 --clock-steps 1 --missing-topics 1",
    ),
    ("relay-chaos", "--destination http --kills 4 --freezes 1 --events 2000"),
    ("debezium", "relay"),
    ("debezium", "consumer"),
    ("debezium", "changes --changes 10000 --kills 2"),
    ("drill", "--kills 3"),
    ("costs", "2000"),
    ("intake-speed", "--events 2000 --rounds 1"),
    ("relay-readings", "--rows 100000 --rounds 2"),
    ("relay-webhooks", "speed --events 2000 --rounds 1"),
];

/// Runs all of them, and names each that fails.
pub(super) fn run_short() -> Outcome {
    let mut failed = Vec::new();
    for (verb, options) in SHORT {
        println!("lab {verb} {options}");
        let began = Instant::now();
        let arguments: Vec<OsString> = options.split(' ').map(OsString::from).collect();
        let end = match verb {
            "debezium" => debezium::run(arguments),
            verb => program::run(verb, "dev", &arguments),
        };
        println!("lab {verb} {options}: {} s", began.elapsed().as_secs());
        match end {
            Ok(end) if end == ExitCode::SUCCESS => {}
            Ok(_) => failed.push(format!("{verb} {options}")),
            Err(why) => failed.push(format!("{verb} {options} ({why})")),
        }
    }
    if failed.is_empty() { Ok(()) } else { failure(format!("failed: {}", failed.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands of `cargo xtask` that are no check: they measure, serve work, or are a tier themselves.
    const NO_CHECKS: [&str; 8] =
        ["bench", "check", "keep", "nightly", "quickstart", "services", "test", "fuzz"];
    /// What a step of another name does.
    const STEPS: [&str; 8] =
        ["api", "deny", "dist", "engine", "manifests", "package", "settle", "site"];
    /// It runs each rule's tests at least twice, and is run for the rules that a change touches: `ablate --changed`.
    const BY_HAND: &str = "ablate";

    /// The variants of the enum that clap reads commands from, as they are typed.
    fn verbs(text: &str, enumeration: &str) -> Vec<String> {
        let begin = format!("enum {enumeration} {{");
        let variants = text.split_once(&begin).unwrap().1.split_once("\n}").unwrap().0;
        let named = variants
            .lines()
            .filter_map(|line| line.strip_prefix("    "))
            .filter(|line| line.starts_with(char::is_uppercase));
        let typed = |variant: &str| {
            let end = variant.find(|letter: char| !letter.is_alphanumeric()).unwrap();
            let letters = variant[..end].char_indices().flat_map(|(at, letter)| {
                let dash = (at > 0 && letter.is_uppercase()).then_some('-');
                dash.into_iter().chain(letter.to_lowercase())
            });
            letters.collect()
        };
        named.map(typed).collect()
    }

    #[test]
    fn each_command_has_a_tier() {
        let mut commands = verbs(include_str!("../main.rs"), "Verb");
        assert!(commands.len() > 15, "{commands:?}");
        let lab = verbs(include_str!("../../../tests/src/bin/lab/main.rs"), "Tool");
        assert!(lab.len() > 8, "{lab:?}");
        commands.extend(lab);
        for verb in commands {
            let places = [
                SHORT.iter().any(|(own, _)| *own == verb),
                NO_CHECKS.contains(&&*verb),
                STEPS.contains(&&*verb),
                verb == BY_HAND,
            ];
            let found = places.into_iter().filter(|is_there| *is_there).count();
            assert_eq!(found, 1, "{verb} is in {found} tiers");
        }
    }
}
