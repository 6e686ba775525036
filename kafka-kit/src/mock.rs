//! librdkafka's mock cluster, for [`crate::testing`].

use std::{fmt, ptr::NonNull, time::Duration};

use rdkafka::{
    ClientConfig,
    error::KafkaError,
    mocking::{MockCluster, MockCoordinator},
    producer::{DefaultProducerContext, Producer as _, ThreadedProducer},
    types::{RDKafkaApiKey, RDKafkaRespErr},
};

use crate::{broker::BrokerError, ffi};

/// After this long without a heartbeat the mock takes a member of the protocol `consumer` for dead.
const SESSION: Duration = Duration::from_secs(10);

/// A Kafka cluster inside the process; gone when dropped.
pub struct MockBroker {
    /// A client that owns the cluster.
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
    /// The user may not use the group.
    GroupForbidden,
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

impl fmt::Debug for MockBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockBroker").field("bootstrap", &self.bootstrap()).finish()
    }
}

impl MockBroker {
    /// One broker with these topics: name and number of partitions. Its classic groups wait for a
    /// session timeout less one second at each rebalance, and a client may be a second late with its
    /// heartbeat: 2.5 s serve well. With the protocol `consumer` a rebalance takes a quarter of a second.
    pub fn start(topics: &[(&str, u16)]) -> Result<Self, BrokerError> {
        Self::start_with(1, topics)
    }

    /// As [`MockBroker::start`], with several brokers, numbered from 1.
    pub fn start_with(brokers: u16, topics: &[(&str, u16)]) -> Result<Self, BrokerError> {
        let owner: ThreadedProducer<_> = ClientConfig::new()
            .set("test.mock.num.brokers", brokers.to_string())
            .set("bootstrap.servers", "mock")
            .create()
            .map_err(|error| failed(&error))?;
        if let Some(native) = NonNull::new(owner.client().native_ptr()) {
            ffi::quicken_mock(native, SESSION);
        }
        let broker = Self { owner };
        for (topic, partitions) in topics {
            broker.create_topic(topic, *partitions)?;
        }
        Ok(broker)
    }

    fn cluster(&self) -> Result<MockCluster<'_, DefaultProducerContext>, BrokerError> {
        let cluster = self.owner.client().mock_cluster();
        cluster.ok_or_else(|| BrokerError("the client has no mock cluster".into()))
    }

    /// Where clients connect to.
    pub fn bootstrap(&self) -> String {
        self.cluster().map(|cluster| cluster.bootstrap_servers()).unwrap_or_default()
    }

    /// Creates a topic.
    pub fn create_topic(&self, topic: &str, partitions: u16) -> Result<(), BrokerError> {
        self.cluster()?
            .create_topic(topic, i32::from(partitions), 1)
            .map_err(|error| failed(&error))
    }

    /// Makes the next requests of a kind fail, one after the other.
    pub fn fail_next(&self, request: Request, failures: &[Failure]) -> Result<(), BrokerError> {
        let codes: Vec<RDKafkaRespErr> = failures.iter().map(|failure| code(*failure)).collect();
        self.cluster()?.request_errors(key(request), &codes);
        Ok(())
    }

    /// Breaks all connections of a broker and refuses new ones. Not for a test whose process starts others
    /// meanwhile: a child holds the broker's port until it is executed, and librdkafka's mock (2.12) ends
    /// the process when it cannot take that port again. [`MockBroker::round_trip`] has no such bound.
    pub fn down(&self, broker: u16) -> Result<(), BrokerError> {
        self.cluster()?.broker_down(i32::from(broker)).map_err(|error| failed(&error))
    }

    /// Ends [`MockBroker::down`].
    pub fn up(&self, broker: u16) -> Result<(), BrokerError> {
        self.cluster()?.broker_up(i32::from(broker)).map_err(|error| failed(&error))
    }

    /// Answers of a broker take this long from now on.
    pub fn round_trip(&self, broker: u16, time: Duration) -> Result<(), BrokerError> {
        let cluster = self.cluster()?;
        cluster.broker_round_trip_time(i32::from(broker), time).map_err(|error| failed(&error))
    }

    /// Makes a broker the coordinator of a group.
    pub fn coordinate(&self, group: &str, broker: u16) -> Result<(), BrokerError> {
        let group = MockCoordinator::Group(group.to_owned());
        self.cluster()?.coordinator(group, i32::from(broker)).map_err(|error| failed(&error))
    }

    /// Makes another broker the leader of a partition, or none. While there is none nobody may produce
    /// to it: librdkafka's mock (2.12) would end the process.
    pub fn lead(
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
        Failure::GroupForbidden => RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
        Failure::IllegalGeneration => RDKafkaRespErr::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
        Failure::NotCoordinator => RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
        Failure::NotLeader => RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        Failure::TopicForbidden => RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
        Failure::RebalanceInProgress => RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
        Failure::Transport => RDKafkaRespErr::RD_KAFKA_RESP_ERR__TRANSPORT,
        Failure::UnknownMember => RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
    }
}
