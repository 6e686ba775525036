//! Looking, for metrics, and for what is wrong.

use std::{future::Future, time::Duration};

use super::{Read as _, SqlClient};
use crate::port::{FeedError, Finding, Inspection, Measurements, Numbers, Reading, Rights};

/// A database that can be looked at.
pub(crate) trait InspectionSql: SqlClient + Rights + Numbers {
    /// How the outbox stands as far as a look of a few milliseconds tells: rows are counted to a bound, in the order of
    /// an index.
    const READING: &'static str;
    /// What its settings put in doubt.
    fn doubts(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Vec<Finding>, FeedError>> + Send;
}

impl<DB: InspectionSql> Inspection for DB {
    async fn findings(session: &mut DB::Session) -> Result<Vec<Finding>, FeedError> {
        let mut found = Vec::from_iter(DB::rights(session).await?);
        found.extend(DB::doubts(session).await?);
        found.extend(DB::numbering(session).await?);
        Ok(found)
    }
}

impl<DB: InspectionSql> Measurements for DB {
    async fn reading(session: &mut DB::Session) -> Result<Reading, FeedError> {
        let row = DB::fetch_one(session, DB::READING, &[]).await?;
        let number = |name| -> Result<u64, sqlx::Error> { Ok(above_zero(row.read(name)?)) };
        let size = |name| -> Result<Option<u64>, sqlx::Error> {
            let bytes: Option<i64> = row.read(name)?;
            Ok(bytes.map(above_zero))
        };
        let lease: f64 = row.read("lease")?;
        let age = |name| -> Result<Option<Duration>, sqlx::Error> {
            let age: Option<f64> = row.read(name)?;
            Ok(age.and_then(seconds))
        };
        Ok(Reading {
            unsent: number("unsent")?,
            oldest: row.read("oldest")?,
            oldest_waits: age("oldest_waits")?,
            oldest_retry: age("oldest_retry")?,
            newest: row.read("newest")?,
            set_aside: number("set_aside")?,
            retrying: number("retrying")?,
            delayed: number("delayed")?,
            without_topic: number("without_topic")?,
            without_destination: number("without_destination")?,
            held: number("held")?,
            table_bytes: size("table_bytes")?,
            index_bytes: size("index_bytes")?,
            lease_left: seconds(lease).unwrap_or(Duration::MAX),
        })
    }
}

/// Seconds, as the database computed them; none below zero, and `None` where they are too many.
fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

fn above_zero(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
