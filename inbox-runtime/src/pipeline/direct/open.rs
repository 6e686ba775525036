//! The partition of direct events, found or made: the take-over of a partition that no process owns alone.

use std::{collections::HashMap, time::Instant};

use inbox_engine::internal::{
    LaneState, LeaderEpoch, LogPoint, LogRange, NextOffset, Offset, Ownership, Rule, Start,
    TakeOverFault, Written,
};
use inbox_store::internal::port::{
    IntakePartition, Lanes, OpenError, Owners, Scope, TakeOver, TakeOverError, Taken,
};
use uuid::Uuid;

use super::{Direct, DirectSettings};
use crate::pipeline::control::Identity;

impl<DB: Owners> Direct<DB> {
    /// Finds the partition, and makes it where it is not.
    ///
    /// # Errors
    /// When the database is away, or a person has to change something.
    pub async fn open(&self) -> Result<(), OpenError> {
        self.enter(false).await.map(drop).map_err(|fault| match fault {
            TakeOverFault::Again(error) => OpenError::Outage(error),
            TakeOverFault::Stop(reason) | TakeOverFault::Wait(reason) => {
                OpenError::Refused(reason.to_string())
            }
        })
    }

    /// The same for what releases parked events. Others move the lanes meanwhile: each transaction locks its own, and
    /// nothing is remembered of them here.
    pub(in crate::pipeline) async fn take_over(&self) -> Result<Taken, TakeOverFault> {
        let partition = self.enter(true).await?;
        let lanes = Lanes { count: partition.lane_count, ..self.settings.lanes.clone() };
        let lane = LaneState { last: Offset(-1), leader_epoch: LeaderEpoch::UNKNOWN };
        let (start, leader_epoch) = (NextOffset(0), LeaderEpoch::UNKNOWN);
        Ok(Taken {
            scope: partition.scope(),
            ownership: Ownership {
                epoch: partition.epoch,
                lanes: vec![lane; usize::from(partition.lane_count)],
                watermark: start,
                watermark_leader_epoch: leader_epoch,
                record: LogPoint { next: start, leader_epoch },
                remapped_below: start,
                remap_waits: false,
                unclean: self.unclean().is_marked(Instant::now()),
                resume: start,
                resume_leader_epoch: leader_epoch,
            },
            lanes,
            inbox_id: Uuid::nil(),
            topic_id: [0; 16],
            suspects: Vec::new(),
        })
    }

    /// Who takes over, and where what it asks is asked.
    pub(in crate::pipeline) fn identity(&self) -> (DB::Settings, Identity) {
        let DirectSettings { consumer, owner, lanes, id_scope, .. } = self.settings.clone();
        let (placements, start) = (HashMap::new(), Start::Earliest);
        let identity = Identity { consumer, owner, lanes, placements, id_scope, start };
        (self.work.sessions.settings().clone(), identity)
    }

    /// Raises the watermark up to which inbox rows may be pruned, and says that this process sees to it. Fenced, where
    /// the partition is not the one that was taken over: a person has retired it, or corrected it.
    pub(in crate::pipeline) async fn settle_lanes(&self, scope: Scope) -> Written {
        match self.enter(true).await {
            Ok(partition) if partition.scope() == scope => Written::Yes,
            Ok(_) => Written::Fenced,
            Err(TakeOverFault::Again(error)) => Written::Outage(error),
            Err(TakeOverFault::Stop(reason) | TakeOverFault::Wait(reason)) => {
                Written::Outage(reason.to_string())
            }
        }
    }

    /// Says that this process has ended well: whoever comes after it has nothing to run with care. Nobody waits for it
    /// where the database is away.
    pub async fn leave(&self) {
        let Some(partition) = self.known() else { return };
        let Ok(mut conn) = self.work.sessions.take().await else { return };
        match DB::disown(&mut conn, &[partition.scope()]).await {
            Ok(()) => self.work.sessions.give_back(conn).await,
            Err(_) => self.work.sessions.give_up(conn).await,
        }
    }

    /// The partition. `stays`: it is said that this process sees to it.
    async fn enter(&self, stays: bool) -> Result<IntakePartition, TakeOverFault> {
        let mut conn = self.work.sessions.take().await.map_err(|error| match error {
            OpenError::Outage(text) | OpenError::Refused(text) => TakeOverFault::Again(text),
        })?;
        match self.enter_on(&mut conn, stays).await {
            Ok(partition) => {
                self.work.sessions.give_back(conn).await;
                self.set(partition.clone());
                Ok(partition)
            }
            Err(fault) => {
                conn.close_hard().await;
                Err(fault)
            }
        }
    }

    async fn enter_on(
        &self,
        conn: &mut DB::Connection,
        stays: bool,
    ) -> Result<IntakePartition, TakeOverFault> {
        let partition = self.find_or_make(conn).await?;
        let (at, own) = (partition.partition_ref, &self.settings.owner);
        let unknown = self.unclean().is_unknown();
        if unknown {
            let another = partition.incarnation.is_some_and(|other| other != own.incarnation);
            let mut left = None;
            if another && Rule::UncleanEndIsMarked.on() {
                let found = DB::unfinished(conn, at, own.incarnation).await;
                left = Some(found.map_err(|error| self.fault(error.into()))?);
            }
            self.unclean().found(left, Instant::now());
        }
        if stays {
            let settled = DB::settle_lanes(conn, at, own).await;
            settled.map_err(|error| self.fault(error.into()))?;
            if self.unclean().is_over(Instant::now()) {
                let forgotten = DB::forget_unfinished(conn, at).await;
                forgotten.map_err(|error| self.fault(error.into()))?;
            }
        }
        Ok(partition)
    }

    async fn find_or_make(
        &self,
        conn: &mut DB::Connection,
    ) -> Result<IntakePartition, TakeOverFault> {
        if let Some(partition) = self.find(conn).await? {
            return Ok(partition);
        }
        // Another process may do the same: then the epoch is raised once more, and what is under way is fenced and looks
        // anew.
        DB::take_over(conn, &self.request()).await.map_err(|error| self.fault(error))?;
        let made = self.find(conn).await?;
        made.ok_or_else(|| {
            TakeOverFault::Again("its partition was retired while it was created".into())
        })
    }

    async fn find(
        &self,
        conn: &mut DB::Connection,
    ) -> Result<Option<IntakePartition>, TakeOverFault> {
        let found = DB::intake_partition(conn, &self.request()).await;
        found.map_err(|error| self.fault(error))
    }

    fn fault(&self, error: TakeOverError) -> TakeOverFault {
        match error {
            TakeOverError::Standstill(reason) => TakeOverFault::Wait(reason),
            TakeOverError::Database(error) => {
                let error = self.work.sessions.explain(&error);
                TakeOverFault::Again(format!(
                    "the lookup of the intake's partition failed: {error}"
                ))
            }
        }
    }

    fn request(&self) -> TakeOver {
        let DirectSettings { consumer, owner, place, lanes, id_scope, .. } = self.settings.clone();
        TakeOver {
            consumer,
            partition: place,
            topic_id: [0; 16],
            partitions: None,
            owner,
            lanes,
            id_scope,
            committed: None,
            mark: None,
            // There is no log that could end below what is settled, not even where the partition was retired.
            log: LogRange { start: NextOffset(0), end: NextOffset(i64::MAX) },
            start: Start::Earliest,
            held: None,
        }
    }
}
