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
    Batch, ConnectError, Order, Shipment, SinkSettings,
    batch::Line,
    context::Context,
    fault::{self, Fault},
    settings::refusal,
};

/// How often the client is served while there is nothing to send.
const IDLE: Duration = Duration::from_millis(200);
/// How long a producer may take to become ready.
const READY_MAX: Duration = Duration::from_secs(20);
/// How long one call may.
const CALL_MAX: Duration = Duration::from_secs(5);

/// The thread, from the beginning to the end.
pub(super) fn run(
    settings: &SinkSettings,
    ready: oneshot::Sender<Result<(), ConnectError>>,
    orders: &Receiver<Order>,
) {
    let mut line = match open(settings) {
        Ok(line) => line,
        Err(error) => return drop(ready.send(Err(error))),
    };
    if ready.send(Ok(())).is_err() {
        return;
    }
    loop {
        match orders.recv_timeout(IDLE) {
            Ok(Order::Look(topics, answer)) => drop(answer.send(line.look(topics))),
            Ok(Order::Ship(Batch { parcels, until, answer })) => {
                let shipment = line.ship(&parcels, &until);
                let over = !matches!(shipment, Shipment::Done { .. });
                let _ = answer.send(shipment);
                if over {
                    return line.abandon();
                }
            }
            Err(RecvTimeoutError::Timeout) => line.producer.poll(Duration::ZERO),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn open(settings: &SinkSettings) -> Result<Line, ConnectError> {
    let context = Context::new(&settings.bootstrap, Arc::clone(&settings.troubles));
    let created = settings.client_config().create_with_context(context);
    let line = Line::new(created.map_err(|error| ConnectError::Fatal(refusal(&error)))?, settings);
    if line.transactional() {
        fence(&line, settings)?;
        settings.troubles.kafka_works();
    }
    Ok(line)
}

/// Takes the transactional id over: earlier producers are fenced, and what they left open is ended.
fn fence(line: &Line, settings: &SinkSettings) -> Result<(), ConnectError> {
    let began = Instant::now();
    loop {
        let Err(error) = line.producer.init_transactions(CALL_MAX) else { return Ok(()) };
        line.producer.poll(Duration::ZERO);
        let code = fault::code(&error);
        if fault::classify(code) == Fault::Fatal {
            let id = settings.transactional_id.as_deref();
            let text = fault::of_fatal(code, id, &error.to_string());
            return Err(ConnectError::Fatal(text));
        }
        let again =
            matches!(&error, rdkafka::error::KafkaError::Transaction(said) if said.is_retriable());
        if !again || began.elapsed() > READY_MAX {
            let why = line.producer.context().trouble().unwrap_or_else(|| {
                format!("Kafka at {} gives no producer a turn: {error}", settings.bootstrap)
            });
            return Err(ConnectError::Outage(why));
        }
    }
}
