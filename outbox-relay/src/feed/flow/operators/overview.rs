//! How the outbox stands, for `status` and `check`.

use crate::{
    feed::flow::{
        Columns,
        topics::{TopicSql, topics_behind},
    },
    port::{DESTINATION, FeedError, Overview, Overviews, is_destination},
};

/// So many missing topics, and destinations that are out, are named in an overview.
const TOPICS_SHOWN: usize = 10;

/// A database with an overview.
pub(crate) trait OverviewSql: TopicSql {
    /// Counts, the turn, why nothing is shipped.
    const OVERVIEW: &'static str;
}

impl<DB: OverviewSql> Overviews for DB {
    async fn overview(session: &mut DB::Session) -> Result<Overview, FeedError> {
        let mut found = overview(&DB::fetch_one(session, DB::OVERVIEW, &[]).await?)?;
        let names = topics_behind::<DB>(session, "").await?.into_iter();
        let (mut destinations, mut topics): (Vec<_>, Vec<_>) =
            names.partition(|name| is_destination(name));
        destinations.truncate(TOPICS_SHOWN);
        topics.truncate(TOPICS_SHOWN);
        let bare = |name: &String| name.trim_start_matches(DESTINATION).to_owned();
        found.destinations_out = destinations.iter().map(bare).collect();
        found.missing_topics = topics;
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
        waiting_for_destination: row.read("waiting_for_destination")?,
        missing_topics: Vec::new(),
        destinations_out: Vec::new(),
        sent: row.read("sent")?,
        holder: row.read("owner")?,
        taken_seconds: row.read("taken")?,
        lease_left_seconds: row.read("lease_left")?,
        fence: row.read("fence")?,
        standstill: row.read("standstill")?,
    })
}
