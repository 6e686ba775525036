//! Every lesson of `examples` on real services, as a process. Each asserts what it teaches, and prints
//! what its head says.

use std::{fs, process::Stdio, time::Duration};

use tests::{Markdown, Services, missing_line, skip};
use tokio::{process::Command, time::timeout};

use super::other_languages::{PYTHON, caches};
use crate::programs::lesson;

/// The longest lesson takes some seconds.
const LESSON_MAX: Duration = Duration::from_mins(2);

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Runs a lesson to its end: it succeeds, and prints what it promises, in that order.
async fn run(name: &'static str) {
    if name == "plain_sql"
        && let Some(advice) = PYTHON.missing()
    {
        return skip("services::examples::plain_sql", &format!("this machine lacks {advice}"));
    }
    let services = Services::from_env();
    let source = fs::read_to_string(format!("{WORKSPACE}/examples/examples/{name}.rs"));
    let promised = promised_lines(&source.expect("the lesson's file"));
    let mut command = Command::from(lesson(name).command());
    command.env("INBOX_TEST_KAFKA", services.kafka).env("INBOX_TEST_POSTGRES", services.postgres);
    command.envs(caches()).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(LESSON_MAX, command.output()).await.expect("the lesson ends");
    let output = output.expect("the lesson runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{printed}\n{errors}", output.status);
    assert_eq!(missing_line(&printed, &promised), None, "of\n{printed}");
}

/// What stands under the heading "What it prints" of a lesson.
fn promised_lines(source: &str) -> String {
    let head = source.lines().map_while(|line| line.strip_prefix("//!"));
    let head: Vec<&str> = head.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let fences = Markdown::read(&head.join("\n")).fences;
    let promised = fences.into_iter().find(|fence| fence.heading == "What it prints");
    promised.expect("the head of a lesson says what it prints").text
}

/// A test for each lesson, and one that none is forgotten.
macro_rules! lessons {
    ($($name:ident)+) => {
        $(
            #[tokio::test]
            async fn $name() {
                run(stringify!($name)).await;
            }
        )+

        #[test]
        fn every_lesson_is_run() {
            let folder = fs::read_dir(format!("{WORKSPACE}/examples/examples")).expect("a folder");
            let files = folder.map(|file| file.expect("a file").path());
            let mut names: Vec<_> = files.filter_map(|file| file.file_stem().map(ToOwned::to_owned)).collect();
            names.sort();
            assert_eq!(names, [$(stringify!($name)),+]);
        }
    };
}

lessons! {
    batch embedded five_times intake mail orders out_of_order plain_sql read_model retries state testing_a_handler
    two_consumers webhook
}
