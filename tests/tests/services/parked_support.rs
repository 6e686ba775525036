//! What the tests of operators' commands share: commands as a person types them, and events that are
//! parked because a deploy is bad.

use std::process::Command;

use serde_json::Value;
use tests::{Running, SOON, Stage, deploy::Deploy, eventually};

use super::commands::worker;

/// Exit code, standard output and standard error.
pub type Ran = (Option<i32>, String, String);

/// Runs a command as `anna` to its end.
pub async fn typed(stage: &Stage, args: &[&str]) -> Ran {
    let mut command = worker(stage);
    command.env("USER", "anna").env("HOSTNAME", "desk");
    finished(command, args).await
}

pub async fn finished(mut command: Command, args: &[&str]) -> Ran {
    command.args(args);
    let ended = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

/// Runs a command that has to succeed; what it says.
pub async fn said(stage: &Stage, args: &[&str]) -> String {
    let (code, out, err) = typed(stage, args).await;
    assert_eq!(code, Some(0), "{args:?}: {out}{err}");
    out
}

/// What a command with `--json` says.
pub async fn told(stage: &Stage, args: &[&str]) -> Value {
    let out = said(stage, args).await;
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// A consumer whose deploy is bad, once so many events are parked.
pub async fn parked(stage: &Stage, deploy: &Deploy, events: i64) -> Running {
    let running = stage.start(deploy.routes()).await;
    eventually(SOON, "they are parked", async || stage.parked("").await == events).await;
    running
}

/// The number of the parked event at an offset.
pub async fn seq(stage: &Stage, offset: i64) -> String {
    let sql = "SELECT parked_seq FROM inbox_parked WHERE \"offset\" =";
    stage.schema.number(&format!("{sql} {offset}")).await.to_string()
}

/// How often something was done, as the audit has it.
pub async fn acts(stage: &Stage, what: &str) -> i64 {
    let sql = "SELECT count(*) FROM inbox_audit WHERE what =";
    stage.schema.number(&format!("{sql} '{what}'")).await
}
