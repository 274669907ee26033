//! The graph that partitioners split: undirected, with weights, as compressed rows.
//!
//! A vertex stands for pipes (one, or all that leave some nodes), its load for the work of
//! emulating them. An edge joins vertices between which packets pass; its weight is the work of
//! handing them from one core to another, its delay the least time after which one core hears of
//! what another has done: the look-ahead of a cut there. Weights are whole numbers, so that sums
//! do not depend on their order.
//!
//! Left out: where weights come from ([`crate::flows`], [`crate::conservative`]).

use rustc_hash::FxHashMap;

/// An undirected graph with weights.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    /// By vertex, and at the end: where its arcs begin.
    starts: Vec<u32>,
    arcs: Vec<Arc>,
    loads: Vec<u64>,
    sizes: Vec<u32>,
}

/// An edge as one of its ends sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arc {
    /// The other end.
    pub peer: u32,
    /// What a cut costs.
    pub weight: u64,
    /// The look-ahead of a cut in nanoseconds, above 0.
    pub delay: u64,
}

/// A vertex, to build a graph from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vertex {
    /// Its work.
    pub load: u64,
    /// How many pipes it stands for.
    pub size: u32,
}

/// An edge, to build a graph from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The two vertices, in any order.
    pub ends: [u32; 2],
    /// What a cut costs.
    pub weight: u64,
    /// The look-ahead of a cut in nanoseconds; an edge of 0 must not be cut.
    pub delay: u64,
}

impl Graph {
    /// A graph of `vertices`; edges between the same two are one with their summed weight and
    /// least delay, and those from a vertex to itself are none. Weights should sum to less than
    /// 2^60.
    pub fn new(vertices: &[Vertex], edges: &[Edge]) -> Self {
        let mut list: Vec<Edge> = edges
            .iter()
            .filter(|edge| edge.ends[0] != edge.ends[1])
            .map(|edge| Edge {
                ends: [
                    edge.ends[0].min(edge.ends[1]),
                    edge.ends[0].max(edge.ends[1]),
                ],
                ..*edge
            })
            .collect();
        list.sort_unstable_by_key(|edge| edge.ends);
        list.dedup_by(|next, first| {
            let same = next.ends == first.ends;
            if same {
                first.weight = first.weight.saturating_add(next.weight);
                first.delay = first.delay.min(next.delay);
            }
            same
        });
        let mut starts = vec![0; vertices.len() + 1];
        for end in list.iter().flat_map(|edge| edge.ends) {
            starts[end as usize + 1] += 1;
        }
        for vertex in 0..vertices.len() {
            starts[vertex + 1] += starts[vertex];
        }
        let none = Arc {
            peer: 0,
            weight: 0,
            delay: 0,
        };
        let mut arcs = vec![none; 2 * list.len()];
        let mut next = starts.clone();
        for edge in &list {
            let [a, b] = edge.ends;
            for (from, peer) in [(a, b), (b, a)] {
                let place = &mut next[from as usize];
                arcs[*place as usize] = Arc {
                    peer,
                    weight: edge.weight,
                    delay: edge.delay,
                };
                *place += 1;
            }
        }
        Self {
            starts,
            arcs,
            loads: vertices.iter().map(|vertex| vertex.load).collect(),
            sizes: vertices.iter().map(|vertex| vertex.size).collect(),
        }
    }

    /// How many vertices there are.
    pub fn len(&self) -> usize {
        self.loads.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// How many edges there are.
    pub fn edges(&self) -> usize {
        self.arcs.len() / 2
    }

    /// The edges of a vertex, in the order of their other ends.
    #[inline]
    pub fn arcs(&self, vertex: u32) -> &[Arc] {
        let vertex = vertex as usize;
        &self.arcs[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }

    /// The work of a vertex.
    #[inline]
    pub fn load(&self, vertex: u32) -> u64 {
        self.loads[vertex as usize]
    }

    /// How many pipes a vertex stands for.
    #[inline]
    pub fn size(&self, vertex: u32) -> u32 {
        self.sizes[vertex as usize]
    }

    /// The work of all vertices.
    pub fn total(&self) -> u64 {
        self.loads.iter().sum()
    }

    /// The vertices.
    pub fn vertices(&self) -> std::ops::Range<u32> {
        0..self.len() as u32
    }

    /// Each edge once: its ends, the smaller first, and the arc from there.
    pub fn each_edge(&self) -> impl Iterator<Item = (u32, Arc)> + '_ {
        self.vertices().flat_map(move |vertex| {
            let arcs = self.arcs(vertex).iter();
            arcs.filter(move |arc| arc.peer > vertex)
                .map(move |arc| (vertex, *arc))
        })
    }

    /// The weight of all edges between different parts.
    pub fn cut(&self, part: &[u16]) -> u64 {
        let cut = self.each_edge();
        cut.filter(|(vertex, arc)| part[*vertex as usize] != part[arc.peer as usize])
            .map(|(_, arc)| arc.weight)
            .sum()
    }

    /// The least delay of an edge between different parts, in nanoseconds; `None` where none is
    /// cut.
    pub fn look_ahead(&self, part: &[u16]) -> Option<u64> {
        let cut = self.each_edge();
        cut.filter(|(vertex, arc)| part[*vertex as usize] != part[arc.peer as usize])
            .map(|(_, arc)| arc.delay)
            .min()
    }

    /// The work of the vertices of each part, without that of cut edges.
    pub fn loads(&self, part: &[u16], cores: u16) -> Vec<u64> {
        let mut loads = vec![0; usize::from(cores)];
        for (part, load) in part.iter().zip(&self.loads) {
            loads[usize::from(*part)] += load;
        }
        loads
    }

    /// The graph whose loads include the work of crossings, where edges of this weight in all are
    /// cut: each vertex gets as much of it as of all edges, half on either side.
    pub fn with_crossings(&self, cut: u64) -> Self {
        let all: u64 = self.each_edge().map(|(_, arc)| arc.weight).sum();
        let mut graph = self.clone();
        for vertex in self.vertices() {
            let own: u64 = self.arcs(vertex).iter().map(|arc| arc.weight).sum();
            let crossing = u128::from(own) * u128::from(cut) / (2 * u128::from(all.max(1)));
            graph.loads[vertex as usize] += crossing as u64;
        }
        graph
    }

    /// The graph in which all vertices of a group are one; `groups` are numbered from 0 without
    /// gaps.
    pub fn contract(&self, groups: &Groups) -> Self {
        let mut vertices = vec![Vertex::default(); groups.count];
        for vertex in self.vertices() {
            let group = &mut vertices[groups.of[vertex as usize] as usize];
            group.load += self.load(vertex);
            group.size += self.size(vertex);
        }
        let edges: Vec<Edge> = self
            .each_edge()
            .map(|(vertex, arc)| Edge {
                ends: [vertex, arc.peer].map(|end| groups.of[end as usize]),
                weight: arc.weight,
                delay: arc.delay,
            })
            .collect();
        Self::new(&vertices, &edges)
    }
}

/// Vertices that stay together: each one's group, numbered from 0 in the order of their first
/// members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// By vertex.
    pub of: Vec<u32>,
    /// How many groups there are.
    pub count: usize,
}

impl Groups {
    /// The groups that `pairs` join.
    pub fn join(vertices: usize, pairs: impl Iterator<Item = [u32; 2]>) -> Self {
        let mut parent: Vec<u32> = (0..vertices as u32).collect();
        fn root(parent: &mut [u32], mut vertex: u32) -> u32 {
            while parent[vertex as usize] != vertex {
                let up = parent[vertex as usize];
                parent[vertex as usize] = parent[up as usize];
                vertex = parent[vertex as usize];
            }
            vertex
        }
        for pair in pairs {
            let [a, b] = pair.map(|end| root(&mut parent, end));
            // The smaller one stays, so that groups are numbered by their first members.
            parent[a.max(b) as usize] = a.min(b);
        }
        let mut of = vec![0; vertices];
        let mut count = 0;
        for vertex in 0..vertices {
            let root = root(&mut parent, vertex as u32) as usize;
            if root == vertex {
                of[vertex] = count;
                count += 1;
            } else {
                of[vertex] = of[root];
            }
        }
        Self {
            of,
            count: count as usize,
        }
    }

    /// The groups of those that share a number, whatever the numbers are.
    pub fn by(numbers: impl ExactSizeIterator<Item = u64>) -> Self {
        let mut known = FxHashMap::default();
        let of: Vec<u32> = numbers
            .map(|number| {
                let next = known.len() as u32;
                *known.entry(number).or_insert(next)
            })
            .collect();
        Self {
            of,
            count: known.len(),
        }
    }

    /// The part of each member, from those of the groups.
    pub fn spread(&self, part: &[u16]) -> Vec<u16> {
        self.of.iter().map(|&group| part[group as usize]).collect()
    }
}
