//! The tutorial is what a stranger types: its files and commands, word for word, in an empty folder.

use std::{env, fs, path::Path, time::Duration};

use tests::{KafkaSettings, Lesson, OwnKafka, OwnPostgres};

const TUTORIAL: &str = include_str!("../../../docs/tutorial.md");

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The reader's crate is built where these tests were, with their profiles, so that what others wrote is there already.
fn share_build(folder: &Path) {
    let ours = fs::read_to_string(format!("{WORKSPACE}/Cargo.toml")).expect("our manifest");
    let (_, profiles) = ours.split_once("\n[profile.dev]\n").expect("our profiles");
    let config = format!("[profile.dev]\n{profiles}");
    fs::create_dir(folder.join(".cargo")).expect("a folder");
    fs::write(folder.join(".cargo/config.toml"), config).expect("cargo's configuration");
}

/// The reader's new crates take the versions and the features of others' crates that the tests were built with, or all of
/// them would be built once more.
fn share_dependencies(folder: &Path) {
    for entry in fs::read_dir(folder).expect("the reader's folder").flatten() {
        let (manifest, lock) = (entry.path().join("Cargo.toml"), entry.path().join("Cargo.lock"));
        // Our own is behind a link.
        if entry.path().is_symlink() || !manifest.exists() {
            continue;
        }
        if !lock.exists() {
            fs::copy(format!("{WORKSPACE}/Cargo.lock"), &lock).expect("a copy of the lock file");
        }
        let text = fs::read_to_string(&manifest).expect("the reader's manifest");
        if !text.contains("third-party") {
            fs::write(&manifest, text + THIRD_PARTY).expect("a longer manifest");
        }
    }
}

/// What the tests are built with, besides what the reader asks for.
const THIRD_PARTY: &str = r#"
[dependencies.third-party]
path = "../inbox/xtask/third-party"
features = ["databases"]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_does_what_it_says() {
    let (kafka, postgres) =
        tokio::join!(OwnKafka::start_with(KafkaSettings::default()), OwnPostgres::start());
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("an empty folder");
    // The reader's clone.
    std::os::unix::fs::symlink(WORKSPACE, empty.join("inbox")).expect("a link");
    let programs = env::var("INBOX_TEST_PG_BIN").unwrap_or_default();
    let path = format!("{}:{programs}", env::var("PATH").unwrap_or_default());
    share_build(&empty);
    let program = env::current_exe().expect("a test knows its own path");
    let target = program.ancestors().nth(3).expect("a test is in target/debug/deps");
    let shown = |path: &Path| path.to_str().expect("a path of characters").to_owned();
    let variables = [
        ("CARGO_BUILD_BUILD_DIR", shown(target)),
        // Its programs go elsewhere: one is called as one of ours is, which other tests run meanwhile.
        ("CARGO_TARGET_DIR", shown(&empty.join("programs"))),
        ("INBOX_TEST_KAFKA", kafka.address()),
        ("INBOX_TEST_POSTGRES", postgres.url()),
        ("PATH", path),
    ];
    let lesson = Lesson::read(TUTORIAL);
    let task =
        tokio::task::spawn_blocking(move || lesson.run(&empty, &variables, share_dependencies));
    let times = task.await.expect("the tutorial does what it says");
    for took in &times {
        println!("{:>7.1} s  {:<40} {}", took.time.as_secs_f64(), took.place, took.what);
    }
    let total: Duration = times.iter().map(|took| took.time).sum();
    println!("{:>7.1} s  in all", total.as_secs_f64());
}
