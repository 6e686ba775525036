//! The topics and destinations that rows wait for.

use super::{Read as _, SqlClient, values};
use crate::{
    feed::rows,
    port::{FeedError, Topics},
};

/// So many names are read by one statement.
const PAGE: usize = 1_000;

/// A database with rows that wait for topics.
pub(crate) trait TopicSql: SqlClient {
    /// 1 behind which name, 2 how many, in their order.
    const TOPICS: &'static str;
}

impl<DB: TopicSql> Topics for DB {
    async fn topics(session: &mut DB::Session) -> Result<Vec<String>, FeedError> {
        let mut names: Vec<String> = Vec::new();
        loop {
            let last = names.last().cloned().unwrap_or_default();
            let found = topics_behind::<DB>(session, &last).await?;
            let whole = found.len() == PAGE;
            names.extend(found);
            if !whole {
                return Ok(names);
            }
        }
    }
}

/// The first names behind one.
pub(crate) async fn topics_behind<DB: TopicSql>(
    session: &mut DB::Session,
    name: &str,
) -> Result<Vec<String>, FeedError> {
    let found = DB::fetch_all(session, DB::TOPICS, values![name, rows(PAGE)]).await?;
    Ok(found.iter().map(|row| row.at(0)).collect::<Result<_, _>>()?)
}
