//! `[outbox]`: how handlers append events.

use service_kit::{choice, section};

section! {
    /// `[outbox]`: how handlers append events.
    #[derive(Copy)]
    pub struct Outbox as "outbox" {
        /// The largest event that a handler appends, as a record with its headers. The brokers
        /// (`message.max.bytes`) and the event's consumers must accept it.
        event_bytes_max: usize = "1MiB", in 1KiB..=64MiB;
        /// PostgreSQL: whether a COMMIT with appended events wakes the relay (`notify`: PostgreSQL
        /// then serializes the commits of such transactions), or the relay finds them at its next
        /// poll (`poll`).
        wake: Wake;
    }
}

choice! {
    /// How a relay learns of appended events.
    pub enum Wake {
        /// The COMMIT tells it (PostgreSQL).
        Notify = "notify",
        /// It looks from time to time.
        Poll = "poll",
    }
}

impl From<Outbox> for outbox_core::Outbox {
    fn from(Outbox { event_bytes_max, wake }: Outbox) -> Self {
        Self::default().bytes_max(event_bytes_max).notify(wake == Wake::Notify)
    }
}
