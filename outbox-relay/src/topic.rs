//! Which topic a row goes to: its own, or what the template makes of it.

use service_kit::topic_name;

/// `shop.{aggregate_type}`, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    AggregateType,
    EventType,
}

impl Template {
    /// Takes a template apart.
    ///
    /// # Errors
    /// One sentence, when a placeholder is unknown or what stands between them is no part of a name.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        // Where nothing goes to Kafka none is needed.
        if text.is_empty() {
            return Ok(Self(parts));
        }
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            parts.push(Part::Text(before.to_owned()));
            let (name, after) = behind
                .split_once('}')
                .ok_or_else(|| format!("{text:?} has a `{{` without its `}}`"))?;
            parts.push(match name {
                "aggregate_type" => Part::AggregateType,
                "event_type" => Part::EventType,
                other => {
                    return Err(format!(
                        "unknown placeholder {{{other}}}; use {{aggregate_type}} or \
                         {{event_type}}, or a plain name"
                    ));
                }
            });
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        let template = Self(parts);
        let example = template.fill("x", "x");
        topic_name(&example).map_err(|problem| format!("{text:?} {problem}"))?;
        Ok(template)
    }

    /// The topic of a row.
    ///
    /// # Errors
    /// One sentence, when that is no name of a topic.
    pub(crate) fn topic(
        &self,
        own: Option<&str>,
        aggregate_type: &str,
        event_type: &str,
    ) -> Result<String, String> {
        let (topic, source) = match own {
            Some(own) => (own.to_owned(), "the row's own topic"),
            None => {
                (self.fill(aggregate_type, event_type), "`kafka.topic` sets the row's topic to")
            }
        };
        if topic.is_empty() {
            return Err("the row names no topic, and `kafka.topic` is not set".into());
        }
        topic_name(&topic).map_err(|problem| format!("{source} {topic:?}, which {problem}"))?;
        Ok(topic)
    }

    fn fill(&self, aggregate_type: &str, event_type: &str) -> String {
        self.0
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::AggregateType => aggregate_type,
                Part::EventType => event_type,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_names_the_topic_unless_the_row_does() {
        let template = Template::read("shop.{aggregate_type}-{event_type}.v1").unwrap();
        assert_eq!(template.topic(None, "Order", "Paid").unwrap(), "shop.Order-Paid.v1");
        assert_eq!(template.topic(Some("other"), "Order", "Paid").unwrap(), "other");
        assert_eq!(Template::read("orders").unwrap().topic(None, "a", "b").unwrap(), "orders");
    }

    #[test]
    fn a_template_that_cannot_name_a_topic_is_refused() {
        for (text, word) in [
            ("{aggregate}", "unknown placeholder {aggregate}"),
            ("{event_type", "without its `}`"),
            ("or ders", "not a valid topic"),
            ("ü{event_type}", "not a valid topic"),
            (".", "not a valid topic"),
        ] {
            let error = Template::read(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_row_whose_topic_is_no_name_is_told_with_its_source() {
        let template = Template::read("{aggregate_type}").unwrap();
        let error = template.topic(None, "Purchase Order", "Paid").unwrap_err();
        assert!(
            error.starts_with("`kafka.topic` sets the row's topic to \"Purchase Order\""),
            "{error}"
        );
        let error = template.topic(Some("a b"), "Order", "Paid").unwrap_err();
        assert!(error.starts_with("the row's own topic \"a b\", which is not a valid"), "{error}");
        assert!(template.topic(None, &"x".repeat(250), "Paid").is_err());
    }
}
