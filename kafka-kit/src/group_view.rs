//! A group as its coordinator describes it: who is in it, and what each has.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use rdkafka::consumer::Consumer as _;

use crate::{client::Client, settings::ASSIGNOR};

/// A group as its coordinator describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GroupView {
    pub(crate) is_stable: bool,
    assignor: String,
    /// Who is in it: client id and host.
    members: BTreeSet<String>,
    /// Topics of which somebody has a partition.
    pub(crate) assigned: HashSet<String>,
}

/// Asks the group's coordinator. It waits for the network.
pub(crate) fn describe(
    client: &Client,
    group: &str,
    timeout: Duration,
) -> Result<GroupView, String> {
    let list = client.fetch_group_list(Some(group), timeout).map_err(|it| it.to_string())?;
    let found = list.groups().iter().find(|found| found.name() == group);
    let found = found.ok_or_else(|| "the group does not exist".to_owned())?;
    let members = found.members();
    let named = |member: &rdkafka::groups::GroupMemberInfo| {
        format!("{} at {}", member.client_id(), member.client_host().trim_start_matches('/'))
    };
    let assigned = members.iter().filter_map(|member| topics(member.assignment()?)).flatten();
    Ok(GroupView {
        is_stable: found.state() == "Stable",
        assignor: found.protocol().to_owned(),
        members: members.iter().map(named).collect(),
        assigned: assigned.collect(),
    })
}

/// The topics of a member's assignment, as consumers write it: version, then topics, each with its partitions.
fn topics(bytes: &[u8]) -> Option<Vec<String>> {
    let (_version, mut rest) = bytes.split_first_chunk::<2>()?;
    let topics = count(&mut rest)?;
    let mut found = Vec::new();
    for _ in 0..topics {
        let (length, behind) = rest.split_first_chunk::<2>()?;
        let (name, behind) =
            behind.split_at_checked(i16::from_be_bytes(*length).try_into().ok()?)?;
        rest = behind;
        found.push(std::str::from_utf8(name).ok()?.to_owned());
        let partitions = count(&mut rest)?;
        rest = rest.split_at_checked(partitions.checked_mul(4)?)?.1;
    }
    Some(found)
}

/// A number in front of the rest.
fn count(rest: &mut &[u8]) -> Option<usize> {
    let (number, behind) = rest.split_first_chunk::<4>()?;
    *rest = behind;
    usize::try_from(i32::from_be_bytes(*number)).ok()
}

impl GroupView {
    /// Who the others are, and what to change.
    pub(crate) fn others(&self) -> String {
        let Self { assignor, members, .. } = self;
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        format!(
            "the group assigns with `{assignor}`, which this consumer does not support; its \
             members are {}: set their `partition.assignment.strategy` to {ASSIGNOR}, or stop \
             them, or set another `kafka.group` here",
            members.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topics_of_an_assignment_are_read_and_nothing_else_is() {
        let mut bytes = vec![0, 3, 0, 0, 0, 2];
        for (name, partitions) in [("orders", 2_u8), ("bills", 0)] {
            bytes.extend([0, u8::try_from(name.len()).unwrap()]);
            bytes.extend(name.bytes());
            bytes.extend([0, 0, 0, partitions]);
            bytes.extend(vec![0; usize::from(partitions) * 4]);
        }
        let found = || Some(vec!["orders".to_owned(), "bills".to_owned()]);
        assert_eq!(topics(&bytes), found());
        for length in 0..bytes.len() {
            assert_eq!(topics(&bytes[..length]), None, "{length} bytes");
        }
        bytes.extend([255; 4]);
        assert_eq!(topics(&bytes), found(), "data of the assignor");
        assert_eq!(topics(&[0, 0, 255, 255, 255, 255]), None);
    }

    #[test]
    fn the_other_members_and_their_assignor_are_named() {
        let view = GroupView {
            is_stable: true,
            assignor: "range".into(),
            members: ["app-1 at 10.0.0.7".into(), "app-2 at 10.0.0.8".into()].into(),
            assigned: HashSet::new(),
        };
        let text = view.others();
        for part in ["`range`", "app-1 at 10.0.0.7, app-2 at 10.0.0.8", "cooperative-sticky"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
