//! Looking, for `status` and `check`.

use std::future::Future;

use super::{Columns, SqlClient};
use crate::port::{FeedError, Finding, Inspection, Numbers, Overview, Rights, Topics};

/// So many missing topics are named in an overview.
const TOPICS_SHOWN: usize = 10;

/// A database that can be looked at.
pub(crate) trait InspectionSql: SqlClient + Topics + Rights + Numbers {
    /// Counts, the turn, why nothing is shipped.
    const OVERVIEW: &'static str;
    /// What its settings put in doubt.
    fn doubts(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Vec<Finding>, FeedError>> + Send;
}

impl<DB: InspectionSql> Inspection for DB {
    async fn overview(session: &mut DB::Session) -> Result<Overview, FeedError> {
        let mut found = overview(&DB::fetch_one(session, DB::OVERVIEW, &[]).await?)?;
        found.missing_topics = DB::topics(session).await?;
        found.missing_topics.truncate(TOPICS_SHOWN);
        Ok(found)
    }

    async fn findings(session: &mut DB::Session) -> Result<Vec<Finding>, FeedError> {
        let mut found = Vec::from_iter(DB::rights(session).await?);
        found.extend(DB::doubts(session).await?);
        found.extend(DB::numbering(session).await?);
        Ok(found)
    }
}

fn overview(row: &impl Columns) -> Result<Overview, sqlx::Error> {
    Ok(Overview {
        waiting: row.read("waiting")?,
        held: row.read("held")?,
        oldest_seconds: row.read("oldest")?,
        failed: row.read("failed")?,
        retrying: row.read("retrying")?,
        delayed: row.read("delayed")?,
        next_due_seconds: row.read("next_due")?,
        waiting_for_topic: row.read("waiting_for_topic")?,
        missing_topics: Vec::new(),
        sent: row.read("sent")?,
        holder: row.read("owner")?,
        taken_seconds: row.read("taken")?,
        lease_left_seconds: row.read("lease_left")?,
        fence: row.read("fence")?,
        standstill: row.read("standstill")?,
    })
}
