//! Trials: an event that a process has ended with is run in a process of its own, and what it did is taken back.
//! If that one ends too, the event is to blame; if not, whoever ended the other did so for reasons of their own.
//!
//! The process is this very program with a flag more. It reads events as lines of JSON from its standard input, and
//! writes words to its standard output: what else is printed there is nobody's.

use std::{
    ffi::OsString,
    process::Stdio,
    sync::{Arc, OnceLock},
    time::Duration,
};

use inbox_engine::internal::{Batch, BatchOutcome, Failure, HandlerFault, Rule, TransactionFault};
use inbox_store::internal::port::{Scope, Transactions};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Mutex,
};

use super::{Delivery, document, transaction::Work};

/// It is there, and waits for events.
const READY: &str = "inbox-trial: ready";
/// It has an event, and what the codec lacks is fetched now.
const FETCH: &str = "inbox-trial: fetch";
/// The handler is called now.
const BEGIN: &str = "inbox-trial: begin";
/// The handler has come back.
const END: &str = "inbox-trial: end";
/// The database was away, so nobody knows.
const OUTAGE: &str = "inbox-trial: outage";
/// There was nothing to call, or what calls it lacks a transaction or a schema. The event is run for good then, which
/// counts the processes that end with it.
const NOTHING: &str = "inbox-trial: nothing";
/// Without an event for so long it ends.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// What a process may take to start, and a transaction beside the handler's own time.
const MARGIN: Duration = Duration::from_secs(10);

/// The process for trials, and how it is started.
#[derive(Debug, Default)]
pub struct Trials {
    arguments: OnceLock<Vec<OsString>>,
    process: Mutex<Option<Process>>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// What a trial has shown.
#[derive(Debug)]
enum TrialResult {
    /// The handler came back, however it ended.
    Lives,
    /// The process ended with it: how.
    Dies(String),
    /// The database was away.
    Outage,
    /// Nobody could try.
    Unknown,
}

impl Trials {
    /// This program runs a trial when it is given these arguments.
    pub fn enable(&self, arguments: Vec<OsString>) {
        drop(self.arguments.set(arguments));
    }

    /// Takes the process of the last trial, or another one that is ready, out of where it is kept: a trial that is given
    /// up ends its process, whose answer must not be taken for that to something else.
    async fn ready(&self, kept: &mut Option<Process>) -> Option<Process> {
        match kept.take() {
            None => Process::start(self.arguments.get()?).await,
            process => process,
        }
    }
}

impl Process {
    async fn start(arguments: &[OsString]) -> Option<Self> {
        let program = std::env::current_exe().ok()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().ok()?;
        let (stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
        let mut process = Self { child, stdin, lines: BufReader::new(stdout).lines() };
        let word = tokio::time::timeout(MARGIN, process.word()).await;
        matches!(word, Ok(Some(word)) if word == READY).then_some(process)
    }

    /// The next word that it says; `None` when it has ended.
    async fn word(&mut self) -> Option<&'static str> {
        while let Ok(Some(line)) = self.lines.next_line().await {
            let words = [READY, FETCH, BEGIN, END, OUTAGE, NOTHING];
            let word = words.into_iter().find(|word| *word == line);
            if word.is_some() {
                return word;
            }
        }
        None
    }

    async fn run(&mut self, line: &str, time: Duration) -> TrialResult {
        let line = format!("{line}\n");
        let asked = async {
            self.stdin.write_all(line.as_bytes()).await.ok()?;
            self.stdin.flush().await.ok()?;
            self.word().await
        };
        let mut word = tokio::time::timeout(time, asked).await;
        if let Ok(Some(FETCH)) = word {
            word = match tokio::time::timeout(time, self.word()).await {
                Ok(None) => return self.dies().await,
                word => word,
            };
        }
        match word {
            Ok(Some(BEGIN)) => {}
            Ok(Some(NOTHING)) => return TrialResult::Lives,
            _ => return TrialResult::Unknown,
        }
        match tokio::time::timeout(time, self.word()).await {
            Ok(Some(OUTAGE)) => TrialResult::Outage,
            Ok(Some(_)) => TrialResult::Lives,
            Ok(None) => self.dies().await,
            Err(_) => TrialResult::Dies(format!("it did not finish within {time:?}")),
        }
    }

    async fn dies(&mut self) -> TrialResult {
        match self.child.wait().await {
            Ok(status) => TrialResult::Dies(status.to_string()),
            Err(error) => TrialResult::Dies(error.to_string()),
        }
    }
}

impl<DB: Transactions> Work<DB> {
    /// What a trial of the one event of a batch has shown against it. It is written down before: where memory is
    /// short, the system may end both processes.
    pub(super) async fn try_suspect(
        &self,
        scope: Scope,
        batch: &Batch<Arc<Delivery>>,
    ) -> Option<BatchOutcome> {
        let item = batch.items.first().filter(|item| item.is_suspect())?;
        match self.run_trial(&document::document(item, ""), Some((scope, batch))).await {
            Ok(error) => {
                let failure = Failure { index: Some(0), fault: HandlerFault::Crash, error: error? };
                Some(BatchOutcome::Failed(vec![failure]))
            }
            Err(error) => Some(BatchOutcome::Fault(TransactionFault::Unreached(error))),
        }
    }

    /// How the process of a trial ended with an event, if it did; an error when what is to be written down before
    /// cannot be.
    pub(super) async fn run_trial(
        &self,
        document: &str,
        written: Option<(Scope, &Batch<Arc<Delivery>>)>,
    ) -> Result<Option<String>, String> {
        if !Rule::SuspectIsTried.on() {
            return Ok(None);
        }
        let mut kept = self.trials.process.lock().await;
        // One that waited too long for an event has ended, which says nothing.
        for _ in 0..2 {
            let Some(mut process) = self.trials.ready(&mut kept).await else { return Ok(None) };
            // Only now: how long a process takes to start is not the event's fault.
            if let Some((scope, batch)) = written {
                self.mark(scope, batch, true).await?;
            }
            // Its statements have the deadlines of this process; what meets them comes back, and says so.
            let time = self.attempt_deadline.max(self.limits.statement_timeout) + MARGIN;
            match process.run(document, time).await {
                TrialResult::Unknown => {}
                TrialResult::Outage => {
                    *kept = Some(process);
                    return Err("the database was unavailable during the trial of an event that \
                                may have killed a process; it is retried"
                        .into());
                }
                TrialResult::Lives => {
                    *kept = Some(process);
                    return Ok(None);
                }
                TrialResult::Dies(how) => {
                    return Ok(Some(format!(
                        "a process that ran nothing else died on it ({how}), as an earlier one \
                         did: the handler kills the process on this event; fix it, then release \
                         the event"
                    )));
                }
            }
        }
        Ok(None)
    }
}

/// The side of the process that tries.
mod child {
    use std::{
        io::{self, Write as _},
        sync::Arc,
    };

    use inbox_engine::internal::{
        Batch, BatchOutcome, Epoch, Generation, Lane, LaneMove, LeaderEpoch, Mode, NextOffset,
        Offset, PartitionId, Rule, TransactionFault,
    };
    use inbox_store::internal::port::{Owners, Scope, Transactions, deadline};
    use tokio::{sync::mpsc, time::timeout};

    use super::{BEGIN, END, FETCH, IDLE_MAX, NOTHING, OUTAGE, READY};
    use crate::pipeline::{
        Delivered, Delivery,
        direct::Direct,
        document,
        transaction::{EarlyEnd, Transaction, Work},
    };

    impl<DB: Transactions> Work<DB> {
        /// Runs events that are given as lines of standard input, one at a time, and takes back what they did;
        /// until there are no more. `direct`: those by another way.
        pub async fn try_events(&self, direct: Option<&Direct<DB>>) -> io::Result<()>
        where
            DB: Owners,
        {
            let (sender, mut lines) = mpsc::channel(1);
            std::thread::Builder::new().name("inbox-trial".into()).spawn(move || {
                for line in io::stdin().lines().map_while(Result::ok) {
                    if sender.blocking_send(line).is_err() {
                        break;
                    }
                }
            })?;
            say(READY)?;
            while let Ok(Some(line)) = timeout(IDLE_MAX, lines.recv()).await {
                let place = document::place(&line);
                let direct = direct.zip(place.as_ref());
                let work = direct.and_then(|(direct, (place, _))| direct.tries(place));
                say(work.unwrap_or(self).try_line(&line).await?)?;
            }
            Ok(())
        }

        async fn try_line(&self, line: &str) -> io::Result<&'static str> {
            let Some(item) = self.event(line) else { return Ok(NOTHING) };
            let tried = self.try_event(item);
            if !Rule::TrialHasDeadlines.on() {
                return tried.await;
            }
            deadline::with::<DB, _>(&self.limits, tried).await
        }

        async fn try_event(&self, item: Delivered) -> io::Result<&'static str> {
            let batch = batch(item);
            say(FETCH)?;
            if self.prepare(&batch.items).await.is_err() {
                return Ok(NOTHING);
            }
            let Ok(mut conn) = self.begin().await else { return Ok(NOTHING) };
            say(BEGIN)?;
            let scope = Scope { consumer_ref: 0, partition_ref: 0, epoch: Epoch(0) };
            let mut transaction = Transaction::new(self, scope, &batch, &mut conn);
            // Whether it fails says nothing here.
            let taken_back = match transaction.handle_single(0).await {
                Err(end) => end,
                Ok(_) => EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Conflict(
                    String::new(),
                ))),
            };
            let ended: Result<(), _> = self.end(conn, Err(taken_back)).await;
            Ok(match ended {
                Err(BatchOutcome::Fault(
                    TransactionFault::Outage(_) | TransactionFault::Unreached(_),
                )) => OUTAGE,
                _ => END,
            })
        }

        /// The event of a line; `None` when there is no handler to run.
        fn event(&self, line: &str) -> Option<Delivered> {
            let (place, offset) = document::place(line)?;
            let arrival = document::arrival(line, offset, LeaderEpoch::UNKNOWN)?;
            let item = self.intake.item(&place, arrival, (Lane(0), [0; 16]), &self.routes);
            item.doomed.is_none().then_some(item)
        }
    }

    fn say(word: &str) -> io::Result<()> {
        let mut output = io::stdout().lock();
        writeln!(output, "{word}")?;
        output.flush()
    }

    fn batch(item: Delivered) -> Batch<Arc<Delivery>> {
        let step = LaneMove {
            lane: item.lane,
            prev: Offset(-1),
            new: item.offset,
            leader_epoch: item.leader_epoch,
        };
        Batch {
            partition: PartitionId(0),
            generation: Generation(0),
            epoch: Epoch(0),
            watermark: NextOffset(0),
            remapped_below: NextOffset(0),
            mode: Mode::Careful,
            whole: true,
            marked: false,
            lanes: vec![step],
            items: vec![item],
        }
    }
}
