//! Connect's `RegexRouter`: which topic a value of `route.by.field` means.

use regex_lite::{Captures, Regex};

/// Pattern and replacement, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct TopicRule {
    pattern: Regex,
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Name(String),
    Number(usize),
}

impl TopicRule {
    /// # Errors
    /// One sentence, when the pattern cannot be read, or the replacement names a group that it does not have.
    pub(crate) fn read(pattern: &str, replacement: &str) -> Result<Self, String> {
        let read = Regex::new(&format!("^(?:{pattern})$")).map_err(|error| {
            format!(
                "`debezium.route_topic_regex` is not a valid pattern: {error}; look-around and \
                 back-references are not supported"
            )
        })?;
        let groups = read.captures_len();
        let names: Vec<&str> = read.capture_names().flatten().collect();
        let parts = parts(replacement, groups, &names)
            .map_err(|error| format!("`debezium.route_topic_replacement` {error}"))?;
        Ok(Self { pattern: read, parts })
    }

    /// The topic.
    pub(crate) fn topic(&self, routed: &str) -> String {
        match self.pattern.captures(routed) {
            Some(found) => self.parts.iter().map(|part| part.text(&found)).collect(),
            None => routed.to_owned(),
        }
    }
}

impl Part {
    fn text<'a>(&'a self, found: &'a Captures<'_>) -> &'a str {
        let group = match self {
            Self::Text(text) => return text,
            Self::Name(name) => found.name(name),
            Self::Number(number) => found.get(*number),
        };
        group.map_or("", |group| group.as_str())
    }
}

/// A replacement, as Java's `Matcher` reads it: `\` before a character takes it as it is; of the digits behind `$` so many
/// are read as still mean a group.
fn parts(replacement: &str, groups: usize, names: &[&str]) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = replacement.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => text.push(rest.next().ok_or("ends with a backslash")?),
            '$' if rest.next_if_eq(&'{').is_some() => {
                let name: String = rest.by_ref().take_while(|c| *c != '}').collect();
                if !names.contains(&name.as_str()) {
                    return Err(format!(
                        "names the group {name:?}, which `debezium.route_topic_regex` does not have"
                    ));
                }
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(Part::Name(name));
            }
            '$' => {
                let digit = |c: Option<char>| c.and_then(|c| c.to_digit(10)).map(|d| d as usize);
                let mut number = digit(rest.next()).ok_or("has a `$` without a group after it")?;
                while let Some(next) = digit(rest.peek().copied()) {
                    if number * 10 + next >= groups {
                        break;
                    }
                    number = number * 10 + next;
                    rest.next();
                }
                if number >= groups {
                    return Err(format!(
                        "names the group {number}, which `debezium.route_topic_regex` does not have"
                    ));
                }
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(Part::Number(number));
            }
            c => text.push(c),
        }
    }
    parts.push(Part::Text(text));
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_matches_as_a_whole_is_replaced_and_another_is_the_topic() {
        let rule =
            TopicRule::read("(?<routedByValue>.*)", "outbox.event.${routedByValue}").unwrap();
        assert_eq!(
            (rule.topic("order"), rule.topic("")),
            ("outbox.event.order".into(), "outbox.event.".into())
        );
        let rule = TopicRule::read("(?<a>[a-z]+)-(.*)", "x.${a}.$2.$10\\$").unwrap();
        assert_eq!(
            (rule.topic("order-a"), rule.topic("a-b-c")),
            ("x.order.a.order0$".into(), "x.a.b-c.a0$".into())
        );
        assert_eq!(
            (rule.topic("Order-a"), rule.topic("plain")),
            ("Order-a".into(), "plain".into())
        );
    }

    #[test]
    fn a_rule_that_cannot_be_followed_is_refused() {
        for (pattern, replacement, word) in [
            ("(", "x", "not a valid pattern"),
            (".*", "${nobody}", "\"nobody\""),
            (".*", "$1", "the group 1"),
            (".*", "a$", "without a group"),
            (".*", "a\\", "backslash"),
        ] {
            let error = TopicRule::read(pattern, replacement).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
