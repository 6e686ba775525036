//! A document whose commands are run, word for word, in one shell, as a reader would type them.
//!
//! | fence | means |
//! |---|---|
//! | `sh` | typed into the shell; a command that fails ends the lesson |
//! | `sh again` | typed again until it prints what the next fence says, as a person would look again |
//! | `text` right behind such a fence | the lines that it prints, in this order; `…` is anything |
//! | with `title=FILE` | the content of a file |

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Fence, Markdown};

/// The longest command: one that builds everything.
const COMMAND_MAX: Duration = Duration::from_mins(20);
/// How long a reader looks again.
const AGAIN_MAX: Duration = Duration::from_mins(1);

/// One thing that a reader does.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    /// Writes a file.
    File { name: String, text: String },
    /// Types commands.
    Typed { commands: String, again: bool, prints: Option<String> },
}

/// What a step took.
#[derive(Clone, Debug)]
pub struct Took {
    /// The heading above it and the line of the document.
    pub place: String,
    /// What was typed, or the file's name.
    pub what: String,
    /// How long it took.
    pub time: Duration,
}

/// A document as something to do.
#[derive(Clone, Debug)]
pub struct Lesson {
    steps: Vec<(Fence, Step)>,
}

impl Lesson {
    /// Reads a document.
    #[must_use]
    pub fn read(document: &str) -> Self {
        let mut steps: Vec<(Fence, Step)> = Vec::new();
        for fence in Markdown::read(document).fences {
            if let Some(name) = fence.option("title") {
                let step = Step::File { name: name.to_owned(), text: fence.text.clone() };
                steps.push((fence, step));
            } else if fence.language() == "sh" {
                let again = fence.info.split(' ').any(|word| word == "again");
                let commands = fence.text.clone();
                steps.push((fence, Step::Typed { commands, again, prints: None }));
            } else if fence.language() == "text"
                && let Some((_, Step::Typed { prints, .. })) = steps.last_mut()
            {
                *prints = Some(fence.text);
            }
        }
        Self { steps }
    }

    /// Does everything, in a folder, with further variables in the shell's environment; calls `after`
    /// behind each step. Panics with the output of the step that went wrong.
    pub fn run(
        &self,
        folder: &Path,
        variables: &[(&str, String)],
        after: impl Fn(&Path),
    ) -> Vec<Took> {
        let mut shell = Shell::start(folder, variables);
        let mut times = Vec::new();
        for (fence, step) in &self.steps {
            let place = format!("{} (line {})", fence.heading, fence.line);
            let start = Instant::now();
            let what = shell.follow(&place, step);
            after(folder);
            times.push(Took { place, what, time: start.elapsed() });
        }
        times
    }
}

/// A shell that keeps its variables and its jobs from one step to the next.
struct Shell {
    child: Child,
    folder: PathBuf,
    output: PathBuf,
    /// How much of the output was read.
    read: usize,
    marks: usize,
}

impl Shell {
    fn start(folder: &Path, variables: &[(&str, String)]) -> Self {
        let output = folder.with_extension("output");
        let file = File::create(&output).expect("the folder beside takes a file");
        let errors = file.try_clone().expect("a file has two owners");
        let mut command = Command::new("bash");
        command.args(["--norc", "-e", "-u", "-o", "pipefail"]).current_dir(folder);
        // A reader's cargo compiles with the plain compiler.
        command.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("CLIPPY_ARGS");
        for (name, value) in variables {
            command.env(name, value);
        }
        command.stdin(Stdio::piped()).stdout(file).stderr(errors).process_group(0);
        let child = command.spawn().expect("bash starts");
        Self { child, folder: folder.to_path_buf(), output, read: 0, marks: 0 }
    }

    /// Does a step; answers what it was, in a line.
    fn follow(&mut self, place: &str, step: &Step) -> String {
        match step {
            Step::File { name, text } => {
                // The shell knows where it is, and where `~` is.
                let below = "mkdir -p \"$(dirname \"$FILE\")\" && cp \"$TEXT\" \"$FILE\"";
                let copy = self.folder.with_extension("text");
                fs::write(&copy, text).expect("the folder beside takes a file");
                let variables = format!("TEXT='{}' FILE='{name}'", copy.display());
                self.typed(place, &format!("{variables}; {below}; unset TEXT FILE"));
                name.clone()
            }
            Step::Typed { commands, again, prints } => {
                self.until_printed(place, commands, *again, prints.as_deref());
                commands.lines().next().unwrap_or_default().to_owned()
            }
        }
    }

    fn until_printed(&mut self, place: &str, commands: &str, again: bool, prints: Option<&str>) {
        let start = Instant::now();
        loop {
            let printed = self.typed(place, commands);
            let Some(expected) = prints else { return };
            match missing_line(&printed, expected) {
                None => return,
                Some(_) if again && start.elapsed() < AGAIN_MAX => {
                    std::thread::sleep(Duration::from_millis(500));
                }
                Some(line) => panic!("{place}: nothing printed {line:?}, but\n{printed}"),
            }
        }
    }

    /// Types commands and waits for their end; answers what they printed.
    fn typed(&mut self, place: &str, commands: &str) -> String {
        self.marks += 1;
        let mark = format!("── end of step {} ──", self.marks);
        let script = self.folder.with_extension(format!("{}.sh", self.marks));
        fs::write(&script, commands).expect("the folder beside takes a file");
        let line = format!("source '{}' < /dev/null; echo '{mark}'\n", script.display());
        let input = self.child.stdin.as_mut().expect("the shell reads");
        let typed = input.write_all(line.as_bytes());
        let deadline = Instant::now() + COMMAND_MAX;
        loop {
            let ended = typed.is_err() || !matches!(self.child.try_wait(), Ok(None));
            let text =
                String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned();
            let fresh = text.get(self.read..).unwrap_or_default();
            if let Some((printed, _)) = fresh.split_once(&mark) {
                let printed = printed.to_owned();
                self.read = text.len();
                return printed;
            }
            assert!(!ended, "{place}: this failed:\n{commands}\nand printed\n{fresh}");
            assert!(Instant::now() < deadline, "{place}: this does not end:\n{commands}\n{fresh}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The shell's group: what it left running ends with it.
        let script = "kill -s KILL -- \"-$0\"";
        drop(Command::new("sh").args(["-c", script, &self.child.id().to_string()]).status());
        drop(self.child.wait());
    }
}

/// The first line that was expected and not printed, in its order. In an expected line `…` is anything.
#[must_use]
pub fn missing_line<'a>(printed: &str, expected: &'a str) -> Option<&'a str> {
    let mut lines = printed.lines();
    expected.lines().find(|line| !lines.any(|own| fits(own, line)))
}

/// Whether a line is as expected, where `…` is anything. Spaces within are worth one.
fn fits(line: &str, expected: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, expected) = (plain(line), plain(expected));
    let mut parts = expected.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut open_end = false;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        open_end = part.is_empty();
    }
    open_end || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_compared_line_by_line() {
        assert!(fits("applied migrations 1, 2", "applied migrations …"));
        assert!(fits(" 42 |   250", "42 | 250"));
        assert!(fits("took 3 s, well", "took … s, well"));
        assert!(!fits("took 3 s, well", "took … s"));
        assert!(!fits("x", "y"));
        assert_eq!(missing_line("a\nb\nc\n", "a\nc\n"), None);
        assert_eq!(missing_line("a\nb\nc\n", "c\na\n"), Some("a"));
    }

    #[test]
    fn a_lesson_is_followed_word_for_word() {
        let document = "# One\n```sh\nmkdir a; cd a; export X=1\n```\n```toml title=b/c.toml\nx = 1\n```\n\
            ```sh\ncat b/c.toml; echo $X; (sleep 1; touch late) &\n```\n```text\nx = 1\n1\n```\n\
            ```sh again\nls\n```\n```text\nlate\n```\n";
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("lesson");
        fs::create_dir(&below).unwrap();
        let times = Lesson::read(document).run(&below, &[], |_| ());
        let what: Vec<&str> = times.iter().map(|took| took.what.as_str()).collect();
        assert_eq!(what.len(), 4);
        assert_eq!((what[1], what[3]), ("b/c.toml", "ls"));
        assert!(below.join("a/b/c.toml").exists());
    }

    #[test]
    fn a_command_that_fails_ends_the_lesson() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("lesson");
        fs::create_dir(&below).unwrap();
        let wrong = |document: &'static str| {
            let below = below.clone();
            std::thread::spawn(move || Lesson::read(document).run(&below, &[], |_| ()))
                .join()
                .is_err()
        };
        assert!(wrong("```sh\necho well\nfalse\necho never\n```\n"));
        assert!(wrong("```sh\necho well\n```\n```text\nbad\n```\n"));
        assert!(!wrong("```sh\necho well\n```\n```text\nwell\n```\n"));
    }
}
