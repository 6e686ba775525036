//! How the fields of signals are written into the log: numbers as numbers, so that an index of both programs' lines has
//! one type for each field.

use tracing::{Value, field::display};

use outbox_core::TopicPartition;

/// How a field is written into a log event.
pub trait Shown {
    /// The value of the field.
    fn shown(&self) -> impl Value;
}

macro_rules! shown_as_they_are {
    ($($type:ty),+) => { $( impl Shown for $type {
        fn shown(&self) -> impl Value {
            *self
        }
    } )+ };
}

shown_as_they_are!(
    usize,
    u32,
    u64,
    i32,
    i64,
    bool,
    &'static str,
    Option<i32>,
    Option<i64>,
    Option<u32>,
    Option<u64>
);

impl Shown for String {
    fn shown(&self) -> impl Value {
        self.as_str()
    }
}

impl Shown for TopicPartition {
    fn shown(&self) -> impl Value {
        display(format_args!("{}/{}", self.topic, self.partition).to_string())
    }
}

impl Shown for Option<String> {
    fn shown(&self) -> impl Value {
        self.as_deref()
    }
}
