//! What became of rows is stored, one conclusion at a time.

use futures::future::BoxFuture;
use inbox_engine::internal::Rule;

use super::{LazySession, pending_or};
use crate::port::{Conclusion, Owners, Stored, Turn};

/// The longest error that is written on a row.
const ERROR_CHARS: usize = 2_000;

/// Stores on a session of its own.
pub(super) struct Storage<F: Owners> {
    turn: Turn,
    /// `None` while it stores.
    session: Option<LazySession<F>>,
    storing: Option<BoxFuture<'static, StoreAttempt<F>>>,
    /// What could not be stored; it comes first.
    unstored: Option<Conclusion>,
}

/// An attempt to store a conclusion has ended.
struct StoreAttempt<F: Owners> {
    session: LazySession<F>,
    conclusion: Conclusion,
    result: Result<Stored, String>,
}

impl<F: Owners> Storage<F> {
    pub(super) fn new(session: LazySession<F>, turn: Turn) -> Self {
        Self { turn, session: Some(session), storing: None, unstored: None }
    }

    /// The session, while nothing is being stored.
    pub(super) fn session(&mut self) -> Option<&mut LazySession<F>> {
        self.session.as_mut()
    }

    /// Whether it is on this session, or stores on it.
    pub(super) fn is_on(&self, session: u64) -> bool {
        self.session.as_ref().is_none_or(|it| it.number() == Some(session))
    }

    /// Whether something could not be stored.
    pub(super) fn lags(&self) -> bool {
        self.unstored.is_some()
    }

    pub(super) fn begin(&mut self, mut conclusion: Conclusion) {
        rewrite_errors(&mut conclusion, |c| !c.is_control());
        self.start(conclusion);
    }

    fn start(&mut self, conclusion: Conclusion) {
        let Some(mut session) = self.session.take() else {
            debug_assert!(false, "one conclusion is stored at a time");
            return;
        };
        let turn = self.turn;
        self.storing = Some(Box::pin(async move {
            let result = session.call(async |s| F::store(s, turn, &conclusion).await).await;
            StoreAttempt { session, conclusion, result }
        }));
    }

    /// Once more, what could not be stored.
    pub(super) fn begin_again(&mut self) {
        if let Some(conclusion) = self.unstored.take() {
            self.start(conclusion);
        }
    }

    /// What is stored next, and what came of it. Never, while nothing is being stored.
    pub(super) async fn next(&mut self) -> Result<(Conclusion, Stored), String> {
        let attempt = pending_or(&mut self.storing).await;
        self.storing = None;
        let StoreAttempt { session, mut conclusion, result } = attempt;
        self.session = Some(session);
        match result {
            Ok(stored) => Ok((conclusion, stored)),
            Err(error) => {
                // Not every database has every character.
                rewrite_errors(&mut conclusion, |c| c.is_ascii_graphic() || c == ' ');
                self.unstored = Some(conclusion);
                Err(error)
            }
        }
    }
}

/// Makes errors texts of these characters alone.
fn rewrite_errors(conclusion: &mut Conclusion, plain: impl Fn(char) -> bool) {
    for error in conclusion.parked.iter_mut().filter_map(|park| park.error.as_mut()) {
        *error = writable(error, &plain);
    }
}

/// A text that the database can store: what it may not take is escaped, and it has an end.
fn writable(text: &str, plain: impl Fn(char) -> bool) -> String {
    if !Rule::ErrorIsWritable.on() {
        return text.to_owned();
    }
    let mut written = String::new();
    for c in text.chars().take(ERROR_CHARS) {
        if plain(c) {
            written.push(c);
        } else {
            written.extend(c.escape_unicode());
        }
    }
    written
}
