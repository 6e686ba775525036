//! `&mut Tx` as an sqlx executor: each statement is looked at before it is sent, and its end is
//! noted.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::{
    Stream, TryStreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use inbox_store::internal::{
    Parts,
    port::{Declarations, DeclaredSql, Relation, Sessions, StoreFault},
};
use sqlx::{Database, Describe, Either, Error, Execute, Executor, SqlStr};

use super::{Tx, guard::Guard};

/// Takes the query apart and admits it, or remembers why not.
fn admit<'q, DB, E>(guard: &mut Guard, query: E, conn: &DB::Connection) -> Result<Parts<DB>, Error>
where
    DB: Sessions,
    DB::Statement: Clone,
    E: Execute<'q, DB>,
{
    let mut query = Parts::of(query).inspect_err(|error| guard.fail::<DB>(error))?;
    guard.admit::<DB>(query.sql.as_str())?;
    query.persistent &= DB::names_statements(conn);
    Ok(query)
}

/// The driver gives what is prepared by itself a name, which behind a pooler stays in the way of others.
fn admit_named<DB: Sessions>(
    guard: &mut Guard,
    sql: &str,
    conn: &DB::Connection,
) -> Result<(), Error> {
    guard.admit::<DB>(sql)?;
    if DB::names_statements(conn) {
        return Ok(());
    }
    let text = "behind a pooler (`database.statement_cache = 0`) a handler may not prepare \
                statements: they would have names; run them as queries";
    Err(guard.refuse(StoreFault::Statement, text.to_owned()))
}

/// Rows of one statement. Dropped between its first and its last poll it leaves the guard running.
struct Rows<'e, DB, T> {
    guard: &'e mut Guard,
    steps: BoxStream<'e, Result<T, Error>>,
    over: bool,
    database: std::marker::PhantomData<fn() -> DB>,
}

impl<DB: Sessions, T> Stream for Rows<'_, DB, T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        self.guard.begin();
        let polled = self.steps.as_mut().poll_next(cx);
        match &polled {
            Poll::Pending | Poll::Ready(Some(Ok(_))) => return polled,
            Poll::Ready(Some(Err(error))) => self.guard.fail::<DB>(error),
            Poll::Ready(None) => self.guard.end(),
        }
        self.over = true;
        polled
    }
}

/// Notes how a statement ended. Dropped before its end it leaves the guard running.
pub(super) async fn record_end<DB: Sessions, T>(
    guard: &mut Guard,
    statement: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    guard.begin();
    let done = statement.await;
    match &done {
        Ok(_) => guard.end(),
        Err(error) => guard.fail::<DB>(error),
    }
    done
}

impl<DB: Declarations> Tx<'_, DB> {
    /// Runs the statement of a declared handler, as any other one.
    pub(crate) async fn apply(
        &mut self,
        sql: &DeclaredSql,
        looped: bool,
        relation: &Relation<'_>,
    ) -> Result<(), Error> {
        self.send_queued_first().await?;
        let Self { connection, guard, .. } = self;
        // The user's own text, however it is sent: the function that runs it for each event leaves nothing behind.
        guard.admit::<DB>(sql.whole.as_str())?;
        record_end::<DB, _>(guard, DB::apply(connection, sql, looped, relation)).await
    }
}

/// What one step of a statement yields on a database.
type Step<DB> = Either<<DB as Database>::QueryResult, <DB as Database>::Row>;

/// A stream of a database's steps.
type Steps<'e, DB> = BoxStream<'e, Result<Step<DB>, Error>>;

// Generic over the database this needs a bound that rustc cannot normalise; per database it is plain.
macro_rules! executor {
    ($db:ty) => {
        impl<'c> Executor<'c> for &'c mut Tx<'_, $db> {
            type Database = $db;

            fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> Steps<'e, $db>
            where
                'c: 'e,
                E: 'q + Execute<'q, $db>,
            {
                /// With nothing queued before it.
                fn at_once<'e, 'q: 'e, E: 'q + Execute<'q, $db>>(
                    tx: &'e mut Tx<'_, $db>,
                    query: E,
                ) -> Steps<'e, $db> {
                    let Tx { connection, guard, .. } = tx;
                    match admit::<$db, E>(guard, query, connection) {
                        Ok(query) => Box::pin(Rows::<$db, _> {
                            steps: (&mut **connection).fetch_many(query),
                            guard,
                            over: false,
                            database: std::marker::PhantomData,
                        }),
                        Err(error) => Box::pin(stream::iter([Err(error)])),
                    }
                }
                if self.queue.is_empty() {
                    return at_once(self, query);
                }
                let flushed = async move {
                    self.send_queued_first().await?;
                    Ok::<_, Error>(at_once(self, query))
                };
                Box::pin(stream::once(flushed).try_flatten())
            }

            fn fetch_optional<'e, 'q: 'e, E>(
                self,
                query: E,
            ) -> BoxFuture<'e, Result<Option<<$db as Database>::Row>, Error>>
            where
                'c: 'e,
                E: 'q + Execute<'q, $db>,
            {
                Box::pin(async move {
                    self.send_queued_first().await?;
                    let Tx { connection, guard, .. } = self;
                    let query = admit::<$db, E>(guard, query, connection)?;
                    record_end::<$db, _>(guard, (&mut **connection).fetch_optional(query)).await
                })
            }

            fn prepare_with<'e>(
                self,
                sql: SqlStr,
                parameters: &'e [<$db as Database>::TypeInfo],
            ) -> BoxFuture<'e, Result<<$db as Database>::Statement, Error>>
            where
                'c: 'e,
            {
                Box::pin(async move {
                    self.send_queued_first().await?;
                    let Tx { connection, guard, .. } = self;
                    admit_named::<$db>(guard, sql.as_str(), connection)?;
                    let prepared = (&mut **connection).prepare_with(sql, parameters);
                    record_end::<$db, _>(guard, prepared).await
                })
            }

            fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<$db>, Error>>
            where
                'c: 'e,
            {
                Box::pin(async move {
                    self.send_queued_first().await?;
                    let Tx { connection, guard, .. } = self;
                    admit_named::<$db>(guard, sql.as_str(), connection)?;
                    record_end::<$db, _>(guard, (&mut **connection).describe(sql)).await
                })
            }
        }
    };
}

#[cfg(feature = "postgres")]
executor!(sqlx::Postgres);
#[cfg(feature = "sqlite")]
executor!(sqlx::Sqlite);
