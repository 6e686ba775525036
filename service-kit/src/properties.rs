//! The settings of librdkafka, each by its name: which may be set in `[kafka.raw]`, and why the others may not.
//!
//! What the library adds one day may not be set until it is written down here.

/// Whose client it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// It reads.
    Consumer,
    /// It writes.
    Relay,
}

/// What is said of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It may be set.
    Free,
    /// It may not: why, and what to do instead.
    Refused(&'static str),
}

use Standing::{Free, Refused};

/// Settings of which the same is said.
#[derive(Debug)]
pub struct Group {
    names: &'static str,
    consumer: Standing,
    relay: Standing,
}

impl Group {
    const fn both(standing: Standing, names: &'static str) -> Self {
        Self { names, consumer: standing, relay: standing }
    }

    const fn consumers(standing: Standing, names: &'static str) -> Self {
        Self {
            names,
            consumer: standing,
            relay: Refused(
                "only consumers have this setting; \
                                                          remove it",
            ),
        }
    }

    const fn producers(standing: Standing, names: &'static str) -> Self {
        Self {
            names,
            consumer: Refused("only producers have this setting; remove it"),
            relay: standing,
        }
    }

    /// What is said to this program.
    pub fn standing(&self, program: Program) -> Standing {
        match program {
            Program::Consumer => self.consumer,
            Program::Relay => self.relay,
        }
    }

    /// The settings.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split_whitespace()
    }
}

const KEYED: Standing =
    Refused("set it in [kafka] under the same name, dots written as underscores");
const SECRET: Standing = Refused(
    "it would be stored with the plain settings; set it in [kafka] under the same name, dots \
     written as underscores",
);
const OFFSETS: Standing = Refused(
    "the runtime commits the watermark that the database holds, and nothing else may commit or \
     store offsets; remove it",
);
const ORDER: Standing =
    Refused("order per aggregate and the promise that nothing is lost depend on it; remove it");
const DELIVERY: Standing = Refused("set `kafka.delivery_timeout` instead");
const CODE: Standing = Refused(
    "it loads code into the process, which has the credentials of database and brokers; remove it",
);
const SHELL: Standing =
    Refused("it becomes part of a shell command, and no build includes GSSAPI; remove it");
const TOKENS: Standing = Refused(
    "no build includes a source of bearer tokens; remove it, and use SCRAM-SHA-512 or a client \
     certificate",
);
const PROGRAMS: Standing = Refused("it is for programs and has no text value; remove it");
const INSIDE: Standing = Refused("the runtime depends on its value; remove it");
const NOTHING: Standing = Refused("it has no effect here; remove it");

/// Every setting that librdkafka documents, once.
pub const GROUPS: &[Group] = &[
    Group::both(
        Free,
        "api.version.request.timeout.ms broker.address.family broker.address.ttl \
         client.dns.lookup client.rack connections.max.idle.ms debug \
         enable.metrics.push https.ca.location https.ca.pem log.connection.close \
         log.thread.name metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms \
         metadata.recovery.strategy receive.message.max.bytes reconnect.backoff.max.ms \
         reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms \
         socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails \
         socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes \
         socket.timeout.ms ssl.ca.certificate.stores ssl.cipher.suites ssl.crl.location \
         ssl.curves.list ssl.sigalgs.list topic.metadata.propagation.max.ms \
         topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms \
         topic.metadata.refresh.sparse",
    ),
    Group::consumers(
        Free,
        "coordinator.query.interval.ms fetch.error.backoff.ms fetch.max.bytes \
         fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms \
         fetch.wait.max.ms group.remote.assignor max.partition.fetch.bytes \
         queued.max.messages.kbytes queued.min.messages",
    ),
    Group::producers(
        Free,
        "batch.num.messages batch.size compression.codec compression.level \
         compression.type linger.ms message.copy.max.bytes \
         queue.buffering.backpressure.threshold queue.buffering.max.kbytes \
         queue.buffering.max.messages queue.buffering.max.ms request.timeout.ms \
         sticky.partitioning.linger.ms",
    ),
    Group::both(Refused("set `kafka.bootstrap` instead"), "bootstrap.servers metadata.broker.list"),
    Group::both(Refused("set `kafka.security_protocol` instead"), "security.protocol"),
    Group::both(
        KEYED,
        "sasl.mechanism sasl.username \
         ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem \
         ssl.endpoint.identification.algorithm ssl.key.location ssl.keystore.location",
    ),
    Group::both(SECRET, "sasl.password ssl.key.password ssl.key.pem ssl.keystore.password"),
    Group::both(Refused("set `kafka.sasl_mechanism` instead"), "sasl.mechanisms"),
    Group::both(
        TOKENS,
        "enable.sasl.oauthbearer.unsecure.jwt \
         sasl.oauthbearer.assertion.algorithm \
         sasl.oauthbearer.assertion.claim.aud \
         sasl.oauthbearer.assertion.claim.exp.seconds \
         sasl.oauthbearer.assertion.claim.iss \
         sasl.oauthbearer.assertion.claim.jti.include \
         sasl.oauthbearer.assertion.claim.nbf.seconds \
         sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file \
         sasl.oauthbearer.assertion.jwt.template.file \
         sasl.oauthbearer.assertion.private.key.file \
         sasl.oauthbearer.assertion.private.key.passphrase \
         sasl.oauthbearer.assertion.private.key.pem \
         sasl.oauthbearer.client.credentials.client.id \
         sasl.oauthbearer.client.credentials.client.secret \
         sasl.oauthbearer.client.id sasl.oauthbearer.client.secret \
         sasl.oauthbearer.config sasl.oauthbearer.extensions \
         sasl.oauthbearer.grant.type \
         sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method \
         sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url",
    ),
    Group::both(
        Refused(
            "anybody on the network could impersonate the broker; if you want that, set \
             `kafka.ssl_insecure_any_certificate` to true",
        ),
        "enable.ssl.certificate.verification",
    ),
    Group::both(CODE, "plugin.library.paths ssl.engine.id ssl.engine.location ssl.providers"),
    Group::both(
        SHELL,
        "sasl.kerberos.keytab sasl.kerberos.kinit.cmd \
         sasl.kerberos.min.time.before.relogin sasl.kerberos.principal \
         sasl.kerberos.service.name",
    ),
    Group::both(
        PROGRAMS,
        "background_event_cb closesocket_cb connect_cb consume_cb default_topic_conf \
         dr_cb dr_msg_cb enabled_events error_cb interceptors log_cb msg_order_cmp \
         oauthbearer_token_refresh_cb offset_commit_cb opaque open_cb partitioner_cb \
         rebalance_cb resolve_cb socket_cb ssl.certificate.verify_cb ssl_ca \
         ssl_certificate ssl_engine_callback_data ssl_key stats_cb throttle_cb",
    ),
    Group::both(
        INSIDE,
        "builtin.features enable.random.seed internal.termination.signal log.queue \
         log_level",
    ),
    Group::both(
        Refused("the client asks the broker for its features; remove it"),
        "api.version.fallback.ms api.version.request broker.version.fallback",
    ),
    Group::both(
        Refused("a hidden topic would look like a missing one; remove it"),
        "topic.blacklist",
    ),
    Group::both(
        NOTHING,
        "consume.callback.max.messages produce.offset.report \
         reconnect.backoff.jitter.ms socket.blocking.max.ms statistics.interval.ms \
         topic.metadata.refresh.fast.cnt",
    ),
    Group {
        names: "client.id",
        consumer: Refused(
            "the runtime makes it unique per process, which the assignors rely on; remove it",
        ),
        relay: Refused(
            "the relay makes it unique per process, which tells relays apart in broker logs; \
             remove it",
        ),
    },
    Group {
        names: "allow.auto.create.topics",
        consumer: Refused("a typo in `kafka.topics` must not create a topic; remove it"),
        relay: Free,
    },
    Group {
        names: "max.in.flight max.in.flight.requests.per.connection",
        consumer: Refused(
            "a fetch that waits for records would delay all other requests; remove it",
        ),
        relay: ORDER,
    },
    Group {
        names: "partitioner",
        consumer: Refused(
            "a consumer does not choose partitions; set it in the producer (murmur2_random is the \
             default of Java clients)",
        ),
        relay: Refused(
            "keys must map to the same partitions as with Java clients, so it is murmur2_random; \
             remove it",
        ),
    },
    Group::producers(
        ORDER,
        "acks enable.gapless.guarantee enable.idempotence message.send.max.retries \
         queuing.strategy request.required.acks retries",
    ),
    Group::producers(DELIVERY, "delivery.timeout.ms message.timeout.ms"),
    Group::producers(
        Refused("it follows from `kafka.delivery_timeout`; set that instead"),
        "transaction.timeout.ms",
    ),
    Group::producers(Refused("set `kafka.message_bytes_max` instead"), "message.max.bytes"),
    Group::producers(
        Refused(
            "it is derived from the outbox's id, so that two outboxes cannot share one; set \
             `kafka.transactional_id_prefix`, or `kafka.fencing` to false",
        ),
        "transactional.id",
    ),
    Group::producers(
        Refused("the relay marks a row when its acknowledgement is reported; remove it"),
        "delivery.report.only.error",
    ),
    Group::consumers(
        OFFSETS,
        "auto.commit.enable auto.commit.interval.ms enable.auto.commit \
         enable.auto.offset.store offset.store.method offset.store.path \
         offset.store.sync.interval.ms",
    ),
    Group::consumers(
        Refused(
            "`kafka.start` sets where a consumer without history starts, and a lost offset stalls \
             the partition instead of skipping records; set `kafka.start`",
        ),
        "auto.offset.reset",
    ),
    Group::consumers(
        Refused("a damaged record must not reach a handler, so it is on; remove it"),
        "check.crcs",
    ),
    Group::consumers(
        Refused("the runtime needs it to pass over missing offsets; remove it"),
        "enable.partition.eof",
    ),
    Group::consumers(
        Refused("set `kafka.group` instead, which defaults to `consumer.name`"),
        "group.id",
    ),
    Group::consumers(
        Refused("set `consumer.instance_id` instead (static membership)"),
        "group.instance.id",
    ),
    Group::consumers(Refused("set `kafka.protocol` instead"), "group.protocol group.protocol.type"),
    Group::consumers(
        Refused("it follows from `kafka.session_timeout`; set that instead"),
        "heartbeat.interval.ms",
    ),
    Group::consumers(
        Refused(
            "records of aborted transactions must never reach a handler, so it is read_committed; \
             remove it",
        ),
        "isolation.level",
    ),
    Group::consumers(
        Refused("the runtime polls without waiting for handlers, so it is five minutes; remove it"),
        "max.poll.interval.ms",
    ),
    Group::consumers(
        Refused(
            "incremental rebalancing needs cooperative-sticky; set the group protocol with \
             `kafka.protocol`",
        ),
        "partition.assignment.strategy",
    ),
    Group::consumers(Refused("set `kafka.session_timeout` instead"), "session.timeout.ms"),
];

/// What is said of a setting; `None` when librdkafka documents none of that name.
pub fn standing(program: Program, name: &str) -> Option<Standing> {
    let group = GROUPS.iter().find(|group| group.names().any(|known| known == name))?;
    Some(group.standing(program))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_setting_is_named_once() {
        let mut seen = BTreeSet::new();
        for name in GROUPS.iter().flat_map(Group::names) {
            assert!(seen.insert(name), "{name}");
        }
    }

    #[test]
    fn what_runs_code_or_believes_anybody_is_refused_to_both() {
        let dangerous = [
            "plugin.library.paths",
            "ssl.engine.location",
            "ssl.providers",
            "sasl.kerberos.kinit.cmd",
            "sasl.kerberos.principal",
            "enable.sasl.oauthbearer.unsecure.jwt",
            "enable.ssl.certificate.verification",
            "ssl.endpoint.identification.algorithm",
        ];
        for name in dangerous {
            for program in [Program::Consumer, Program::Relay] {
                assert!(matches!(standing(program, name), Some(Refused(_))), "{name}");
            }
        }
    }
}
