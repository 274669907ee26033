//! Positions: where drawings show nodes. They change nothing else.

use std::collections::BTreeMap;

use crate::file::spec::TopologySpec;
use crate::text::error::{Faults, shown};

/// The positions that a file gives, by the names of the nodes; problems go to `faults`.
pub(crate) fn read(spec: &TopologySpec, faults: &mut Faults) -> BTreeMap<String, (f64, f64)> {
    const HINT: &str = "write it like `position: [2.5, 1]`";
    let mut positions = BTreeMap::new();
    for (name, node) in &spec.nodes.0 {
        let Some(position) = node.0.as_ref().and_then(|node| node.position.as_ref()) else {
            continue;
        };
        if node.0.as_ref().is_some_and(|node| node.count.is_some()) {
            faults.add(
                position.at,
                "a group cannot have one position",
                "remove `position`: drawings place its nodes beside their neighbours",
            );
            continue;
        }
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
        let mut numbers = Vec::new();
        for part in &position.value {
            match number(&part.value) {
                Some(number) => numbers.push(number),
                None => {
                    let message = format!("`{}` is not a number", shown(&part.value));
                    faults.add(part.at, message, HINT);
                }
            }
        }
        match (numbers.as_slice(), position.value.len()) {
            ([x, y], 2) => {
                positions.insert(name.value.clone(), (*x, *y));
            }
            (_, 2) => {}
            (_, n) => faults.add(
                position.at,
                format!("a position is [x, y], and this list has {n} numbers"),
                HINT,
            ),
        }
    }
    positions
}
