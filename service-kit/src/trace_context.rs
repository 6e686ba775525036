//! The W3C Trace Context of a record: which span its event was sent in.

use outbox_core::{Record, header_names, internal::TraceParent};

/// The W3C Trace Context of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceContext<'r> {
    /// The trace, in hex.
    pub trace_id: &'r str,
    /// The span that sent the event, in hex.
    pub parent_id: &'r str,
    /// Whether it is sampled, and what else later versions say there.
    pub flags: u8,
    /// Vendors' state, as it came.
    pub state: Option<&'r str>,
}

impl<'r> TraceContext<'r> {
    /// Of a record's headers; nothing when they do not follow the standard.
    pub fn of(record: &'r Record) -> Option<Self> {
        let text = |name| record.header(name).and_then(|value| std::str::from_utf8(value).ok());
        let parent = text(header_names::TRACEPARENT)?.trim();
        let TraceParent { trace_id, parent_id, flags } = TraceParent::read(parent.as_bytes())?;
        Some(Self { trace_id, parent_id, flags, state: text(header_names::TRACESTATE) })
    }

    /// Those of many records, each once, at most `max`; the first ones.
    pub fn distinct(records: impl IntoIterator<Item = &'r Record>, max: usize) -> Vec<Self> {
        let mut contexts: Vec<Self> = Vec::new();
        for context in records.into_iter().filter_map(Self::of) {
            if contexts.len() >= max {
                break;
            }
            let same = |known: &Self| {
                (known.trace_id, known.parent_id) == (context.trace_id, context.parent_id)
            };
            if !contexts.iter().any(same) {
                contexts.push(context);
            }
        }
        contexts
    }

    /// The same as OpenTelemetry has it.
    #[cfg(feature = "opentelemetry")]
    pub fn remote(self) -> Option<opentelemetry::trace::SpanContext> {
        use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
        let trace_id = TraceId::from_hex(self.trace_id).ok()?;
        let parent_id = SpanId::from_hex(self.parent_id).ok()?;
        // A state that does not follow the standard is left out; the parent counts all the same.
        let state = self.state.and_then(|state| state.parse::<TraceState>().ok());
        let flags = TraceFlags::new(self.flags);
        Some(SpanContext::new(trace_id, parent_id, flags, true, state.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use outbox_core::Header;

    use super::*;

    fn record(span: u8) -> Record {
        let parent = format!("00-0af7651916cd43dd8448eb211c80319c-{span:016x}-01");
        let header = Header {
            name: header_names::TRACEPARENT.to_owned().into(),
            value: Some(parent.into()),
        };
        Record { key: None, headers: vec![header], payload: None, timestamp_ms: None }
    }

    #[test]
    fn each_context_counts_once_and_there_is_an_end_of_them() {
        let records = [1, 2, 1, 3, 4].map(record);
        let spans = |max| -> Vec<String> {
            let contexts = TraceContext::distinct(&records, max);
            contexts.iter().map(|context| context.parent_id[15..].to_owned()).collect()
        };
        assert_eq!(spans(10), ["1", "2", "3", "4"]);
        assert_eq!(spans(2), ["1", "2"]);
    }
}
