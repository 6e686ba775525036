//! librdkafka's mock cluster, for [`crate::testing`].

use std::{ptr::NonNull, time::Duration};

use rdkafka::{
    ClientConfig,
    error::KafkaError,
    mocking::{MockCluster, MockCoordinator},
    producer::{DefaultProducerContext, Producer as _, ThreadedProducer},
    types::{RDKafkaApiKey, RDKafkaRespErr},
};

use super::ffi;
use crate::pipeline::port::BrokerError;

/// A client that owns a mock cluster.
pub(crate) struct Mock {
    owner: ThreadedProducer<DefaultProducerContext>,
}

/// A request that can be made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Request {
    /// Records are asked for.
    Fetch,
    /// A member of a classic group says that it lives.
    Heartbeat,
    /// A member joins a classic group.
    JoinGroup,
    /// Where the log begins and ends.
    ListOffsets,
    /// Offsets are committed.
    OffsetCommit,
    /// Committed offsets are asked for.
    OffsetFetch,
    /// Records are written.
    Produce,
}

/// How a request fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The coordinator is loading the group.
    CoordinatorLoading,
    /// Another process has this instance id; the client is dead.
    FencedInstance,
    /// The member is of an older generation.
    IllegalGeneration,
    /// The coordinator has moved.
    NotCoordinator,
    /// The partition is led by another broker.
    NotLeader,
    /// The group is rebalancing.
    RebalanceInProgress,
    /// The user may not write to the topic.
    TopicForbidden,
    /// The connection breaks.
    Transport,
    /// The group does not know the member.
    UnknownMember,
}

impl Mock {
    pub(crate) fn start(brokers: u16, session: Duration) -> Result<Self, BrokerError> {
        let owner: ThreadedProducer<_> = ClientConfig::new()
            .set("test.mock.num.brokers", brokers.to_string())
            .set("bootstrap.servers", "mock")
            .create()
            .map_err(|error| failed(&error))?;
        let native = NonNull::new(owner.client().native_ptr());
        if let Some(native) = native {
            ffi::quicken_mock(native, session);
        }
        Ok(Self { owner })
    }

    fn cluster(&self) -> Result<MockCluster<'_, DefaultProducerContext>, BrokerError> {
        let cluster = self.owner.client().mock_cluster();
        cluster.ok_or_else(|| BrokerError("the client has no mock cluster".into()))
    }

    pub(crate) fn bootstrap(&self) -> Result<String, BrokerError> {
        Ok(self.cluster()?.bootstrap_servers())
    }

    pub(crate) fn create_topic(&self, topic: &str, partitions: u16) -> Result<(), BrokerError> {
        self.cluster()?
            .create_topic(topic, i32::from(partitions), 1)
            .map_err(|error| failed(&error))
    }

    pub(crate) fn fail_next(
        &self,
        request: Request,
        failures: &[Failure],
    ) -> Result<(), BrokerError> {
        let codes: Vec<RDKafkaRespErr> = failures.iter().map(|failure| code(*failure)).collect();
        self.cluster()?.request_errors(key(request), &codes);
        Ok(())
    }

    pub(crate) fn down(&self, broker: u16) -> Result<(), BrokerError> {
        self.cluster()?.broker_down(i32::from(broker)).map_err(|error| failed(&error))
    }

    pub(crate) fn up(&self, broker: u16) -> Result<(), BrokerError> {
        self.cluster()?.broker_up(i32::from(broker)).map_err(|error| failed(&error))
    }

    pub(crate) fn round_trip(&self, broker: u16, time: Duration) -> Result<(), BrokerError> {
        let cluster = self.cluster()?;
        cluster.broker_round_trip_time(i32::from(broker), time).map_err(|error| failed(&error))
    }

    pub(crate) fn coordinate(&self, group: &str, broker: u16) -> Result<(), BrokerError> {
        let group = MockCoordinator::Group(group.to_owned());
        self.cluster()?.coordinator(group, i32::from(broker)).map_err(|error| failed(&error))
    }

    pub(crate) fn lead(
        &self,
        topic: &str,
        partition: u16,
        broker: Option<u16>,
    ) -> Result<(), BrokerError> {
        self.cluster()?
            .partition_leader(topic, i32::from(partition), broker.map(i32::from))
            .map_err(|error| failed(&error))
    }
}

fn failed(error: &KafkaError) -> BrokerError {
    BrokerError(format!("the mock cluster refused: {error}"))
}

fn key(request: Request) -> RDKafkaApiKey {
    match request {
        Request::Fetch => RDKafkaApiKey::Fetch,
        Request::Heartbeat => RDKafkaApiKey::Heartbeat,
        Request::JoinGroup => RDKafkaApiKey::JoinGroup,
        Request::ListOffsets => RDKafkaApiKey::ListOffsets,
        Request::OffsetCommit => RDKafkaApiKey::OffsetCommit,
        Request::OffsetFetch => RDKafkaApiKey::OffsetFetch,
        Request::Produce => RDKafkaApiKey::Produce,
    }
}

fn code(failure: Failure) -> RDKafkaRespErr {
    match failure {
        Failure::CoordinatorLoading => {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS
        }
        Failure::FencedInstance => RDKafkaRespErr::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID,
        Failure::IllegalGeneration => RDKafkaRespErr::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
        Failure::NotCoordinator => RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
        Failure::NotLeader => RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        Failure::TopicForbidden => RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
        Failure::RebalanceInProgress => RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
        Failure::Transport => RDKafkaRespErr::RD_KAFKA_RESP_ERR__TRANSPORT,
        Failure::UnknownMember => RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
    }
}
