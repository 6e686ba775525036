//! The tutorial is what a stranger types: its files and commands, word for word, in an empty folder.

use std::{env, fs, path::Path, time::Duration};

use tests::{KafkaSettings, Lesson, OwnKafka, OwnPostgres};

const TUTORIAL: &str = include_str!("../../../docs/tutorial.md");

/// The reader's crate is built where these tests were, with their profile and their versions: only the
/// reader's own build starts from nothing.
fn shared_build() -> Vec<(&'static str, String)> {
    let program = env::current_exe().expect("a test knows its own path");
    let target = program.ancestors().nth(3).expect("a test is in target/debug/deps");
    vec![
        ("CARGO_TARGET_DIR", target.display().to_string()),
        ("CARGO_PROFILE_DEV_OPT_LEVEL", "1".to_owned()),
        ("CARGO_PROFILE_DEV_DEBUG", "line-tables-only".to_owned()),
    ]
}

/// The reader's new crates take the versions that the tests were built with, or everything would be
/// built once more whenever a dependency has a new version.
fn same_versions(folder: &Path) {
    for entry in fs::read_dir(folder).expect("the reader's folder").flatten() {
        let (manifest, lock) = (entry.path().join("Cargo.toml"), entry.path().join("Cargo.lock"));
        if manifest.exists() && !lock.exists() {
            let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock");
            fs::copy(own, &lock).expect("a copy of the lock file");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_does_what_it_says() {
    let (kafka, postgres) =
        tokio::join!(OwnKafka::start_with(KafkaSettings::default()), OwnPostgres::start());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("an empty folder");
    // The reader's clone.
    std::os::unix::fs::symlink(root, empty.join("inbox")).expect("a link");
    let programs = env::var("INBOX_TEST_PG_BIN").unwrap_or_default();
    let path = format!("{}:{programs}", env::var("PATH").unwrap_or_default());
    let mut variables = shared_build();
    variables.extend([
        ("INBOX_TEST_KAFKA", kafka.address()),
        ("INBOX_TEST_POSTGRES", postgres.url()),
        ("PATH", path),
    ]);
    let lesson = Lesson::read(TUTORIAL);
    let task = tokio::task::spawn_blocking(move || lesson.run(&empty, &variables, same_versions));
    let times = task.await.expect("the tutorial does what it says");
    for took in &times {
        println!("{:>7.1} s  {:<40} {}", took.time.as_secs_f64(), took.place, took.what);
    }
    let total: Duration = times.iter().map(|took| took.time).sum();
    println!("{:>7.1} s  in all", total.as_secs_f64());
}
