//! Building, and finding what was built: cargo says where it put each program.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use xtask::failure::{Explain, Outcome, failure};

use crate::folders::cargo;
use crate::lint;

/// What is built of the workspace for tests and programs alike: with other targets cargo chooses other features of
/// others' crates, and compiles them once more. The lessons of `examples` are part of the lab, so none is linked alone.
pub(crate) const TARGETS: [&str; 4] = ["--workspace", "--lib", "--bins", "--tests"];

/// A program that cargo built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Built {
    /// The folder of its package.
    pub(crate) package: PathBuf,
    /// The target's name: `all`, `lab`.
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    /// Whether it runs the tests of its target; a build of tests makes the plain programs, too.
    pub(crate) is_test: bool,
}

/// Builds all tests and the programs that they start.
pub(crate) fn build_tests() -> Outcome<Vec<Built>> {
    build(&[&["test", "--no-run"], &TARGETS[..]].concat())
}

/// Builds with the given arguments of cargo, and returns the programs.
pub(crate) fn build(arguments: &[&str]) -> Outcome<Vec<Built>> {
    let doing = || format!("cannot run `cargo {}`", arguments.join(" "));
    let mut command = cargo(arguments);
    // What is measured is built by the plain compiler; all else is there from the build of the tests.
    if !arguments.contains(&"release") && !arguments.contains(&"--release") {
        lint::while_building(&mut command)?;
    }
    command.arg("--message-format=json-render-diagnostics");
    let mut child = command.stdout(Stdio::piped()).spawn().explain(doing)?;
    let mut built = Vec::new();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            built.extend(read(&line.explain(doing)?));
        }
    }
    let status = child.wait().explain(doing)?;
    if status.success() {
        Ok(built)
    } else {
        failure(format!("`cargo {}` ended with {status}", arguments.join(" ")))
    }
}

/// One message of cargo.
fn read(line: &str) -> Option<Built> {
    let message: Value = serde_json::from_str(line).ok()?;
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
    Some(Built {
        package: Path::new(text("/manifest_path")?).parent()?.to_path_buf(),
        name: text("/target/name")?.to_owned(),
        program: text("/executable")?.into(),
        is_test: message.pointer("/profile/test").and_then(Value::as_bool).unwrap_or(false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_cargo_names_the_program() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/p/tests/Cargo.toml",
            "target":{"name":"all"},"profile":{"test":true},"executable":"/p/target/debug/deps/all-1"}"#;
        let (package, name) = (PathBuf::from("/p/tests"), "all".to_owned());
        let program = "/p/target/debug/deps/all-1".into();
        let built = Built { package, name, program, is_test: true };
        assert_eq!(read(line), Some(built));
        assert_eq!(read(r#"{"reason":"build-finished","executable":null}"#), None);
    }
}
