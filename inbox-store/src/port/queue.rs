//! What is asked of the database for statements that handlers queue.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sqlx::{Database, Encode, SqlStr, Type, error::BoxDynError};

/// The values of one statement that waits.
pub enum Values<DB: Database> {
    /// Taken apart, so that they can travel together with those of other statements.
    Apart(Apart),
    /// As the driver takes them.
    Bound(DB::Arguments),
}

impl<DB: Database> fmt::Debug for Values<DB> {
    /// Never the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").finish_non_exhaustive()
    }
}

impl<DB: Database> fmt::Debug for Waiting<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("sql", &self.sql.as_str()).finish_non_exhaustive()
    }
}

/// Values by type, each as the database encodes it.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    /// The database's number of each value's type.
    pub types: Vec<u32>,
    /// The values one behind the other, each behind its length: four bytes, big-endian; −1 is NULL.
    pub bytes: Vec<u8>,
}

/// A statement that waits to be sent.
pub struct Waiting<DB: Database> {
    /// Its text.
    pub sql: SqlStr,
    /// Its values.
    pub values: Values<DB>,
    /// The event of the run whose handler queued it, if events are handled one by one.
    pub at: Option<usize>,
}

/// A text with the types of its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    /// The text.
    pub sql: SqlStr,
    /// The types.
    pub types: Vec<u32>,
}

/// Texts that handlers queue, shared by the transactions of a consumer, so that sessions can be
/// prepared for them. A text goes in when it was sent by itself and succeeded; nothing but the number
/// of round trips depends on its being there.
#[derive(Debug, Default)]
pub struct Book {
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    /// Sessions can be prepared.
    open: bool,
    /// And whether prepared sessions can run them.
    texts: Vec<(Text, bool)>,
    edition: Option<Arc<Edition>>,
}

/// What a session can be prepared for.
#[derive(Debug, Default)]
pub struct Edition {
    /// Which one it is; a newer one has a larger number.
    pub number: u64,
    /// The texts, each with its number.
    pub texts: Vec<(i16, Text)>,
    by_sql: HashMap<SqlStr, Vec<(Vec<u32>, i16)>>,
}

impl Edition {
    fn new(number: u64, texts: &[(Text, bool)]) -> Self {
        let mut edition = Self { number, ..Self::default() };
        for ((text, fit), number) in texts.iter().zip(1..) {
            if *fit {
                let known = edition.by_sql.entry(text.sql.clone()).or_default();
                known.push((text.types.clone(), number));
                edition.texts.push((number, text.clone()));
            }
        }
        edition
    }

    /// The number of a statement's text.
    pub fn number_of(&self, sql: &SqlStr, types: &[u32]) -> Option<i16> {
        let known = self.by_sql.get(sql)?;
        known.iter().find(|(known, _)| known == types).map(|(_, number)| *number)
    }
}

impl Book {
    /// The most texts in it. A handler whose texts are all different gains nothing by their being
    /// known, and must not fill the memory.
    pub const TEXTS_MAX: usize = 64;
    /// The longest text that is taken in.
    const TEXT_BYTES_MAX: usize = 16 << 10;

    /// A book; closed where no session can be prepared.
    pub fn new(open: bool) -> Self {
        Self { pages: Mutex::new(Pages { open, ..Pages::default() }) }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest edition, unless it is the one that the session has.
    pub fn newer(&self, than: Option<&Arc<Edition>>) -> Option<Arc<Edition>> {
        let pages = self.pages();
        let newest = pages.edition.as_ref().filter(|_| pages.open)?;
        (than.is_none_or(|had| had.number < newest.number)).then(|| Arc::clone(newest))
    }

    /// Takes texts in that were sent by themselves.
    pub fn add(&self, texts: Vec<Text>) {
        let mut pages = self.pages();
        let had = pages.texts.len();
        for text in texts {
            let known = pages.texts.iter().any(|(known, _)| *known == text);
            let room = pages.texts.len() < Self::TEXTS_MAX;
            if room && !known && text.sql.as_str().len() <= Self::TEXT_BYTES_MAX {
                pages.texts.push((text, true));
            }
        }
        if pages.texts.len() > had {
            pages.publish();
        }
    }

    /// A prepared session could not run the text: it is sent by itself from now on.
    pub fn unfit(&self, sql: &SqlStr, types: &[u32]) {
        let mut pages = self.pages();
        let mut texts = pages.texts.iter_mut();
        if let Some((_, fit)) = texts.find(|(text, _)| text.sql == *sql && text.types == types) {
            *fit = false;
            pages.publish();
        }
    }

    /// Sessions cannot be prepared, the database says.
    pub fn shut(&self) {
        self.pages().open = false;
    }

    /// Whether adding can do anything.
    pub fn takes(&self) -> bool {
        let pages = self.pages();
        pages.open && pages.texts.len() < Self::TEXTS_MAX
    }
}

impl Pages {
    fn publish(&mut self) {
        let number = self.edition.as_ref().map_or(1, |edition| edition.number + 1);
        self.edition = Some(Arc::new(Edition::new(number, &self.texts)));
    }
}

/// What there is to send statements with.
#[derive(Debug)]
pub struct Means<'a> {
    /// Where texts go that were sent by themselves and may travel with others.
    pub book: Option<&'a Book>,
    /// What the session is prepared for.
    pub edition: Option<&'a Edition>,
    /// How many round trips of this transaction could have named the statement that fails.
    pub named: &'a mut u32,
}

impl Means<'_> {
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
pub struct NotSent {
    /// The statement that failed, if it is known.
    pub at: Option<usize>,
    /// What the database says.
    pub error: sqlx::Error,
}

/// Queued statements on a database.
pub trait Queues: Database {
    /// No values.
    #[doc(hidden)]
    fn values() -> Values<Self>;

    /// Adds a value; answers the bytes that it takes, as far as they are known.
    #[doc(hidden)]
    fn bind<'t, T: Encode<'t, Self> + Type<Self>>(
        values: &mut Values<Self>,
        value: T,
    ) -> Result<usize, BoxDynError>;

    /// Looks at a text before a handler runs it.
    #[doc(hidden)]
    fn look(sql: &str) -> Look;

    /// Prepares a session for the texts of an edition, outside any transaction.
    #[doc(hidden)]
    fn learn(
        conn: &mut Self::Connection,
        edition: &Edition,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Sends statements in their order, several in a round trip where the session is prepared for
    /// them.
    #[doc(hidden)]
    fn send(
        conn: &mut Self::Connection,
        means: Means<'_>,
        waiting: Vec<Waiting<Self>>,
    ) -> impl Future<Output = Result<(), NotSent>> + Send;
}

#[cfg(test)]
mod tests {
    use sqlx::SqlSafeStr as _;

    use super::*;

    fn text(sql: &'static str, types: &[u32]) -> Text {
        Text { sql: sql.into_sql_str(), types: types.to_vec() }
    }

    fn many(count: usize) -> Vec<Text> {
        let sql = |n| sqlx::AssertSqlSafe(format!("DELETE FROM t{n}")).into_sql_str();
        (0..count).map(|n| Text { sql: sql(n), types: Vec::new() }).collect()
    }

    #[test]
    fn a_session_is_prepared_again_only_when_texts_were_added() {
        let book = Book::new(true);
        assert!(book.newer(None).is_none());
        book.add(vec![text("a", &[20]), text("a", &[25]), text("b", &[])]);
        let first = book.newer(None).expect("an edition");
        assert!(book.newer(Some(&first)).is_none());
        book.add(vec![text("b", &[])]);
        assert!(book.newer(Some(&first)).is_none(), "nothing is new");
        let number = |sql: &'static str, types: &[u32]| first.number_of(&sql.into_sql_str(), types);
        assert_eq!(
            (number("a", &[20]), number("a", &[25]), number("b", &[])),
            (Some(1), Some(2), Some(3))
        );
        assert_eq!((number("a", &[]), number("c", &[])), (None, None));
    }

    #[test]
    fn an_unfit_text_stays_out_and_the_others_keep_their_numbers() {
        let book = Book::new(true);
        book.add(vec![text("a", &[]), text("b", &[])]);
        book.unfit(&"a".into_sql_str(), &[]);
        book.add(vec![text("a", &[]), text("c", &[])]);
        let edition = book.newer(None).expect("an edition");
        let numbers: Vec<_> =
            edition.texts.iter().map(|(n, text)| (*n, text.sql.as_str())).collect();
        assert_eq!(numbers, [(2, "b"), (3, "c")]);
        assert_eq!(edition.number_of(&"a".into_sql_str(), &[]), None);
    }

    #[test]
    fn the_book_is_bounded() {
        let book = Book::new(true);
        let long = sqlx::AssertSqlSafe("x".repeat(Book::TEXT_BYTES_MAX + 1)).into_sql_str();
        book.add(vec![Text { sql: long, types: Vec::new() }]);
        assert!(book.newer(None).is_none());
        book.add(many(Book::TEXTS_MAX + 1));
        assert!(!book.takes());
        assert_eq!(book.newer(None).expect("an edition").texts.len(), Book::TEXTS_MAX);
    }

    #[test]
    fn a_book_that_is_shut_prepares_nobody() {
        let closed = Book::new(false);
        closed.add(many(1));
        assert!(closed.newer(None).is_none() && !closed.takes());
        let book = Book::new(true);
        book.add(many(1));
        book.shut();
        assert!(book.newer(None).is_none() && !book.takes());
    }
}

/// What a look at a text found.
#[derive(Debug, Default)]
pub struct Look {
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
