//! How the outbox stands, for `status` and `check`.

use crate::{
    feed::flow::{Columns, Read as _, SqlClient, shown},
    holder,
    port::{
        DESTINATION, FeedError, Overview, Overviews, ReportedOutage, is_destination, read_report,
    },
};

/// So many missing topics, and destinations that are out, are named in an overview.
const NAMES_SHOWN: usize = 10;

/// A database with an overview.
pub(crate) trait OverviewSql: SqlClient {
    /// Counts, the turn, why nothing is shipped.
    const OVERVIEW: &'static str;
    /// What rows wait for, in the order of the names.
    const WAITED_FOR: &'static str;
    /// What the relay that has the turn reports; nothing after its lease.
    const REPORT: &'static str;
}

impl<DB: OverviewSql> Overviews for DB {
    async fn overview(session: &mut DB::Session) -> Result<Overview, FeedError> {
        let mut found = overview(&DB::fetch_one(session, DB::OVERVIEW, &[]).await?)?;
        let names = DB::fetch_all(session, DB::WAITED_FOR, &[]).await?;
        let names: Vec<String> = names.iter().map(|row| row.at(0)).collect::<Result<_, _>>()?;
        let names = names.iter().map(|name| shown(name));
        let (mut destinations, mut topics): (Vec<_>, Vec<_>) =
            names.partition(|name| is_destination(name));
        destinations.truncate(NAMES_SHOWN);
        topics.truncate(NAMES_SHOWN);
        let bare = |name: &String| name.trim_start_matches(DESTINATION).to_owned();
        found.destinations_out = destinations.iter().map(bare).collect();
        found.missing_topics = topics;
        Ok(found)
    }

    async fn destination_outages(
        session: &mut DB::Session,
    ) -> Result<Vec<ReportedOutage>, FeedError> {
        let row = DB::fetch_optional(session, DB::REPORT, &[]).await?;
        let report: Option<Option<String>> = row.map(|row| row.at(0)).transpose()?;
        Ok(read_report(report.flatten()).1)
    }
}

fn overview(row: &impl Columns) -> Result<Overview, sqlx::Error> {
    let lease_left_seconds: Option<i64> = row.read("lease_left")?;
    let owner: Option<String> = row.read("owner")?;
    let relays: Option<i64> = row.read("relays")?;
    let (standstill, outages) = read_report(row.read("standstill")?);
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
        // What a relay reported that has died since is not known to last.
        destination_outages: if lease_left_seconds > Some(0) { outages } else { Vec::new() },
        sent: row.read("sent")?,
        holder: owner.map(|owner| holder::name(&owner)),
        taken_seconds: row.read("taken")?,
        lease_left_seconds,
        fence: row.read("fence")?,
        relays: relays.unwrap_or(0),
        standstill,
    })
}
