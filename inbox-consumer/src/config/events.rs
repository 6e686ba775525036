//! `[events]`: how records become events.

use outbox_core::{IdScope, ReadRules};
use service_kit::{choice, section};

section! {
    /// `[events]`: how records become events.
    pub struct Events as "events" {
        /// Which rules records are read by: `own`, the headers that outbox-core writes; `custom`, the rules below.
        format: Format;
        /// The rules of the format `custom`.
        rules: Option<ReadRules> {
            /// Where the event's id is, with the format `custom`. A place is `header:NAME`, `key`, `key:hex`,
            /// `pointer:/json/pointer`, `topic` or `value:CONSTANT`. `position`, which may be the last place of an id,
            /// is topic, partition and offset: for producers that send none.
            id = whole;
            /// What an id that is no UUID is unique within.
            id_source = "`topic`";
            /// Where the event's type is, by which routes are found.
            type = whole;
            /// What order is kept for. With a pointer into the payload the whole partition is one sequence. A change of
            /// it changes the lanes, once nothing is settled ahead of the watermark, and the queues of parked events.
            aggregate_id = "`key`";
            /// The aggregate's type. In a header it is part of what order is kept for: type and id.
            aggregate_type = "`topic`";
            /// The aggregate's version after the event: a whole number.
            aggregate_version;
            /// When it happened: milliseconds since 1970, or RFC 3339.
            occurred_at;
            /// The version of the payload's schema: a whole number.
            schema_version;
        };
        /// Where an event id is one event's: in all topics of the consumer, so that an event which is copied or
        /// moved to another topic is recognised; or in its topic, so that no producer can take the id of another
        /// topic's event. The database keeps what a consumer began with.
        id_scope: IdScope;
        /// What happens to an event that no route takes: parked as any failure; settled and counted; or settled,
        /// and sent to `events.dead_letter_topic` through the outbox.
        unknown_type: Unwanted;
        /// The same for a record that cannot be read as an event, is larger than `events.event_bytes_max`, or whose
        /// payload does not fit its handler's type. What is ignored is lost to this consumer.
        undecodable: Unwanted;
        /// Where `dead_letter` sends to: a topic that this consumer does not read. A relay has to ship the outbox.
        dead_letter_topic: Option<String>;
        /// What a second event with a known id must have in common with the first, besides type and aggregate, to
        /// be its copy and no mismatch: the payload's bytes, or (`json`) the payload as JSON, whatever the order of
        /// its keys and its white space.
        content: Content;
        /// A larger record is not decoded; see `events.undecodable`.
        event_bytes_max: usize = "1MiB", in 1KiB..=64MiB;
    }
}

choice! {
    /// Which rules records are read by.
    pub enum Format {
        /// The headers that outbox-core writes.
        Own = "own",
        /// `[events.rules]`.
        Custom = "custom",
    }
}

choice! {
    /// What happens to what nobody can take.
    pub enum Unwanted {
        /// It is parked, as any failure.
        Park = "park",
        /// It is settled and counted.
        Ignore = "ignore",
        /// It is settled, and appended to the outbox for the topic of dead letters.
        DeadLetter = "dead_letter",
    }
}

choice! {
    /// How payloads of events with one id are compared.
    pub enum Content {
        /// Byte by byte.
        Bytes = "bytes",
        /// As JSON: the order of keys and white space do not count.
        Json = "json",
    }
}
