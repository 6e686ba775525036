//! Events that were parked unreadable, and have an id by today's rules.

use std::collections::HashMap;

use inbox_engine::internal::{ParkReason, Rule, distinct};
use inbox_store::internal::port::{ClaimRequest, Transactions};

use super::plan::ReleasePlan;
use crate::pipeline::{
    claim::copy_of,
    disposition::Disposition,
    intake::IGNORED,
    transaction::{EarlyEnd, Transaction},
};

impl<DB: Transactions> Transaction<'_, DB> {
    /// An event that was parked unreadable has an id of its own now; a copy of it may have been handled since.
    pub(super) async fn claim_new_ids(
        &mut self,
        plan: &ReleasePlan,
    ) -> Result<HashMap<usize, Disposition>, EarlyEnd> {
        let batch = self.batch;
        let (items, old) = (&batch.items, |at: usize| plan.run[at].id);
        let mut dispositions = HashMap::new();
        // A person who releases it although its id is another event's wants it run.
        let decided = |at: usize| plan.run[at].reason == ParkReason::Mismatch.as_str();
        let fresh = items.iter().enumerate().filter(|(at, item)| {
            item.id != old(*at)
                && !decided(*at)
                && item.doomed.is_none()
                && item.kind.route != IGNORED.route
        });
        let places: Vec<usize> = fresh.map(|(at, _)| at).collect();
        if places.is_empty() || !Rule::ReleaseClaimsNewIds.on() {
            return Ok(dispositions);
        }
        let ours = |offset| places.iter().any(|&at| items[at].offset == offset);
        let distinct = distinct(items, |item| ours(item.offset));
        let request = self.request(&distinct.claimed);
        let request = ClaimRequest { aggregates: Vec::new(), expects_new: false, ..request };
        let claimed = DB::claim(self.conn, &self.scope, &request).await;
        let mut claimed = claimed.map_err(|error| self.statement_failed("the claim", &error))?;
        self.check_lanes(claimed.lanes_mine)?;
        claimed.fresh.sort_unstable();
        let known = self.recheck(&request, &mut claimed).await?;
        for at in distinct.claimed {
            let item = &items[at];
            let own = known.iter().any(|known| {
                known.id == item.id
                    && known.partition_ref == self.scope.partition_ref
                    && known.offset == item.offset
            });
            // Its own row is there when an earlier release of it was torn: a person has looked at it.
            let runs = own || claimed.fresh.binary_search(&item.id).is_ok();
            dispositions.insert(
                at,
                if runs { Disposition::Run } else { self.judge_known(item, &known).await? },
            );
        }
        let copies = distinct.copies.into_iter();
        dispositions
            .extend(copies.map(|(copy, first)| (copy, copy_of(&items[copy], &items[first]))));
        Ok(dispositions)
    }
}
