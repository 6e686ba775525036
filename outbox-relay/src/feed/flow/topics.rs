//! The topics that are missing.

use super::{Read as _, SqlClient};
use crate::port::{FeedError, Topics};

/// A database with rows that wait for topics.
pub(crate) trait TopicSql: SqlClient {
    /// At most a thousand.
    const TOPICS: &'static str;
}

impl<DB: TopicSql> Topics for DB {
    async fn topics(session: &mut DB::Session) -> Result<Vec<String>, FeedError> {
        let found = DB::fetch_all(session, DB::TOPICS, &[]).await?;
        Ok(found.iter().map(|row| row.at(0)).collect::<Result<_, _>>()?)
    }
}
