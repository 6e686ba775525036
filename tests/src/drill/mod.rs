//! A drill from outside: faults are played against a consumer program with its default configuration, and what it says of
//! itself is read as an operator reads it. How many seconds until the fault has a name?

mod blocks;
mod broker;
mod deaths;
mod looks;
mod program;
mod report;
mod topics;
mod watch;

use crate::Executable;
pub use report::{Report, Row};

/// The longest that a fault may be without a name.
pub const NAMED_WITHIN: f64 = 30.0;

/// What can be played, by name.
pub const CASES: [&str; 14] = [
    "topic-recreated",
    "topic-recreated-at-once",
    "topic-recreated-over-a-restart",
    "topic-deleted",
    "broker-killed",
    "broker-frozen",
    "lane-held",
    "blocks-one",
    "blocks-all",
    "blocks-signal",
    "dies-abort",
    "dies-overflow",
    "dies-memory",
    "kills",
];

/// What is to be played.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `kill -9`s at random moments, without an event that is to blame.
    pub kills: u32,
    /// Names of [`CASES`].
    pub cases: Vec<String>,
}

/// Plays the cases one after the other; `worker` is the consumer.
pub async fn play(worker: &Executable, plan: &Plan) -> Report {
    let mut rows = Vec::new();
    for case in &plan.cases {
        println!("── {case}");
        let played = match case.as_str() {
            "broker-killed" => vec![broker::killed(worker).await],
            "broker-frozen" => vec![broker::frozen(worker).await],
            "lane-held" => vec![blocks::held(worker).await],
            "blocks-one" => blocks::one(worker).await,
            "blocks-all" => blocks::all(worker).await,
            "blocks-signal" => vec![blocks::signal(worker).await],
            "dies-abort" => deaths::poisoned(worker, case, "abort").await,
            "dies-overflow" => deaths::poisoned(worker, case, "overflow").await,
            "dies-memory" => deaths::poisoned(worker, case, "oom").await,
            "kills" => vec![deaths::killed(worker, plan.kills).await],
            topic => vec![topics::played(worker, topic).await],
        };
        played.iter().for_each(|row| println!("{}", row.line()));
        rows.extend(played);
    }
    Report { rows }
}
