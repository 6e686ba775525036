//! Events that are run with care, since a process may have ended because of one.

use std::future::Future;

use inbox_engine::internal::Offset;
use sqlx::Database;
use uuid::Uuid;

use super::Scope;

/// An event that is not settled and that something is known of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suspect {
    /// Where it is.
    pub offset: Offset,
    /// So many processes have ended while they ran it.
    pub deaths: u32,
    /// It is to be parked instead of run: who has said so, and why.
    pub doom: Option<String>,
}

/// Writing down what runs before it does.
pub trait Suspects: Database {
    /// Writes down that this process runs these events, and commits that.
    fn suspect(
        conn: &mut Self::Connection,
        scope: &Scope,
        incarnation: Uuid,
        offsets: &[Offset],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// They have come to an end, whichever: forgets what [`Suspects::suspect`] of this process wrote.
    fn acquit(
        conn: &mut Self::Connection,
        scope: &Scope,
        incarnation: Uuid,
        offsets: &[Offset],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}
