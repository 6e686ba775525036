//! The HTTP intake of a consumer, with Kafka beside it or without.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures::FutureExt as _;
use inbox_engine::internal::Limits;
use inbox_intake::{
    Intake,
    internal::{FieldMap, IntakeSettings, QueueLimits, Secrets, WebhookRules, reader},
};
use inbox_runtime::internal::{Direct, DirectSettings, Work, watch};
use inbox_store::internal::port::{Lanes, Placement, Store};
use kafka_kit::internal::Excerpts;
use outbox_core::{
    TopicPartition,
    internal::{RequestPlace, request_pointer},
};
use tokio::{net::TcpListener, sync::Notify, task::JoinSet};

use super::{
    BuildError, Consumer, Ended,
    identity::{INTAKE_TOPIC, owner},
    limits::limits,
    unreadable,
};
use crate::{config::Problem, telemetry::Signal};

/// Releases of parked events at once, each on a connection: of so many lanes at most, and one after the other in each.
const RELEASES_MAX: usize = 8;
/// Parked queues of one look: as many as there may be lanes.
const DUE_MAX: usize = 256;
/// What it may take to end, beside what runs.
const END_MAX: Duration = Duration::from_secs(2);

impl<DB: Store> Consumer<DB> {
    /// What takes this consumer's events by HTTP, for a service that mounts [`Intake::router`] itself and runs
    /// [`Intake::run`] beside it. Where `intake.listen` is an address [`Consumer::run`] does all of that. Retention runs in
    /// [`Consumer::run`], with Kafka or without.
    ///
    /// # Errors
    /// When its place in the database cannot be had, or its secrets cannot be read.
    pub async fn intake(&self) -> Result<Intake<DB>, BuildError> {
        let opened = Intake::open(self.direct()?, self.intake_settings()?).await;
        opened.map_err(BuildError::Database)
    }

    /// What settles its events, of which nothing is asked yet.
    pub(super) fn direct(&self) -> Result<Direct<DB>, BuildError> {
        let config = &self.config;
        let bytes_max = config.events.event_bytes_max;
        let reader = reader(config.events.id_scope, bytes_max).map_err(|e| unreadable(&e))?;
        let reader = reader.with_topics([INTAKE_TOPIC]);
        let lanes = Lanes {
            count: config.intake.lanes,
            placement: Arc::new(Placement::of(reader.rules())),
        };
        let owner = owner(config);
        let excerpts = Excerpts::of([reader.rules()], bytes_max);
        let work = self.work_of((reader, excerpts), owner.incarnation);
        let releases_max = RELEASES_MAX.min(DB::WRITERS_MAX);
        Ok(Direct::new(
            Arc::new(Work { shared: true, ..work }),
            DirectSettings {
                consumer: config.consumer.name.clone(),
                // Any process may take its place.
                owner: inbox_store::internal::port::Owner { instance_id: None, ..owner },
                place: TopicPartition { topic: INTAKE_TOPIC.into(), partition: 0 },
                lanes,
                id_scope: config.events.id_scope,
                limits: Limits {
                    transactions_max: releases_max,
                    due_max: DUE_MAX,
                    ..limits::<DB>(config)
                },
                publishes: !config.reads_kafka(),
            },
        ))
    }

    fn intake_settings(&self) -> Result<IntakeSettings, BuildError> {
        let intake = &self.config.intake;
        let files: Vec<PathBuf> = intake.secret_files.iter().map(PathBuf::from).collect();
        let secrets = if files.is_empty() { None } else { Some(Secrets::open(files)) };
        let secrets = secrets.transpose().map_err(|text| {
            let keys = vec!["intake.secret_files"];
            let text = format!("`intake.secret_files`: {text}");
            BuildError::Config(vec![Problem { fatal: true, keys, text }])
        })?;
        Ok(IntakeSettings {
            body_bytes_max: intake.body_bytes_max,
            arriving_bytes_max: intake.arriving_bytes_max,
            events_max: intake.events_max,
            connections_max: intake.connections_max.into(),
            request_timeout: intake.request_timeout,
            queue: QueueLimits {
                transactions_max: usize::from(intake.transactions_max).min(DB::WRITERS_MAX),
                batch_events_max: self.config.batch.events_max,
                batch_bytes_max: self.config.batch.bytes_max,
                bytes_max: intake.queue_bytes_max,
            },
            secrets,
            signature_tolerance: intake.signature_tolerance,
            webhook: WebhookRules {
                aggregate_id: intake.webhook_aggregate_id.as_deref().and_then(request_pointer),
                map: field_map(intake),
            },
        })
    }

    /// Runs with an intake, or without Kafka.
    pub(super) async fn run_with_intake(
        self,
        shutdown: impl Future<Output = ()> + Send,
        mut aside: JoinSet<()>,
    ) -> Ended {
        let begun = match self.intake().await {
            Ok(intake) => self.listen().await.map(|listener| (intake, listener)),
            Err(error) => Err(error.to_string()),
        };
        let (intake, listener) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                self.meters.end();
                return Ended::IntakeFailed(error);
            }
        };
        let mut upkeep = JoinSet::new();
        if listener.is_some() {
            let intake = intake.clone();
            upkeep.spawn(async move { intake.run().await });
        }
        let (meters, drain_deadline) =
            (Arc::clone(&self.meters), self.config.limits.drain_deadline);
        let shutdown = shutdown.shared();
        let kafka_ended = Notify::new();
        let ends = async {
            tokio::select! {
                () = shutdown.clone() => {}
                () = kafka_ended.notified() => {}
            }
        };
        let serve = async {
            match listener {
                Some(listener) => intake.serve(listener, ends).await,
                None => ends.await,
            }
        };
        let ended = if self.config.reads_kafka() {
            let kafka = async {
                let ended = self.run_kafka(shutdown.clone(), aside).await;
                kafka_ended.notify_one();
                ended
            };
            tokio::join!(serve, kafka).1
        } else {
            self.keep_house(&mut aside);
            let _watchdog = watch(Arc::clone(&self.meters));
            serve.await;
            Ended::Shutdown
        };
        let _ = tokio::time::timeout(drain_deadline + END_MAX, upkeep.join_next()).await;
        meters.end();
        intake.close().await;
        ended
    }

    /// The address of the configuration, if there is one.
    async fn listen(&self) -> Result<Option<TcpListener>, String> {
        let Some(address) = self.config.intake.address() else { return Ok(None) };
        let bound = TcpListener::bind(address).await.and_then(|listener| {
            let address = listener.local_addr()?.to_string();
            Ok((listener, address))
        });
        match bound {
            Ok((listener, address)) => {
                Signal::IntakeListening { address }.emit();
                Ok(Some(listener))
            }
            Err(error) => Err(format!("cannot bind `intake.listen` {address}: {error}")),
        }
    }
}

/// Where requests of a form of their senders' own have which part; the configuration was checked.
fn field_map(intake: &crate::config::Intake) -> Option<FieldMap> {
    Some(FieldMap {
        id: RequestPlace::read(intake.map_id.as_deref()?)?,
        event_type: RequestPlace::read(intake.map_type.as_deref()?)?,
        payload: intake.map_payload.as_deref().and_then(request_pointer),
    })
}
