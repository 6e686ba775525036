//! Running other programs, with a sentence when one fails.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::failure::{Explain, Outcome, failure};

/// The full path of a program, if `PATH` has it.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Runs to the end; anything but success is a failure that names the command.
pub fn run(command: &mut Command) -> Outcome {
    let status = command.status().explain(|| format!("cannot run `{}`", line(command)))?;
    if status.success() {
        Ok(())
    } else {
        failure(format!("`{}` ended with {status}", line(command)))
    }
}

/// Runs to the end and returns what was printed, both streams together.
pub fn capture(command: &mut Command) -> Outcome<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .explain(|| format!("cannot run `{}`", line(command)))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(text);
    }
    failure(format!("`{}` ended with {}:\n{}", line(command), output.status, text.trim_end()))
}

/// The command as one would type it.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Whether this program runs as root.
pub fn root() -> bool {
    user_id(None).is_some_and(|id| id == 0)
}

/// The id of a user, or of whoever runs this program.
pub fn user_id(name: Option<&str>) -> Option<u32> {
    capture(Command::new("id").arg("-u").args(name)).ok()?.trim().parse().ok()
}
