//! Which destination an event goes to: the first route that takes it.

use std::collections::HashSet;

/// The destination that is always there.
pub(crate) const KAFKA: &str = "kafka";

/// Where an event goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// To Kafka.
    Kafka,
    /// To the destination of this number.
    Sink(usize),
    /// No route takes it.
    Nowhere,
}

/// One route, by the names of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    event_type: Pattern,
    aggregate_type: Pattern,
    way: Way,
}

/// The routes in their order. Without any, all goes to Kafka.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Routes(Vec<Rule>);

/// A text in which `*` stands for any number of characters.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Pattern(Vec<String>);

impl Routes {
    /// Routes of event type, aggregate type and destination, by the names of the destinations in their order.
    ///
    /// # Errors
    /// One sentence with the name that is no destination.
    pub(crate) fn read<'a>(
        routes: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
        names: &[String],
    ) -> Result<Self, String> {
        let rule = |(event_type, aggregate_type, to)| {
            let way = match names.iter().position(|name| name == to) {
                _ if to == KAFKA => Way::Kafka,
                Some(number) => Way::Sink(number),
                None => return Err(unknown(to, names)),
            };
            let (event_type, aggregate_type) =
                (Pattern::read(event_type), Pattern::read(aggregate_type));
            Ok(Rule { event_type, aggregate_type, way })
        };
        routes.into_iter().map(rule).collect::<Result<_, _>>().map(Self)
    }

    /// Where an event goes.
    pub(crate) fn way(&self, event_type: &str, aggregate_type: &str) -> Way {
        if self.0.is_empty() {
            return Way::Kafka;
        }
        let takes = |rule: &&Rule| {
            rule.event_type.fits(event_type) && rule.aggregate_type.fits(aggregate_type)
        };
        self.0.iter().find(takes).map_or(Way::Nowhere, |rule| rule.way)
    }

    /// Whether any event may go to Kafka.
    pub(crate) fn reach_kafka(&self) -> bool {
        self.0.is_empty() || self.0.iter().any(|rule| rule.way == Way::Kafka)
    }

    /// Whether every event has a destination, whatever its types.
    pub(crate) fn take_all(&self) -> bool {
        self.0.is_empty() || self.0.iter().any(Rule::takes_all)
    }

    /// The number of a route, from 1, that takes every event though others follow it.
    pub(crate) fn hides_others(&self) -> Option<usize> {
        let number = self.0.iter().position(Rule::takes_all)? + 1;
        (number < self.0.len()).then_some(number)
    }

    /// Destinations that no route names.
    pub(crate) fn unused<'a>(&self, names: &'a [String]) -> Vec<&'a str> {
        let used: HashSet<usize> = self.0.iter().filter_map(|rule| rule.way.number()).collect();
        let unused = names.iter().enumerate().filter(|(number, _)| !used.contains(number));
        unused.map(|(_, name)| name.as_str()).collect()
    }
}

impl Rule {
    fn takes_all(&self) -> bool {
        self.event_type.is_any() && self.aggregate_type.is_any()
    }
}

impl Way {
    fn number(self) -> Option<usize> {
        match self {
            Self::Sink(number) => Some(number),
            Self::Kafka | Self::Nowhere => None,
        }
    }
}

impl Pattern {
    fn read(text: &str) -> Self {
        Self(text.split('*').map(str::to_owned).collect())
    }

    fn is_any(&self) -> bool {
        self.0.len() > 1 && self.0.iter().all(String::is_empty)
    }

    /// The pieces between stars occur one behind the other; the first begins the text, the last ends it.
    fn fits(&self, text: &str) -> bool {
        let [first, between @ .., last] = self.0.as_slice() else {
            return self.0.first().is_some_and(|whole| whole == text);
        };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
        for piece in between {
            let Some(at) = rest.find(piece.as_str()) else { return false };
            rest = &rest[at + piece.len()..];
        }
        rest.ends_with(last.as_str())
    }
}

fn unknown(to: &str, names: &[String]) -> String {
    let mut known: Vec<String> = vec![format!("`{KAFKA}`")];
    known.extend(names.iter().map(|name| format!("`{name}`")));
    format!("unknown destination `{to}`; choose one of {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_route_that_takes_an_event_says_where_it_goes() {
        let names = ["shop".to_owned(), "mail".to_owned()];
        let routes = [("Mail*", "*", "mail"), ("*", "Order", "shop"), ("Audit.*.done", "*", KAFKA)];
        let routes = Routes::read(routes, &names).unwrap();
        assert_eq!(routes.way("MailWanted", "Order"), Way::Sink(1));
        assert_eq!(routes.way("Paid", "Order"), Way::Sink(0));
        assert_eq!(routes.way("Audit.x.done", "Log"), Way::Kafka);
        assert_eq!(routes.way("Audit.done", "Log"), Way::Nowhere);
        assert!(routes.reach_kafka() && !routes.take_all() && routes.unused(&names).is_empty());
    }

    #[test]
    fn without_routes_all_goes_to_kafka() {
        let routes = Routes::default();
        assert_eq!(routes.way("Paid", "Order"), Way::Kafka);
        assert!(routes.reach_kafka() && routes.take_all());
        assert_eq!(routes.unused(&["shop".to_owned()]), ["shop"]);
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, text, fits) in [
            ("Paid", "Paid", true),
            ("Paid", "PaidOff", false),
            ("", "", true),
            ("*", "", true),
            ("Order*", "Order", true),
            ("*ed", "Paided", true),
            ("*ed", "Edit", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("aa*aa", "aaa", false),
        ] {
            assert_eq!(Pattern::read(pattern).fits(text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn a_destination_that_is_not_there_is_told_with_those_that_are() {
        let error = Routes::read([("*", "*", "shpo")], &["shop".to_owned()]).unwrap_err();
        assert_eq!(error, "unknown destination `shpo`; choose one of `kafka`, `shop`");
    }
}
