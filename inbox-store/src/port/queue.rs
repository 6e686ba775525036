//! What is asked of the database for statements that handlers queue.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sqlx::{Database, Encode, SqlStr, Type, error::BoxDynError};

/// The values of one statement that waits.
pub enum QueuedValues<DB: Database> {
    /// Taken apart, so that they can travel together with those of other statements.
    Encoded(EncodedValues),
    /// As the driver takes them.
    Bound(DB::Arguments),
}

impl<DB: Database> fmt::Debug for QueuedValues<DB> {
    /// Never the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").finish_non_exhaustive()
    }
}

impl<DB: Database> fmt::Debug for QueuedStatement<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("sql", &self.sql.as_str()).finish_non_exhaustive()
    }
}

/// Values by type, each as the database encodes it.
#[derive(Clone, Debug, Default)]
pub struct EncodedValues {
    /// The database's number of each value's type.
    pub types: Vec<u32>,
    /// The values one behind the other, each behind its length: four bytes, big-endian; −1 is NULL.
    pub bytes: Vec<u8>,
}

/// A statement that waits to be sent.
pub struct QueuedStatement<DB: Database> {
    /// Its text.
    pub sql: SqlStr,
    /// Its values.
    pub values: QueuedValues<DB>,
    /// The event of the run whose handler queued it, if events are handled one by one.
    pub at: Option<usize>,
}

/// A text with the types of its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatementText {
    /// The text.
    pub sql: SqlStr,
    /// The types.
    pub types: Vec<u32>,
}

/// Texts that handlers queue, shared by the transactions of a consumer, so that sessions can be
/// prepared for them. A text goes in when it was sent by itself and succeeded; nothing but the number
/// of round trips depends on its being there.
#[derive(Debug, Default)]
pub struct StatementRegistry {
    state: Mutex<RegistryState>,
}

#[derive(Debug, Default)]
struct RegistryState {
    /// Sessions can be prepared.
    open: bool,
    /// And whether prepared sessions can run them.
    texts: Vec<(StatementText, bool)>,
    snapshot: Option<Arc<RegistrySnapshot>>,
}

/// What a session can be prepared for.
#[derive(Debug, Default)]
pub struct RegistrySnapshot {
    /// Which one it is; a newer one has a larger number.
    pub number: u64,
    /// The texts, each with its number.
    pub texts: Vec<(i16, StatementText)>,
    by_sql: HashMap<SqlStr, Vec<(Vec<u32>, i16)>>,
}

impl RegistrySnapshot {
    fn new(number: u64, texts: &[(StatementText, bool)]) -> Self {
        let mut snapshot = Self { number, ..Self::default() };
        for ((text, fit), number) in texts.iter().zip(1..) {
            if *fit {
                let known = snapshot.by_sql.entry(text.sql.clone()).or_default();
                known.push((text.types.clone(), number));
                snapshot.texts.push((number, text.clone()));
            }
        }
        snapshot
    }

    /// The number of a statement's text.
    pub fn number_of(&self, sql: &SqlStr, types: &[u32]) -> Option<i16> {
        let known = self.by_sql.get(sql)?;
        known.iter().find(|(known, _)| known == types).map(|(_, number)| *number)
    }
}

impl StatementRegistry {
    /// The most texts in it. A handler whose texts are all different gains nothing by their being
    /// known, and must not fill the memory.
    pub const TEXTS_MAX: usize = 64;
    /// The longest text that is taken in.
    const TEXT_BYTES_MAX: usize = 16 << 10;

    /// A book; closed where no session can be prepared.
    pub fn new(open: bool) -> Self {
        Self { state: Mutex::new(RegistryState { open, ..RegistryState::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest edition, unless it is the one that the session has.
    pub fn newer_snapshot(
        &self,
        than: Option<&Arc<RegistrySnapshot>>,
    ) -> Option<Arc<RegistrySnapshot>> {
        let state = self.state();
        let newest = state.snapshot.as_ref().filter(|_| state.open)?;
        (than.is_none_or(|had| had.number < newest.number)).then(|| Arc::clone(newest))
    }

    /// Takes texts in that were sent by themselves.
    pub fn add(&self, texts: Vec<StatementText>) {
        let mut state = self.state();
        let had = state.texts.len();
        for text in texts {
            let known = state.texts.iter().any(|(known, _)| *known == text);
            let room = state.texts.len() < Self::TEXTS_MAX;
            if room && !known && text.sql.as_str().len() <= Self::TEXT_BYTES_MAX {
                state.texts.push((text, true));
            }
        }
        if state.texts.len() > had {
            state.publish();
        }
    }

    /// A prepared session could not run the text: it is sent by itself from now on.
    pub fn exclude(&self, sql: &SqlStr, types: &[u32]) {
        let mut state = self.state();
        let mut texts = state.texts.iter_mut();
        if let Some((_, fit)) = texts.find(|(text, _)| text.sql == *sql && text.types == types) {
            *fit = false;
            state.publish();
        }
    }

    /// Sessions cannot be prepared, the database says.
    pub fn disable(&self) {
        self.state().open = false;
    }

    /// Whether adding can do anything.
    pub fn accepts_texts(&self) -> bool {
        let state = self.state();
        state.open && state.texts.len() < Self::TEXTS_MAX
    }
}

impl RegistryState {
    fn publish(&mut self) {
        let number = self.snapshot.as_ref().map_or(1, |snapshot| snapshot.number + 1);
        self.snapshot = Some(Arc::new(RegistrySnapshot::new(number, &self.texts)));
    }
}

/// What there is to send statements with.
#[derive(Debug)]
pub struct SendContext<'a> {
    /// Where texts go that were sent by themselves and may travel with others.
    pub registry: Option<&'a StatementRegistry>,
    /// What the session is prepared for.
    pub snapshot: Option<&'a RegistrySnapshot>,
    /// How many round trips of this transaction could have named the statement that fails.
    pub named: &'a mut u32,
}

impl SendContext<'_> {
    /// The most of them. Each is a subtransaction of PostgreSQL; with the savepoints of handlers
    /// they stay below 64, beyond which the whole server gets slow.
    const NAMED_MAX: u32 = 32;

    /// Whether one more may name its statement.
    pub fn may_name(&mut self) -> bool {
        let may = *self.named < Self::NAMED_MAX;
        *self.named += u32::from(may);
        may
    }
}

/// Why statements were not all sent.
#[derive(Debug)]
pub struct SendError {
    /// The statement that failed, if it is known.
    pub at: Option<usize>,
    /// What the database says.
    pub error: sqlx::Error,
}

/// Queued statements on a database.
pub trait Queues: Database {
    /// No values.
    fn values() -> QueuedValues<Self>;

    /// Adds a value; answers the bytes that it takes, as far as they are known.
    #[doc(hidden)]
    fn bind<'t, T: Encode<'t, Self> + Type<Self>>(
        values: &mut QueuedValues<Self>,
        value: T,
    ) -> Result<usize, BoxDynError>;

    /// Looks at a text before a handler runs it.
    fn check_text(sql: &str) -> TextCheck;

    /// Prepares a session for the texts of an edition, outside any transaction.
    fn prepare_session(
        conn: &mut Self::Connection,
        snapshot: &RegistrySnapshot,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Sends statements in their order, several in a round trip where the session is prepared for
    /// them.
    #[doc(hidden)]
    fn send(
        conn: &mut Self::Connection,
        context: SendContext<'_>,
        waiting: Vec<QueuedStatement<Self>>,
    ) -> impl Future<Output = Result<(), SendError>> + Send;
}

#[cfg(test)]
mod tests {
    use sqlx::SqlSafeStr as _;

    use super::*;

    fn text(sql: &'static str, types: &[u32]) -> StatementText {
        StatementText { sql: sql.into_sql_str(), types: types.to_vec() }
    }

    fn many(count: usize) -> Vec<StatementText> {
        let sql = |n| sqlx::AssertSqlSafe(format!("DELETE FROM t{n}")).into_sql_str();
        (0..count).map(|n| StatementText { sql: sql(n), types: Vec::new() }).collect()
    }

    #[test]
    fn a_session_is_prepared_again_only_when_texts_were_added() {
        let registry = StatementRegistry::new(true);
        assert!(registry.newer_snapshot(None).is_none());
        registry.add(vec![text("a", &[20]), text("a", &[25]), text("b", &[])]);
        let first = registry.newer_snapshot(None).expect("an edition");
        assert!(registry.newer_snapshot(Some(&first)).is_none());
        registry.add(vec![text("b", &[])]);
        assert!(registry.newer_snapshot(Some(&first)).is_none(), "nothing is new");
        let number = |sql: &'static str, types: &[u32]| first.number_of(&sql.into_sql_str(), types);
        assert_eq!(
            (number("a", &[20]), number("a", &[25]), number("b", &[])),
            (Some(1), Some(2), Some(3))
        );
        assert_eq!((number("a", &[]), number("c", &[])), (None, None));
    }

    #[test]
    fn an_unfit_text_stays_out_and_the_others_keep_their_numbers() {
        let registry = StatementRegistry::new(true);
        registry.add(vec![text("a", &[]), text("b", &[])]);
        registry.exclude(&"a".into_sql_str(), &[]);
        registry.add(vec![text("a", &[]), text("c", &[])]);
        let snapshot = registry.newer_snapshot(None).expect("an edition");
        let numbers: Vec<_> =
            snapshot.texts.iter().map(|(n, text)| (*n, text.sql.as_str())).collect();
        assert_eq!(numbers, [(2, "b"), (3, "c")]);
        assert_eq!(snapshot.number_of(&"a".into_sql_str(), &[]), None);
    }

    #[test]
    fn the_book_is_bounded() {
        let registry = StatementRegistry::new(true);
        let long =
            sqlx::AssertSqlSafe("x".repeat(StatementRegistry::TEXT_BYTES_MAX + 1)).into_sql_str();
        registry.add(vec![StatementText { sql: long, types: Vec::new() }]);
        assert!(registry.newer_snapshot(None).is_none());
        registry.add(many(StatementRegistry::TEXTS_MAX + 1));
        assert!(!registry.accepts_texts());
        assert_eq!(
            registry.newer_snapshot(None).expect("an edition").texts.len(),
            StatementRegistry::TEXTS_MAX
        );
    }

    #[test]
    fn a_book_that_is_shut_prepares_nobody() {
        let closed = StatementRegistry::new(false);
        closed.add(many(1));
        assert!(closed.newer_snapshot(None).is_none() && !closed.accepts_texts());
        let registry = StatementRegistry::new(true);
        registry.add(many(1));
        registry.disable();
        assert!(registry.newer_snapshot(None).is_none() && !registry.accepts_texts());
    }
}

/// What a look at a text found.
#[derive(Debug, Default)]
pub struct TextCheck {
    /// A handler may not run it.
    pub refused: Option<RefusedText>,
    /// It may leave something on the session when the transaction is over.
    pub stays: bool,
}

/// What a handler may not run, and why.
#[derive(Debug)]
pub struct RefusedText {
    /// Its words.
    pub words: String,
    /// What it would do, and what to do instead.
    pub why: &'static str,
    /// The rule that says so.
    pub rule: inbox_engine::internal::Rule,
}
