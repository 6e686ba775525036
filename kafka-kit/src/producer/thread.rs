//! The thread of a producer: it makes it ready, sends one batch at a time, and gives it up after any that
//! did not go through.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use rdkafka::producer::Producer as _;
use tokio::sync::oneshot;

use super::{
    ConnectError, Observer, ProducerSettings, SendBatch, Shipment, SinkCommand,
    batch::BatchProducer,
    context::Context,
    fault::{self, SendFault},
};
use crate::properties::refusal;

/// How often the client is served while there is nothing to send.
const IDLE: Duration = Duration::from_millis(200);
/// How long a producer may take to become ready.
const READY_MAX: Duration = Duration::from_secs(20);
/// How long queued errors of a client are read once a broker has answered.
const STALE: Duration = Duration::from_millis(100);
/// How long one call may.
const CALL_MAX: Duration = Duration::from_secs(5);

/// The thread, from the beginning to the end.
pub(super) fn run<O: Observer>(
    settings: &ProducerSettings<O>,
    ready: oneshot::Sender<Result<(), ConnectError>>,
    commands: &Receiver<SinkCommand>,
) {
    let mut producer = match open(settings) {
        Ok(producer) => producer,
        Err(error) => return drop(ready.send(Err(error))),
    };
    if ready.send(Ok(())).is_err() {
        return;
    }
    loop {
        match commands.recv_timeout(IDLE) {
            Ok(SinkCommand::Look(topics, answer)) => drop(answer.send(producer.ask_topics(topics))),
            Ok(SinkCommand::Ship(SendBatch { records, until, answer })) => {
                let shipment = producer.ship(&records, &*until);
                let over = !matches!(shipment, Shipment::Done { .. });
                let _ = answer.send(shipment);
                if over {
                    return producer.abandon();
                }
            }
            Err(RecvTimeoutError::Timeout) => producer.producer.poll(Duration::ZERO),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn open<O: Observer>(settings: &ProducerSettings<O>) -> Result<BatchProducer, ConnectError> {
    let context = Context::new(&settings.bootstrap, Arc::<O>::clone(&settings.troubles));
    let created = settings.client_config().create_with_context(context);
    let producer = BatchProducer::new(
        created.map_err(|error| ConnectError::Fatal(refusal(&error).0))?,
        settings,
    );
    if producer.transactional() {
        fence(&producer, settings)?;
        if settings.troubles.is_doubtful() {
            // Errors that are queued are older than the answer.
            producer.producer.poll(STALE);
        }
        settings.troubles.works();
    }
    Ok(producer)
}

/// Takes the transactional id over: earlier producers are fenced, and what they left open is ended.
fn fence<O>(producer: &BatchProducer, settings: &ProducerSettings<O>) -> Result<(), ConnectError> {
    let began = Instant::now();
    loop {
        let Err(error) = producer.producer.init_transactions(CALL_MAX) else { return Ok(()) };
        producer.producer.poll(Duration::ZERO);
        let code = fault::code(&error);
        if fault::classify(code) == SendFault::Forbidden {
            let id = settings.transactional_id.as_deref();
            return Err(ConnectError::Forbidden(fault::forbidden(code, id)));
        }
        let again =
            matches!(&error, rdkafka::error::KafkaError::Transaction(said) if said.is_retriable());
        if !again || began.elapsed() > READY_MAX {
            let why = producer.producer.context().trouble().unwrap_or_else(|| {
                format!("Kafka at {} grants no producer: {error}", settings.bootstrap)
            });
            return Err(ConnectError::Outage(why));
        }
    }
}
