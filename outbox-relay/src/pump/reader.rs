//! What is asked of the database while a turn lasts: rows, parked rows, and when those are due. On a session of its own,
//! so that a store does not wait for a read.

use std::time::{Duration, Instant};

use inbox_engine::internal::Rule;
use outbox_planner::internal::{Effect, ReadRequest};

use super::{LazySession, floor::Floor};
use crate::port::{CLAIM_MAX, Owners, Row, RowPage, RowQuery, Shards, Turn};

/// What is parked behind nothing is looked for after this time.
const ORPHANS_EVERY: Duration = Duration::from_mins(1);

/// What was asked, answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// Rows of the feed, and what was asked for.
    Page(RowPage, ReadRequest),
    /// Parked rows, and how many it takes at most; `None`: another has the turn.
    Claimed(Option<Vec<Row>>, usize),
    /// Destinations with parked rows, and in how long those may go.
    Dues(Vec<(String, Duration)>),
}

/// A reader that has asked, and the answer.
pub(super) type Asked<F> = (Box<Reader<F>>, Result<Answer, String>);

/// Asks the database.
pub(super) struct Reader<F: Owners> {
    pub(super) session: LazySession<F>,
    turn: Turn,
    /// What is read.
    pub(super) shards: Shards,
    floor: Floor,
    /// When, and behind which aggregate, to look for what is parked behind nothing.
    orphans: (Instant, (String, String)),
}

impl<F: Owners> Reader<F> {
    pub(super) fn new(session: LazySession<F>, turn: Turn) -> Self {
        let now = Instant::now();
        Self {
            session,
            turn,
            shards: Shards::default(),
            floor: Floor::new(now),
            orphans: (now, Default::default()),
        }
    }

    /// Forgets what was learnt on an earlier session: behind a new one may be another server, which knows less.
    pub(super) fn forget(&mut self) {
        if Rule::FloorOfItsSession.on() {
            self.floor = Floor::new(Instant::now());
        }
    }

    /// Asks for what the planner wants to know.
    pub(super) async fn ask(&mut self, effect: Effect) -> Result<Answer, String> {
        let shards = self.shards;
        match effect {
            Effect::Read(request) if shards.is_empty() => {
                Ok(Answer::Page(RowPage::default(), request))
            }
            Effect::Claim(..) if shards.is_empty() => Ok(Answer::Claimed(Some(Vec::new()), 1)),
            Effect::AskDues if shards.is_empty() => Ok(Answer::Dues(Vec::new())),
            Effect::Read(request) => Ok(Answer::Page(self.read(request).await?, request)),
            Effect::Claim(name, rows, bytes) => {
                let turn = self.turn;
                let claim = self
                    .session
                    .call(async |s| F::claim(s, (turn, shards), &name, rows, bytes).await);
                Ok(Answer::Claimed(claim.await?, rows.min(CLAIM_MAX)))
            }
            _ => {
                self.look_for_orphans().await?;
                let turn = self.turn;
                let found =
                    self.session.call(async |s| F::due_destinations(s, turn, shards).await).await?;
                Ok(Answer::Dues(
                    found.into_iter().map(|due| (due.destination, due.after)).collect(),
                ))
            }
        }
    }

    async fn read(&mut self, request: ReadRequest) -> Result<RowPage, String> {
        let ReadRequest { read_to, rows_max, bytes_max } = request;
        let (floor, shards) = (self.floor.above(), self.shards);
        let query = RowQuery { floor, read_to, shards, rows_max, bytes_max };
        let began = Instant::now();
        let page = self.session.call(async |s| F::unsent(s, query).await).await?;
        let took = began.elapsed();
        let first = page.rows.first().map(|row| row.id.seq);
        let first = page.earlier.iter().copied().chain(first).min();
        if self.floor.note_query(first, took, Instant::now()) {
            let open = self.session.call(F::appenders).await?;
            self.floor.note_appenders(open);
        }
        Ok(page)
    }

    /// Has rows released that are behind no other row any more. Somebody has changed rows by hand, or two decisions
    /// met.
    async fn look_for_orphans(&mut self) -> Result<(), String> {
        let (at, after) = &self.orphans;
        let now = Instant::now();
        if now < *at || !Rule::OrphansGo.on() {
            return Ok(());
        }
        let after = (after.0.as_str(), after.1.as_str());
        let found = self.session.call(async |s| F::release_orphans(s, after).await).await?;
        self.orphans = match found {
            None => (now + ORPHANS_EVERY, Default::default()),
            Some(last) => (now, last),
        };
        Ok(())
    }
}
