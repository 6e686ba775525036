//! The scenarios: each is a few cases, and a case is what one run goes through.

use std::time::Duration;

use clap::ValueEnum;

use crate::candidate::Candidate;
use crate::form::Form;
use crate::group;
use crate::options::Options;
use crate::plan::{Ids, Plan};

/// What candidates go through.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scenario {
    /// A backlog is handled as fast as it goes.
    Drain,
    /// Events come at a pace; how long from sending one to the commit of its effect.
    Latency,
    /// Half of all events are on one account, beside the same backlog without that.
    Skew,
    /// A backlog of few aggregates, one with as many aggregates as events, one of large events.
    Memory,
    /// The database is some time away.
    Delay,
    /// The inbox holds many rows already, beside an empty one.
    Grown,
    /// A commit's flush takes a millisecond, beside a cheap one.
    Flush,
    /// One event in a hundred takes its handler 50 ms, with 8, 32 and 64 connections.
    Slow,
    /// One, two and three processes of a group.
    Scale,
    /// A second member joins, leaves, is killed and comes back, is killed, while events come at a pace.
    Group,
    /// Events come at a pace for a long time: what each costs, in the first and in the last minute.
    Steady,
    /// A backlog on a file of SQLite.
    Sqlite,
    /// Events carry versions, and nobody looks at them, or late ones are skipped, or all of them are run in their order.
    Versions,
    /// The same events in the formats of other systems, beside our own headers.
    Formats,
    /// A relay ships a backlog, then rows that are appended at `--rate` and at half of what the slowest candidate without
    /// a sleep can ship, for `--seconds` each.
    Relay,
    /// Transactions that append to the outbox, one and eight writers, beside the same without; for `--seconds`.
    Append,
}

/// How the events come; paces are events of a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Traffic {
    /// They are there before the candidate is.
    Backlog,
    /// All at once, when the candidate's processes have shared the partitions.
    Met,
    /// At a pace, while it runs.
    Paced(u64),
    /// The same, while a second member comes and goes.
    Members(u64),
    /// The same, for a long time.
    Steady(Steadily),
}

/// Events at a pace for a long time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Steadily {
    /// Events of a second.
    pub(crate) pace: u64,
    /// When a snapshot is opened that stays open.
    pub(crate) snapshot: Option<Duration>,
    /// Whether ours keeps its inbox rows for a minute alone.
    pub(crate) prunes: bool,
}

/// How ours looks at versions.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    Stale,
    Gap,
}

/// What one run goes through.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Case {
    /// Its name in tables and files.
    pub(crate) name: &'static str,
    pub(crate) plan: Plan,
    /// The round trip that is added on the way to the database.
    pub(crate) delay: Duration,
    /// Whether a commit's flush takes a millisecond.
    pub(crate) slow_flush: bool,
    /// Rows that the inbox has already, with ids like the plan's.
    pub(crate) grown: u64,
    /// Processes of a candidate.
    pub(crate) processes: u32,
    /// Connections of ours; their default without.
    pub(crate) connections: Option<u32>,
    /// Whether one event in a hundred takes its handler 50 ms.
    pub(crate) slow: bool,
    /// How ours looks at versions.
    pub(crate) versions: Option<Look>,
    pub(crate) traffic: Traffic,
    /// Whether the database is a file of SQLite.
    pub(crate) sqlite: bool,
}

impl Scenario {
    /// The candidates that it is about, when nobody names others.
    pub(crate) fn candidates(self) -> Vec<Candidate> {
        use Candidate::{
            Batch, Debezium, DebeziumPrompt, Handler, LimitAwaited, LimitOutbox, LimitSet,
            LimitSqlx, LimitSqlxSet, LoopPartitions, OutboxLoop, OutboxSleep, Queued, Relay,
            RelayUnfenced, SqlEach, SqlRun,
        };
        match self {
            Self::Drain => {
                let all = Candidate::value_variants().iter().copied();
                all.filter(|candidate| !candidate.through_sqlx() && !candidate.ships()).collect()
            }
            Self::Latency => vec![LoopPartitions, LimitSet, Handler, Batch],
            Self::Skew | Self::Flush | Self::Delay => {
                vec![
                    LoopPartitions,
                    LimitAwaited,
                    LimitSet,
                    Handler,
                    Queued,
                    Batch,
                    SqlEach,
                    SqlRun,
                ]
            }
            Self::Memory | Self::Grown => vec![LimitSet, Handler, Batch],
            Self::Scale | Self::Versions => vec![Handler, Batch],
            Self::Slow | Self::Group => vec![Handler],
            Self::Steady => vec![LoopPartitions, Handler, SqlEach, SqlRun],
            Self::Formats => vec![Batch],
            Self::Append => Vec::new(),
            Self::Relay => {
                vec![
                    LimitOutbox,
                    OutboxSleep,
                    OutboxLoop,
                    Relay,
                    RelayUnfenced,
                    Debezium,
                    DebeziumPrompt,
                ]
            }
            Self::Sqlite => {
                vec![LimitAwaited, LimitSet, LimitSqlx, LimitSqlxSet, Handler, Batch]
            }
        }
    }

    /// Its cases, in the order they take turns.
    pub(crate) fn cases(self, options: &Options) -> Vec<Case> {
        let plan = Plan::of(options.events);
        let drain = Case::of("drain", plan);
        let random = Plan { ids: Ids::Random, ..plan };
        match self {
            Self::Drain => vec![drain],
            Self::Latency => {
                let records = options.rate * options.seconds;
                let traffic = Traffic::Paced(options.rate);
                vec![Case { traffic, ..Case::of("latency", Plan::of(records.max(1))) }]
            }
            Self::Steady => vec![Case::steady(options)],
            Self::Group => {
                let plan = Plan::of(group::records(options.rate));
                vec![Case { traffic: Traffic::Members(options.rate), ..Case::of("group", plan) }]
            }
            Self::Skew => vec![drain, Case::of("skew", Plan { skewed: true, ..plan })],
            Self::Memory => {
                let accounts = usize::try_from(plan.records).unwrap_or(usize::MAX);
                let large = Plan { payload: LARGE, ..Plan::of(LARGE_EVENTS.min(plan.records)) };
                vec![
                    Case::of("memory", plan),
                    Case::of("memory-many-aggregates", Plan { accounts, ..plan }),
                    Case::of("memory-large-events", large),
                ]
            }
            Self::Delay => {
                vec![Case {
                    delay: Duration::from_micros(options.delay_us),
                    ..Case::of("delay", plan)
                }]
            }
            Self::Grown => vec![
                drain,
                Case { grown: options.grown, ..Case::of("grown-timed", plan) },
                Case::of("drain-random", random),
                Case { grown: options.grown, ..Case::of("grown-random", random) },
            ],
            Self::Flush => vec![drain, Case { slow_flush: true, ..Case::of("flush", plan) }],
            Self::Slow => {
                [(8, "clean-8", "slow-8"), (32, "clean-32", "slow-32"), (64, "clean-64", "slow-64")]
                    .into_iter()
                    .flat_map(|(connections, clean, slow)| {
                        let clean =
                            Case { connections: Some(connections), ..Case::of(clean, plan) };
                        [clean, Case { name: slow, slow: true, ..clean }]
                    })
                    .collect()
            }
            Self::Append => Vec::new(),
            Self::Relay => Case::shared(options),
            Self::Versions => {
                let off = Case::of("versions-off", Plan { versioned: true, ..plan });
                let on = |name, look| Case { name, versions: Some(look), ..off };
                vec![off, on("versions-stale", Look::Stale), on("versions-gap", Look::Gap)]
            }
            Self::Formats => {
                Form::ALL.map(|form| Case::of(form.case(), Plan { form, ..plan })).to_vec()
            }
            Self::Sqlite => vec![Case { sqlite: true, ..Case::of("sqlite", plan) }],
            Self::Scale => {
                let one = Case { traffic: Traffic::Met, ..Case::of("scale-1", plan) };
                vec![
                    one,
                    Case { name: "scale-2", processes: 2, ..one },
                    Case { name: "scale-3", processes: 3, ..one },
                ]
            }
        }
    }
}

/// Bytes of a large payload: with its headers just below what brokers take by default.
const LARGE: usize = 1_000_000;
/// A gigabyte and a half of them.
const LARGE_EVENTS: u64 = 1_500;

impl Case {
    /// What a candidate's name ends with where several processes share the work.
    pub(crate) fn share(&self) -> String {
        if self.processes == 1 { String::new() } else { format!(" × {}", self.processes) }
    }

    /// Events at a pace.
    fn steady(options: &Options) -> Self {
        let plan = Plan::of((options.rate * options.seconds).max(1));
        let snapshot = options.snapshot.map(Duration::from_secs);
        let steadily = Steadily { pace: options.rate, snapshot, prunes: options.prune };
        Self { traffic: Traffic::Steady(steadily), ..Self::of("steady", plan) }
    }

    /// A backlog for each number of processes.
    fn shared(options: &Options) -> Vec<Self> {
        let one = Self::of("relay", Plan::of(options.events));
        options.members.iter().map(|&processes| Self { processes, ..one }).collect()
    }

    /// A backlog on an empty database that is near, for one process.
    fn of(name: &'static str, plan: Plan) -> Self {
        let near = Duration::ZERO;
        Self {
            name,
            plan,
            delay: near,
            slow_flush: false,
            grown: 0,
            processes: 1,
            connections: None,
            slow: false,
            versions: None,
            traffic: Traffic::Backlog,
            sqlite: false,
        }
    }
}
