//! How the runtime's own statements are sent.
//!
//! Within a deadline. With a name where the session keeps statements, else without one and in a transaction.
//!
//! The driver names each statement that is "persistent" and closes it only when it falls out of its cache.
//! Without a cache it stays: as waste in a session of one's own, behind a pooler in the way of others (42P05,
//! and 26000 where it is missing). A statement without a name takes two exchanges, between which a pooler
//! may change the server's connection, unless a transaction is open.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::{
    Stream, StreamExt as _, TryStreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use inbox_engine::internal::Rule;
use outbox_core::internal::keeps_statements;
use sqlx::{
    Connection as _, Describe, Either, Error, Execute, Executor, PgConnection, Postgres, SqlStr,
    postgres::{PgQueryResult, PgRow, PgStatement, PgTypeInfo},
};
use tokio::time::Sleep;

use super::session;
use crate::{parts::Parts, port::deadline};

/// The session as an executor that sends statements as it needs them.
pub(super) fn on(conn: &mut PgConnection) -> On<'_> {
    On(conn)
}

/// See [`on`].
#[derive(Debug)]
pub(super) struct On<'c>(&'c mut PgConnection);

/// What one step of a statement yields.
type Step = Either<PgQueryResult, PgRow>;

impl<'c> Executor<'c> for On<'c> {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Step, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let On(conn) = self;
        let keeps = keeps_statements(conn);
        let query = match Parts::of(query) {
            Ok(query) => Parts { persistent: query.persistent && named(keeps), ..query },
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        #[cfg(feature = "ablation")]
        let query = super::ablation::without_rules(query);
        if keeps || query.arguments.is_none() || conn.is_in_transaction() {
            return limited(conn.fetch_many(query));
        }
        let steps = stream::once(apart(conn, query));
        steps.map_ok(|steps| stream::iter(steps.into_iter().map(Ok))).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let mut steps = self.fetch_many(query);
        Box::pin(async move {
            let mut first = None;
            // To the end: an error may come behind the first row.
            while let Some(step) = steps.try_next().await? {
                first = first.or(step.right());
            }
            Ok(first)
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'c: 'e,
    {
        Box::pin(deadline::within(self.0.prepare_with(sql, parameters)))
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Postgres>, Error>>
    where
        'c: 'e,
    {
        Box::pin(deadline::within(self.0.describe(sql)))
    }
}

/// In a transaction of its own.
async fn apart(conn: &mut PgConnection, query: Parts<Postgres>) -> Result<Vec<Step>, Error> {
    session::begin_own(conn).await?;
    let steps: Result<Vec<Step>, Error> =
        limited((&mut *conn).fetch_many(query)).try_collect().await;
    session::end_own(conn, steps).await
}

/// Whether a statement on a session that keeps statements or does not has a name.
pub(super) fn named(keeps: bool) -> bool {
    keeps || !Rule::UnnamedBehindPooler.on()
}

/// A statement's steps; an error when they have taken too long.
struct Limited<'e> {
    steps: BoxStream<'e, Result<Step, Error>>,
    late: Option<Pin<Box<Sleep>>>,
}

fn limited(steps: BoxStream<'_, Result<Step, Error>>) -> BoxStream<'_, Result<Step, Error>> {
    let late = deadline::limit().map(|limit| Box::pin(tokio::time::sleep(limit)));
    Box::pin(Limited { steps, late })
}

impl Stream for Limited<'_> {
    type Item = Result<Step, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.steps.poll_next_unpin(cx);
        if polled.is_ready() {
            return polled;
        }
        match self.late.as_mut().map(|late| late.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => Poll::Ready(Some(Err(deadline::silent()))),
            _ => Poll::Pending,
        }
    }
}
