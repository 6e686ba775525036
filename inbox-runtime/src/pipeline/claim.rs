//! The claim: which events of a batch are fresh, and what becomes of the others.

use inbox_engine::internal::{
    BatchOutcome, Doom, HandlerFault, Offset, ParkReason, Rule, TransactionFault, distinct,
};
use inbox_store::internal::port::{ClaimRequest, ClaimResult, InboxRow, Transactions};

use super::{
    Delivered,
    disposition::{Disposition, Dispositions},
    intake::{IGNORED, Intake},
    transaction::{EarlyEnd, Transaction},
};

impl<'a, DB: Transactions> Transaction<'a, DB> {
    /// One statement for all ids, before any handler; a second one when it tells too little of some.
    pub(super) async fn claim(&mut self) -> Result<Dispositions<'a>, EarlyEnd> {
        let batch: &'a _ = self.batch;
        let items = &batch.items;
        let distinct = distinct(items, |item| item.kind.route != IGNORED.route);
        let request = self.request(&distinct.claimed);
        let claimed = self.ask_claim(&request).await;
        if claimed.is_err() {
            self.work.state.recent_copies.meet();
        }
        let mut claimed = claimed.map_err(|error| self.statement_failed("the claim", &error))?;
        self.check_lanes(claimed.lanes_mine)?;
        (self.tx, self.changed) = (std::mem::take(&mut claimed.tx), claimed.changed);
        claimed.fresh.sort_unstable();
        let known = self.recheck(&request, &mut claimed).await?;
        self.note_copies(&known);
        let before = self.parked_before().await?;

        let mut dispositions = Dispositions::new(items, claimed.held);
        for &index in &distinct.claimed {
            let item = &items[index];
            let disposition = if before.contains(&item.offset) {
                Disposition::Duplicate
            } else if claimed.fresh.binary_search(&item.id).is_ok() {
                self.judge_fresh(index, item)?
            } else {
                self.judge_known(item, &known).await?
            };
            dispositions.set(index, self.refused(disposition));
        }
        for (copy, first) in distinct.copies {
            // What the row says outranks the copy before: that one may be the impostor.
            let taken = known.binary_search_by_key(&items[copy].id, |known| known.id).is_ok();
            let disposition = if taken {
                self.judge_known(&items[copy], &known).await?
            } else {
                copy_of(&items[copy], &items[first])
            };
            dispositions.set(copy, self.refused(disposition));
        }
        dispositions.hold_followers();
        Ok(dispositions)
    }

    fn note_copies(&self, known: &[InboxRow]) {
        let copies = &self.work.state.recent_copies;
        if known.is_empty() { copies.miss() } else { copies.meet() }
    }

    pub(super) fn request(&self, claimed: &[usize]) -> ClaimRequest {
        let items = &self.batch.items;
        let mut aggregates: Vec<[u8; 16]> = items.iter().map(|item| item.aggregate).collect();
        aggregates.sort_unstable();
        aggregates.dedup();
        ClaimRequest {
            ids: claimed.iter().map(|&i| items[i].id).collect(),
            fingerprints: claimed.iter().map(|&i| items[i].fingerprint).collect(),
            offsets: claimed.iter().map(|&i| items[i].offset.0).collect(),
            aggregates,
            lanes: self.batch.lanes.clone(),
            expects_new: self.direct && !self.work.state.recent_copies.are_expected(),
        }
    }

    /// Not all lanes at (epoch, prev): somebody else moved them, or the database went back.
    pub(super) fn check_lanes(&self, lanes_mine: u64) -> Result<(), EarlyEnd> {
        let all = lanes_mine == self.batch.lanes.len() as u64;
        if all || !Rule::LanesAtClaim.on() {
            return Ok(());
        }
        Err(EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Fenced)))
    }

    /// Not all lanes moved, in the transaction of the claim: somebody else is the owner, or a handler has changed the
    /// rows that were claimed, or the lanes themselves. Where one writes at a time, nobody else can have been it since
    /// the claim.
    pub(super) async fn fenced_or_changed(&mut self, changed: Option<i64>, moved: u64) -> EarlyEnd {
        let now = DB::changed(self.conn).await.ok().flatten();
        let now = now.map(|now| now.saturating_sub_unsigned(moved));
        let same = now.zip(changed).is_none_or(|(now, changed)| now == changed);
        if same && (DB::WRITERS_MAX > 1 || !Rule::InboxRowsCounted.on()) {
            return EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Fenced));
        }
        let text = "a handler, or a function or trigger that it caused to run, changed rows of \
                    inbox_events or inbox_lanes: the runtime owns them, and each effect happens \
                    once because of them; use your own tables instead";
        EarlyEnd::RolledBack(self.handler_failed(None, HandlerFault::Reject, text.into()))
    }

    pub(super) async fn recheck(
        &mut self,
        request: &ClaimRequest,
        claimed: &mut ClaimResult,
    ) -> Result<Vec<InboxRow>, EarlyEnd> {
        let mut known = std::mem::take(&mut claimed.known);
        known.sort_unstable_by_key(|known| known.id);
        if claimed.fresh.len() + known.len() == request.ids.len() {
            return Ok(known);
        }
        let untold = |id: &&[u8; 16]| {
            claimed.fresh.binary_search(id).is_err()
                && known.binary_search_by_key(*id, |known| known.id).is_err()
        };
        let ids: Vec<[u8; 16]> = request.ids.iter().filter(untold).copied().collect();
        let found = DB::recheck(self.conn, &self.scope, &ids, &self.batch.lanes).await;
        let found =
            found.map_err(|error| self.statement_failed("the lookup of duplicates", &error))?;
        // The claim may have waited for another's ids: its view of the lanes is then old.
        if Rule::DuplicatesRereadLanes.on() {
            self.check_lanes(found.lanes_mine)?;
        }
        known.extend(found.known);
        known.sort_unstable_by_key(|known| known.id);
        Ok(known)
    }

    /// Deliveries below a remap whose record is parked already, whatever id they decode to today.
    async fn parked_before(&mut self) -> Result<Vec<Offset>, EarlyEnd> {
        let below = self.batch.remapped_below.0;
        let old = self.batch.items.iter().filter(|item| item.offset.0 < below);
        let old: Vec<_> = old.map(|item| (item.offset, item.leader_epoch)).collect();
        if old.is_empty() {
            return Ok(Vec::new());
        }
        let parked = DB::parked_at(self.conn, &self.scope, &old).await;
        parked.map_err(|error| self.statement_failed("the lookup of parked events", &error))
    }

    fn judge_fresh(&self, index: usize, item: &Delivered) -> Result<Disposition, EarlyEnd> {
        let passed = self.batch.lanes.iter().any(|l| l.lane == item.lane && item.offset <= l.prev);
        let (watermark, remapped) = (self.batch.watermark.0, self.batch.remapped_below.0);
        if passed && item.offset.0 >= watermark.max(remapped) {
            // No row at or above the watermark was ever pruned: this is proof, not a guess.
            return Err(EarlyEnd::RolledBack(BatchOutcome::Reused(index)));
        }
        Ok(match &item.doomed {
            Some(doom) => self.dispose(item, doom.clone()),
            None => Disposition::Run,
        })
    }

    pub(super) async fn judge_known(
        &mut self,
        item: &Delivered,
        known: &[InboxRow],
    ) -> Result<Disposition, EarlyEnd> {
        let Ok(found) = known.binary_search_by_key(&item.id, |known| known.id) else {
            // Claimed by another transaction that then rolled back, or pruned in between: no row now,
            // though the insert met one. Only a conflict explains it; the batch will be tried again.
            return Ok(Disposition::Vanished);
        };
        let found = &known[found];
        if !Intake::is_same_content(found, item) && Rule::MismatchParks.on() {
            return Ok(Disposition::Park(self.mismatch(found).await?));
        }
        // What somebody waits for gets another offset each time that it is sent.
        let same_offset = self.direct || found.offset == item.offset;
        let own = found.partition_ref == self.scope.partition_ref && same_offset;
        let passed = self.batch.lanes.iter().any(|l| l.lane == item.lane && found.offset <= l.prev);
        let remapped = item.offset.0 < self.batch.remapped_below.0;
        // Its lanes were let go with a torn transaction, and another one may have moved them past it since; a partition
        // that was retired meanwhile leaves its number in the row.
        let torn = self.torn_before.contains(&item.id) && !found.parked;
        if (torn || (own && !passed)) && !remapped && Rule::TornCheck.on() {
            let error = "its inbox row exists, but its lane was never moved: a handler ended the \
                         transaction; check by hand whether its effect is committed";
            return Ok(Disposition::Park(Doom { reason: ParkReason::Torn, error: error.into() }));
        }
        if found.parked && self.direct {
            self.parked_copies.push(item.id);
        }
        Ok(Disposition::Duplicate)
    }

    /// Whoever waits is told of a mismatch: nothing is parked for it.
    fn refused(&self, disposition: Disposition) -> Disposition {
        match disposition {
            Disposition::Park(doom) if self.direct && doom.reason == ParkReason::Mismatch => {
                Disposition::Refuse(doom)
            }
            other => other,
        }
    }

    async fn mismatch(&mut self, found: &InboxRow) -> Result<Doom, EarlyEnd> {
        let place = DB::place_of(self.conn, found.partition_ref).await;
        let place =
            place.map_err(|error| self.statement_failed("the lookup of a partition", &error))?;
        let place = place.unwrap_or_else(|| "the partition is no longer known".into());
        let error = format!(
            "another event with this id, of different type, aggregate or payload, was accepted at \
             offset {} of {place}: the producer reuses ids",
            found.offset.0
        );
        Ok(Doom { reason: ParkReason::Mismatch, error })
    }
}

/// A second delivery of one id in a batch settles with the first, if it is the same event.
pub(super) fn copy_of(copy: &Delivered, first: &Delivered) -> Disposition {
    if copy.fingerprint == first.fingerprint || !Rule::MismatchParks.on() {
        return Disposition::Duplicate;
    }
    let error = format!(
        "the event at offset {} has the same id and different content: the producer reuses ids",
        first.offset.0
    );
    Disposition::Park(Doom { reason: ParkReason::Mismatch, error })
}
