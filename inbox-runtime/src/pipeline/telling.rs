//! Why partitions stand still and what holds their lanes, written down for `status`: the last word about each
//! counts, and it is said.

use std::{sync::Arc, time::Duration};

use inbox_store::internal::port::{Note, Owners, Scope};

use super::{
    control::Control,
    words::{Word, Words},
};

/// After a failure what was to be said is said again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

impl<DB: Owners> Control<DB> {
    /// Writes down how a partition is, or (`None`) that there is nothing to say. For people only: nothing waits
    /// for it.
    pub(super) fn tell(self: &Arc<Self>, note: Note, scope: Scope, text: Option<String>) {
        if self.words(note).add((scope, text)) {
            let control = Arc::clone(self);
            tokio::spawn(async move { control.say(note).await });
        }
    }

    fn words(&self, note: Note) -> &Words {
        match note {
            Note::Standstill => &self.standstills,
            Note::HeldLanes => &self.held_lanes,
        }
    }

    async fn say(&self, note: Note) {
        let all = self.words(note);
        loop {
            let words = all.take();
            if words.is_empty() {
                return;
            }
            if self.write_words(note, &words).await.is_none() {
                all.put_back(words);
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }

    async fn write_words(&self, note: Note, words: &[Word]) -> Option<()> {
        let _permit = self.permits.acquire().await;
        let mut conn = self.sessions.take().await.ok()?;
        match DB::write_words(&mut conn, note, words).await {
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
