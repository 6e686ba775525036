//! How much is parked.

use super::{Columns, SqlClient, values};
use crate::{
    port::{ParkedLoad, Scope},
    shared::count,
};

/// What is parked in a partition, counted up to one more than each limit. The text has the parameters 1 partition,
/// 2 and 3 the limits of aggregates and events. Aggregates are counted by one probe of an index for each, those of
/// what waits for versions by another index: each has many queues. A length is known without what is long.
pub(crate) async fn load<DB: SqlClient>(
    conn: &mut DB::Connection,
    text: &'static str,
    scope: &Scope,
    limit: ParkedLoad,
) -> Result<ParkedLoad, sqlx::Error> {
    let bound = |limit: u64| i64::try_from(limit).unwrap_or(i64::MAX - 1);
    let values = values![scope.partition_ref, bound(limit.aggregates), bound(limit.events)];
    read_load(&DB::fetch_one(conn, text, values).await?)
}

fn read_load(row: &impl Columns) -> Result<ParkedLoad, sqlx::Error> {
    Ok(ParkedLoad {
        aggregates: count(row.read("aggregates")?),
        events: count(row.read("events")?),
        bytes: count(row.read("bytes")?),
    })
}
