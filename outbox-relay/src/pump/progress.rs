//! What a turn knows of its rows, beside the rows: how many to read, where to begin, what is missing, and what is
//! let go.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;

use super::{
    Pump, dispatch::kafka, floor::Floor, missing_topics::MissingTopics, round::Round, work::Work,
};
use crate::{
    port::{ReleasedRows, Rounds, Row, RowPage, RowQuery, is_destination},
    sink::{Sink, TopicStatus, TopicWait},
    telemetry::Signal,
};

/// While there is something to send, what may be let go is looked for so often.
const EVERY: Duration = Duration::from_secs(1);
/// The same while there are no rows, and every append is told.
const EVERY_IDLE: Duration = Duration::from_secs(10);
const DUE_EVERY_IDLE: Duration = Duration::from_secs(30);
/// A look that takes longer reads what it needs one by one, and so do those after it for a while.
const SLOW: Duration = Duration::from_millis(50);
const FEW_PAUSE: Duration = Duration::from_mins(1);
/// What is held for nothing is looked for so often.
const ORPHANS_EVERY: Duration = Duration::from_mins(1);
/// The most rows that a look reads while it finds little else than what is to be held.
const WINDOW_MAX: usize = 10_000;

/// When rows that wait for their time are looked for though nobody has told of any: somebody may have changed rows.
const DUE_EVERY: Duration = Duration::from_secs(10);

/// Between two looks for rows that are due while there are some: what has no room shall not be read again and again.
const DUE_PAUSE: Duration = Duration::from_millis(100);

/// When rows that wait for their time are due.
pub(super) struct DueRows {
    pub(super) next: Option<Instant>,
    ask: Instant,
}

/// What a turn knows of its rows.
pub(super) struct Progress {
    /// Events of a batch.
    pub(super) limit: usize,
    /// Rows that a look reads.
    window: usize,
    /// Something is set aside.
    aside: bool,
    /// When a look last found a row.
    pub(super) rows_at: Instant,
    /// From when on all that is set aside may be read at once: not for a while after a look that was slow.
    few_from: Instant,
    floor: Floor,
    pub(super) missing_topics: MissingTopics,
    /// When a row that waits for its time is due, as far as is known, and when to ask.
    pub(super) due_rows: DueRows,
    /// Topics and destinations that rows wait for no longer, until all of these are let go.
    there: BTreeSet<String>,
    /// What rows waited for when the turn began is known.
    names_read: bool,
    /// From when on, and behind which aggregate, to look for what is held for nothing.
    orphans: (Instant, (String, String)),
    /// Up to which place held rows were let go, in this pass.
    place: i64,
    releases: bool,
    /// When to look for what may be let go.
    pub(super) due: Instant,
}

impl Progress {
    pub(super) fn new(events_max: usize, now: Instant) -> Self {
        Self {
            limit: events_max,
            window: events_max,
            aside: true,
            rows_at: now,
            few_from: now,
            floor: Floor::new(now),
            missing_topics: MissingTopics::default(),
            due_rows: DueRows { next: Some(now), ask: now },
            there: BTreeSet::new(),
            names_read: false,
            orphans: (now, Default::default()),
            place: 0,
            releases: false,
            due: now,
        }
    }

    /// Forgets what was learnt on an earlier session: behind a new one may be another server, which knows less.
    pub(super) fn begin_session(&mut self, now: Instant) {
        if Rule::FloorOfItsSession.on() {
            let missing_topics = std::mem::take(&mut self.missing_topics);
            *self = Self { missing_topics, ..Self::new(self.limit, now) };
        }
    }

    /// How far the next look goes, which finds so many rows, and so many bytes, once more.
    pub(super) fn look(&self, bytes_max: usize, known: (usize, usize), now: Instant) -> RowQuery {
        let events_max =
            if known.0 > 0 { known.0 + self.window.max(self.limit) } else { self.limit };
        let window = self.window.max(events_max);
        RowQuery {
            window,
            events_max,
            bytes_max: bytes_max + known.1,
            above: self.floor.above(),
            aside: self.aside,
            few: now >= self.few_from,
        }
    }

    /// A look has been, which took so long.
    pub(super) fn note_look(&mut self, page: &RowPage, took: Duration, now: Instant) {
        self.aside = page.aside;
        if !page.rows.is_empty() {
            self.rows_at = now;
        }
        if took > SLOW {
            self.few_from = now + FEW_PAUSE;
        }
    }

    /// What is held behind rows that were delivered late is asked to go.
    pub(super) fn expect_releases(&mut self) {
        self.releases = true;
    }

    /// A row is due after this time.
    pub(super) fn expect_due(&mut self, after: Duration, now: Instant) {
        let at = now + after;
        self.due_rows.next = Some(self.due_rows.next.map_or(at, |next| next.min(at)));
    }

    /// Whether to look for rows whose time has come.
    fn are_rows_due(&self, now: Instant) -> bool {
        now >= self.due_rows.ask || self.due_rows.next.is_some_and(|next| now >= next)
    }

    /// A destination is out: what waits for it goes on waiting. Answers whether something was to go.
    pub(super) fn keep_destination(&mut self, name: &str) -> bool {
        self.there.remove(name)
    }

    /// Whether rows wait in the database for room alone.
    pub(super) fn waits_for_room(&self, is_low: bool) -> bool {
        self.there.iter().any(|name| !may_go(name, is_low))
    }

    /// A destination works again: what waits for it goes.
    pub(super) fn let_destination_go(&mut self, name: String) {
        self.there.insert(name);
    }

    /// So many rows of a look were to be held or passed over. Where these are most of them, looks become larger: to mark a row is
    /// cheap. Answers whether they did.
    pub(super) fn widen(&mut self, passed: usize, events_max: usize) -> bool {
        let (most, before) = (passed * 2 > self.window, self.window);
        self.window =
            if most { (self.window * 4).min(WINDOW_MAX.max(events_max)) } else { events_max };
        self.window > before
    }
}

/// Whether what waits under this name may go: there is room for it, or it is for Kafka.
fn may_go(name: &str, is_low: bool) -> bool {
    is_low || !is_destination(name) || name == kafka()
}

impl<F: Rounds> Pump<F> {
    /// Lets go what waits for nothing any more: rows whose topic is there, and what is held behind a row that goes
    /// or never will. `true`: there may be more.
    pub(super) async fn let_go(
        &self,
        sink: Option<&Sink>,
        work: &mut Work<'_, F>,
    ) -> Result<bool, Round> {
        let now = Instant::now();
        if !work.progress.names_read {
            self.read_names(work, now).await?;
        }
        if let Some(sink) = sink {
            self.ask_for_topics(sink, &mut work.progress).await;
        }
        self.let_name_go(work, now).await?;
        let Work { progress, dispatch, .. } = work;
        let is_low = dispatch.is_low();
        if !progress.releases && now < progress.due {
            return Ok(false);
        }
        progress.due = now + if self.is_idle(progress, now) { EVERY_IDLE } else { EVERY };
        self.look_for_orphans(work).await?;
        let Work { lease, session, progress, .. } = work;
        let (after, most) = (progress.place, self.options.events_max);
        let released = session
            .call(async |s| F::release(s, lease.turn, after, most).await)
            .await
            .map_err(Round::DatabaseOut)?;
        match released {
            ReleasedRows::NotOurs => return Err(Round::TurnLost),
            ReleasedRows::UpTo(place) => {
                progress.place = place;
                progress.releases = true;
                progress.floor.reset(now);
            }
            // Once more from the start, unless this was it.
            ReleasedRows::Nothing => {
                let there = progress.there.iter().any(|name| may_go(name, is_low));
                progress.releases = progress.place > 0 || there;
                progress.place = 0;
            }
        }
        Ok(progress.releases)
    }

    /// What rows waited for when the turn began, or as a new session knows it.
    async fn read_names(&self, work: &mut Work<'_, F>, now: Instant) -> Result<(), Round> {
        // Where there are destinations, a topic that rows wait for may be one that nothing goes to any more.
        let asks = self.options.routes.reach_kafka()
            && (!work.dispatch.is_used() || std::mem::replace(&mut work.names_known, true));
        let Work { session, progress, dispatch, without_kafka, kafka_waits, .. } = work;
        let names = session.call(F::topics).await.map_err(Round::DatabaseOut)?;
        for name in names {
            if !is_destination(&name) && asks {
                progress.missing_topics.add(&name, TopicWait::Presence, now);
            } else if without_kafka.is_some() && name == kafka() {
                *kafka_waits = true;
            } else if !dispatch.is_out(&name) {
                // Whether it works, or is there, is seen by what goes there.
                progress.let_destination_go(name);
            }
        }
        progress.missing_topics.ask_now(now);
        progress.names_read = true;
        Ok(())
    }

    /// Lets some rows go that wait under a name: what they waited for is there, or has room.
    async fn let_name_go(&self, work: &mut Work<'_, F>, now: Instant) -> Result<(), Round> {
        let Work { lease, session, progress, dispatch, .. } = work;
        let (is_low, most) = (dispatch.is_low(), self.options.events_max);
        let there = progress.there.iter().find(|name| may_go(name, is_low)).cloned();
        let room = if there.is_none() && is_low { dispatch.next_room(most, now) } else { None };
        let (name, rows) = match (&there, &room) {
            (Some(name), _) => (name.clone(), most),
            (None, Some((key, rows))) => (dispatch.name(key), *rows),
            (None, None) => return Ok(()),
        };
        let gone = session
            .call(async |s| F::topic_is_there(s, lease.turn, &name, rows).await)
            .await
            .map_err(Round::DatabaseOut)?
            .ok_or(Round::TurnLost)?;
        if gone < rows as u64 {
            progress.there.remove(&name);
            if let Some((key, _)) = room {
                dispatch.end_overflow(&key);
            }
        }
        progress.floor.reset(now);
        progress.releases = true;
        Ok(())
    }

    /// Has rows let go that are held though none before them is set aside any more. Somebody has changed rows by
    /// hand, or with the commands of an older build.
    async fn look_for_orphans(&self, work: &mut Work<'_, F>) -> Result<(), Round> {
        let Work { session, progress, .. } = work;
        let (at, after) = &progress.orphans;
        let now = Instant::now();
        if now < *at || !Rule::OrphansGo.on() {
            return Ok(());
        }
        let after = (after.0.as_str(), after.1.as_str());
        let found = session.call(async |s| F::release_orphans(s, after).await).await;
        progress.orphans = match found.map_err(Round::DatabaseOut)? {
            None => (now + ORPHANS_EVERY, Default::default()),
            Some(last) => (now, last),
        };
        Ok(())
    }

    /// Asks for the topics that are due, all at once.
    async fn ask_for_topics(&self, sink: &Sink, progress: &mut Progress) {
        let due = progress.missing_topics.due(Instant::now());
        if due.is_empty() {
            return;
        }
        for (name, topic) in sink.ask_topics(due).await {
            match topic {
                TopicStatus::Missing | TopicStatus::Unknown(_) => {}
                // What is wrong with a topic that is refused, the row says that meets it.
                TopicStatus::There | TopicStatus::Refused(_) => {
                    if progress.missing_topics.remove(&name) == Some(TopicWait::Presence) {
                        Signal::TopicFound { topic: name.clone() }.emit();
                    }
                    progress.there.insert(name);
                }
            }
        }
    }

    /// After a look: whether the next may begin higher.
    pub(super) async fn update_floor(
        &self,
        work: &mut Work<'_, F>,
        rows: &[Row],
        took: Duration,
    ) -> Result<(), String> {
        let Work { session, progress, .. } = work;
        let first = rows.first().map(|row| row.id.seq);
        if progress.floor.note_query(first, took, Instant::now()) {
            let open = session.call(F::appenders).await?;
            progress.floor.note_appenders(open);
        }
        Ok(())
    }

    /// The rows whose time has come, if any may be.
    pub(super) async fn due_rows(&self, work: &mut Work<'_, F>) -> Result<Vec<Row>, Round> {
        let now = Instant::now();
        let Work { session, progress, dispatch, .. } = work;
        if !progress.are_rows_due(now) {
            return Ok(Vec::new());
        }
        let rows = dispatch.known() + progress.limit;
        let bytes = self.options.bytes_max + dispatch.bytes();
        let due = session.call(async |s| F::due(s, rows, bytes).await).await;
        let due = due.map_err(Round::DatabaseOut)?;
        let fresh = due.iter().any(|row| !dispatch.knows(row.id.seq));
        let next = if fresh {
            Some(now + DUE_PAUSE)
        } else {
            let next = session.call(F::next_due).await.map_err(Round::DatabaseOut)?;
            // Those that are under way are due already.
            next.map(|next| now + if due.is_empty() { next } else { next.max(EVERY) })
        };
        let every = if self.is_idle(progress, now) { DUE_EVERY_IDLE } else { DUE_EVERY };
        progress.due_rows = DueRows { next, ask: now + every };
        Ok(due)
    }
}
