//! Partitions in drawings: nodes in the colour of the core that owns them, and links dashed where
//! they join two cores.
//!
//! Colours repeat after [`COLOURS`]; tooltips name the core.

use super::Sketch;

/// How many colours there are (after Okabe and Ito 2008, and more).
const COLOURS: usize = 12;

/// Their styles, for light and dark.
pub(super) const STYLE: &str = "\
.k0{fill:#0072b2}.k1{fill:#e69f00}.k2{fill:#009e73}.k3{fill:#cc79a7}.k4{fill:#d55e00}\
.k5{fill:#56b4e9}.k6{fill:#b5a800}.k7{fill:#7f7f7f}.k8{fill:#8c564b}.k9{fill:#17becf}\
.k10{fill:#6a3d9a}.k11{fill:#33a02c}.cut{stroke:#cf222e;stroke-dasharray:5 3}";

/// The core of a node, where there is a partition.
pub(super) fn owner(sketch: &Sketch, node: usize) -> Option<u16> {
    sketch.owners.get(node).copied()
}

/// The class of a node of a core.
pub(super) fn class(core: u16) -> String {
    format!("k{}", usize::from(core) % COLOURS)
}

/// Whether a link joins two cores.
pub(super) fn is_cut(sketch: &Sketch, ends: [usize; 2]) -> bool {
    owner(sketch, ends[0]) != owner(sketch, ends[1])
}

/// How many nodes each core owns, of those that own any, by core.
pub(super) fn counts(sketch: &Sketch) -> Vec<(u16, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for &owner in &sketch.owners {
        *counts.entry(owner).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}
