//! Why partitions stand still and what holds their lanes, written down for `status`: the last word about each
//! counts, and it is said.

use std::{sync::Arc, time::Duration};

use inbox_store::internal::port::{Note, Owners, Scope};

use super::{
    control::Control,
    pending_notes::{PartitionNote, PendingNotes},
};

/// After a failure what was to be said is said again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

impl<DB: Owners> Control<DB> {
    /// Writes down how a partition is, or (`None`) that there is nothing to say. For people only: nothing waits
    /// for it.
    pub(super) fn tell(self: &Arc<Self>, note: Note, scope: Scope, text: Option<String>) {
        if self.pending(note).add((scope, text)) {
            let control = Arc::clone(self);
            tokio::spawn(async move { control.write_pending(note).await });
        }
    }

    fn pending(&self, note: Note) -> &PendingNotes {
        match note {
            Note::Standstill => &self.standstills,
            Note::HeldLanes => &self.held_lanes,
        }
    }

    async fn write_pending(&self, note: Note) {
        let all = self.pending(note);
        loop {
            let notes = all.take();
            if notes.is_empty() {
                return;
            }
            if self.write_notes(note, &notes).await.is_none() {
                all.put_back(notes);
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }

    async fn write_notes(&self, note: Note, notes: &[PartitionNote]) -> Option<()> {
        let _permit = self.permits.acquire().await;
        let mut conn = self.sessions.take().await.ok()?;
        match DB::write_notes(&mut conn, note, notes).await {
            Ok(()) => {
                self.sessions.give_back(conn).await;
                Some(())
            }
            Err(_) => {
                self.sessions.give_up(conn).await;
                None
            }
        }
    }
}
