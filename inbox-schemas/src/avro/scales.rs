//! Decimals that a reader's schema gives another scale: `apache-avro` (0.22) takes their digits as they are, which is
//! another amount.

use std::collections::{HashMap, HashSet};

use super::node::{At, Node, Nodes};

/// Whether a decimal of the writer may be read as one of another scale. Records in unions may meet any other, because
/// `apache-avro` resolves a union by what is in them.
pub(super) fn differ(writer: &Nodes, reader: &Nodes) -> bool {
    let mut seen = HashSet::new();
    let mut pairs: Vec<(At, At)> = vec![(writer.root(), reader.root())];
    while let Some(pair) = pairs.pop() {
        if !seen.insert(pair) {
            continue;
        }
        let (one, other) = pair;
        match (writer.get(one), reader.get(other)) {
            (Node::Decimal { scale: of_one, .. }, Node::Decimal { scale: of_other, .. })
                if of_one != of_other =>
            {
                return true;
            }
            (Node::Union(branches), _) => {
                pairs.extend(branches.iter().map(|branch| (*branch, other)));
            }
            (_, Node::Union(branches)) => {
                pairs.extend(branches.iter().map(|branch| (one, *branch)));
            }
            (Node::Array(one), Node::Array(other)) | (Node::Map(one), Node::Map(other)) => {
                pairs.push((*one, *other));
            }
            (Node::Map(values), Node::Record(fields)) => {
                pairs.extend(fields.iter().map(|(_, field)| (*values, *field)));
            }
            (Node::Record(fields), Node::Record(others)) => {
                let others: HashMap<&str, At> =
                    others.iter().map(|(name, field)| (&**name, *field)).collect();
                for (name, field) in fields {
                    pairs.extend(others.get(&**name).map(|other| (*field, *other)));
                }
            }
            _ => {}
        }
    }
    false
}
