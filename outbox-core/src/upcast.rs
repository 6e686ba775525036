//! Payloads of older schema versions, brought to today's step by step.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{CodecError, Decode, Json, JsonFault, Payload, Preparation};

/// What makes a payload of one version one of the next.
type Step = Arc<dyn Fn(Value) -> Result<Value, StepFault> + Send + Sync>;

/// A payload's version, and the steps that it takes, each with the version that it is for.
type Taken<'a> = (i32, Vec<(i32, &'a Step)>);

/// Why a step cannot be taken, without any of the payload.
type StepFault = String;

/// Payloads of older schema versions, brought to today's type step by step: a codec around another one.
///
/// Each step is for one version ([`Payload::schema_version`]) and makes a payload of the next version. Steps follow each
/// other without a gap; today's version is the one that the last of them makes. A payload of today's version is
/// decoded as without all this. One of a newer version is refused, and its event parked until a consumer runs that knows
/// it; so is one of a version before the first step. A payload without a version is of the first step's version unless
/// [`missing_is`](Self::missing_is) says otherwise.
///
/// Steps are as pure as a codec is: no clock, no chance, no question to a database.
///
/// ```
/// use outbox_core::{Decode, Payload, Upcasts};
/// use serde::{Deserialize, Serialize};
/// use serde_json::Value;
///
/// #[derive(Deserialize)]
/// struct PaidV1 {
///     amount: f64,
/// }
///
/// #[derive(Serialize)]
/// struct PaidV2 {
///     cents: i64,
/// }
///
/// #[derive(Deserialize, PartialEq, Debug)]
/// struct Paid {
///     cents: i64,
///     currency: String,
/// }
///
/// let paid = Upcasts::new()
///     .step(1, |old: PaidV1| PaidV2 { cents: (old.amount * 100.0).round() as i64 })
///     .edit(2, |payload| payload["currency"] = "EUR".into());
///
/// let old = Payload::new(br#"{"amount": 2.5}"#).with_schema_version(1);
/// let today = Payload::new(br#"{"cents": 250, "currency": "EUR"}"#).with_schema_version(3);
/// let (old, today): (Paid, Paid) = (paid.decode(&old)?, paid.decode(&today)?);
/// assert_eq!(old, today);
///
/// let newer = Payload::new(b"{}").with_schema_version(4);
/// let error = Decode::<Paid>::decode(&paid, &newer).unwrap_err();
/// assert!(error.to_string().starts_with("the payload is of schema version 4, and this consumer supports up to"));
/// # Ok::<(), outbox_core::CodecError>(())
/// ```
#[derive(Clone)]
pub struct Upcasts<C = Json> {
    codec: C,
    steps: BTreeMap<i32, Step>,
    missing: Option<i32>,
    wrong: Option<String>,
}

impl Upcasts {
    /// Of JSON.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "without a step it is of no use")]
    pub fn new() -> Self {
        Self::over(Json)
    }
}

impl<C> Upcasts<C> {
    /// Of what `codec` reads: it is asked for JSON values of older versions, and for the type itself of today's.
    pub fn over(codec: C) -> Self {
        Self { codec, steps: BTreeMap::new(), missing: None, wrong: None }
    }

    /// Makes a payload of version `from` one of the next version, by its types.
    #[must_use]
    pub fn step<Old, New>(
        self,
        from: i32,
        step: impl Fn(Old) -> New + Send + Sync + 'static,
    ) -> Self
    where
        Old: DeserializeOwned + 'static,
        New: Serialize + 'static,
    {
        self.add(from, move |old| {
            let old = serde_json::from_value(old).map_err(|error| fault(&error))?;
            serde_json::to_value(step(old)).map_err(|error| fault(&error))
        })
    }

    /// Makes a payload of version `from` one of the next version, in place.
    #[must_use]
    pub fn edit(self, from: i32, edit: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.add(from, move |mut payload| {
            edit(&mut payload);
            Ok(payload)
        })
    }

    /// The same, where not every payload of the version can be brought to the next. The error is a sentence without any
    /// of the payload; the event is parked with it.
    #[must_use]
    pub fn try_edit(
        self,
        from: i32,
        edit: impl Fn(&mut Value) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.add(from, move |mut payload| {
            edit(&mut payload)?;
            Ok(payload)
        })
    }

    /// The version of payloads that do not say one: one that a step is for, or today's.
    #[must_use]
    pub fn missing_is(self, version: i32) -> Self {
        Self { missing: Some(version), ..self }
    }

    fn add(
        mut self,
        from: i32,
        step: impl Fn(Value) -> Result<Value, StepFault> + Send + Sync + 'static,
    ) -> Self {
        if self.steps.insert(from, Arc::new(step)).is_some() {
            self.wrong = Some(format!(
                "two steps bring payloads of schema version {from} to the next version: remove one of them"
            ));
        }
        self
    }

    /// What is wrong with the steps.
    fn problem(&self) -> Option<String> {
        if self.steps.is_empty() {
            return Some("an upcast without a step has no effect: add a step".into());
        }
        let gap = self.steps.keys().zip(self.steps.keys().skip(1));
        let gap = gap.map(|(one, next)| (*one, *next)).find(|(one, next)| one + 1 != *next);
        let gap = gap.map(|(one, next)| {
            format!(
                "a step makes payloads of schema version {}, and the next one expects version \
                 {next}: add the steps between them",
                one + 1
            )
        });
        self.wrong.clone().or(gap).or_else(|| self.missing_problem())
    }

    /// A version that payloads without one cannot be of: each of them would be refused.
    fn missing_problem(&self) -> Option<String> {
        let (version, (first, today)) = (self.missing?, self.versions()?);
        let fits = (first..=today).contains(&version);
        (!fits).then(|| {
            format!(
                "payloads without a schema version cannot be of version {version}: the steps \
                 start from versions {first} to {today}; set `missing_is` to one of these, or add \
                 the steps"
            )
        })
    }

    /// The first version that a step takes, and today's.
    fn versions(&self) -> Option<(i32, i32)> {
        let (first, last) = (self.steps.first_key_value()?, self.steps.last_key_value()?);
        Some((*first.0, last.0.saturating_add(1)))
    }

    /// The steps for a payload of a version, in their order; none for today's.
    fn steps_from(&self, version: Option<i32>) -> Result<Taken<'_>, CodecError> {
        let Some((first, today)) = self.versions().filter(|_| self.problem().is_none()) else {
            return Err(CodecError::Other(self.problem().unwrap_or_default()));
        };
        let version = version.or(self.missing).unwrap_or(first);
        if version > today {
            return Err(CodecError::Other(format!(
                "the payload is of schema version {version}, and this consumer supports up to \
                 {today}: run a newer one, then release the event"
            )));
        }
        if version < first {
            return Err(CodecError::Other(format!(
                "the payload is of schema version {version}, and the oldest step starts from \
                 {first}: add a step for it, then release the event"
            )));
        }
        let steps = self.steps.range(version..).map(|(from, step)| (*from, step));
        Ok((version, steps.collect()))
    }
}

impl<T, C> Decode<T> for Upcasts<C>
where
    T: DeserializeOwned,
    C: Decode<T> + Decode<Value>,
{
    fn decode(&self, payload: &Payload<'_>) -> Result<T, CodecError> {
        // A tombstone has no version.
        if payload.content().is_none() {
            return self.codec.decode(payload);
        }
        let (version, steps) = self.steps_from(payload.schema_version())?;
        if steps.is_empty() {
            return self.codec.decode(payload);
        }
        let stays = |to: i32, what: &str| {
            CodecError::Other(format!(
                "the payload of schema version {version} cannot be converted to version {to}: \
                 {what}; fix its producer, or the step"
            ))
        };
        let mut value: Value = self.codec.decode(&payload.as_tree())?;
        let mut reached = version;
        for (from, step) in steps {
            reached = from.saturating_add(1);
            value = step(value).map_err(|what| stays(reached, &what))?;
        }
        serde_json::from_value(value).map_err(|error| stays(reached, &fault(&error)))
    }

    fn start(&self) -> Preparation<'_> {
        if let Some(wrong) = self.problem() {
            return Box::pin(std::future::ready(Err(CodecError::Other(wrong))));
        }
        Decode::<Value>::start(&self.codec)
    }

    fn prepare(&self, payload: &Payload<'_>) -> Option<Preparation<'_>> {
        Decode::<Value>::prepare(&self.codec, payload)
    }
}

/// What serde says of a value, without the value.
fn fault(error: &serde_json::Error) -> String {
    JsonFault::of(b"", error).what
}

impl<C> fmt::Debug for Upcasts<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<&i32> = self.steps.keys().collect();
        f.debug_struct("Upcasts")
            .field("steps", &steps)
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each step writes down that it was taken.
    fn steps() -> Upcasts {
        let mark = |from: i32| {
            move |payload: &mut Value| {
                let taken = payload["taken"].as_str().unwrap_or_default().to_owned();
                payload["taken"] = format!("{taken}{from}").into();
            }
        };
        Upcasts::new().edit(2, mark(2)).edit(1, mark(1)).edit(3, mark(3))
    }

    fn decode(steps: &Upcasts, version: Option<i32>) -> Result<Value, String> {
        let payload = Payload::new(b"{}");
        let payload = version.map_or(payload, |version| payload.with_schema_version(version));
        steps.decode(&payload).map_err(|error| error.to_string())
    }

    #[test]
    fn a_payload_takes_the_steps_from_its_version_to_todays() {
        for (version, taken) in [(1, "123"), (2, "23"), (3, "3")] {
            assert_eq!(decode(&steps(), Some(version)), Ok(json!({ "taken": taken })));
        }
        assert_eq!(decode(&steps(), Some(4)), Ok(json!({})), "today's takes none");
        assert_eq!(decode(&steps(), None), Ok(json!({ "taken": "123" })), "the first");
        assert_eq!(decode(&steps().missing_is(3), None), Ok(json!({ "taken": "3" })));
    }

    #[test]
    fn versions_that_no_step_takes_are_refused_by_number() {
        let newer = decode(&steps(), Some(5)).unwrap_err();
        assert!(
            newer.starts_with(
                "the payload is of schema version 5, and this consumer supports up to 4"
            ),
            "{newer}"
        );
        let older = decode(&steps(), Some(0)).unwrap_err();
        assert!(
            older.starts_with(
                "the payload is of schema version 0, and the oldest step starts from 1"
            ),
            "{older}"
        );
        let edge = Upcasts::new().edit(i32::MAX, |_| {});
        assert!(decode(&edge, Some(i32::MIN)).is_err());
        assert!(decode(&edge, Some(i32::MAX)).is_ok());
    }

    /// The value (`s3cret`) is told by no error.
    #[test]
    fn what_a_step_cannot_take_is_told_without_the_payload() {
        #[derive(serde::Deserialize)]
        struct Old {
            amount: i64,
        }
        let typed = Upcasts::new().step(1, |old: Old| json!({ "cents": old.amount * 100 }));
        let tried = Upcasts::new().try_edit(1, |payload| match payload["amount"].as_i64() {
            Some(_) => Ok(()),
            None => Err("the amount is no number".into()),
        });
        for (steps, word) in [(typed, "invalid type, expected i64"), (tried, "is no number")] {
            let payload = Payload::new(br#"{"amount": "s3cret"}"#).with_schema_version(1);
            let error = Decode::<Value>::decode(&steps, &payload).unwrap_err().to_string();
            assert!(error.contains("version 1 cannot be converted to version 2"), "{error}");
            assert!(error.contains(word) && !error.contains("s3cret"), "{error}");
        }
        let payload = Payload::new(br#"{"amount": 2}"#).with_schema_version(1);
        let wrong = Upcasts::new().edit(1, |payload| payload["amount"] = "s3cret".into());
        let error = Decode::<BTreeMap<String, i64>>::decode(&wrong, &payload).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }

    #[test]
    fn steps_with_a_gap_or_twice_or_too_few_keep_a_consumer_from_starting() {
        use futures_of_tests::now;
        let start = |steps: &Upcasts| now(Decode::<Value>::start(steps));
        assert_eq!(start(&steps()), Ok(()));
        assert_eq!(start(&steps().missing_is(4)), Ok(()), "today's");
        for (steps, word) in [
            (Upcasts::new(), "without a step"),
            (Upcasts::new().edit(1, |_| {}).edit(1, |_| {}), "two steps"),
            (Upcasts::new().edit(1, |_| {}).edit(3, |_| {}), "makes payloads of schema version 2"),
            (steps().missing_is(0), "cannot be of version 0"),
            (steps().missing_is(5), "cannot be of version 5"),
        ] {
            let error = start(&steps).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
            assert_eq!(decode(&steps, Some(1)), Err(error));
        }
    }

    #[test]
    fn a_tombstone_has_no_version() {
        let steps = steps();
        let tombstone = Payload::tombstone();
        assert_eq!(Decode::<Option<u32>>::decode(&steps, &tombstone), Ok(None));
        assert!(Decode::<u32>::decode(&steps, &tombstone).is_err());
    }

    mod futures_of_tests {
        use std::task::{Context, Poll, Waker};

        use super::Preparation;
        use crate::CodecError;

        /// What a future that waits for nothing answers.
        pub(super) fn now(mut future: Preparation<'_>) -> Result<(), CodecError> {
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => answer,
                Poll::Pending => panic!("it waits"),
            }
        }
    }
}
