//! Kernels of the GAP benchmark suite, written for memory that is spread over nodes: vertices push
//! to their neighbours by remote atomics. Edges lie at the node of the vertex that they leave.

use super::graph::Graph;
use super::{DATA, Words, Workload, packed};

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Breadth-first search: compare-and-swap on levels.
    Bfs,
    /// Shortest paths: minima, Bellman and Ford's way.
    Sssp,
    /// Ten rounds of PageRank: additions.
    Pr,
    /// Connected components: minima of labels.
    Cc,
    /// Betweenness of one source: compare-and-swap and additions.
    Bc,
    /// Triangles: remote loads; an addition a node.
    Tc,
}

/// All kernels.
pub const KERNELS: [Kernel; 6] = [
    Kernel::Bfs,
    Kernel::Sssp,
    Kernel::Pr,
    Kernel::Cc,
    Kernel::Bc,
    Kernel::Tc,
];

/// Rounds of PageRank.
const ROUNDS: u64 = 10;

/// Further away than any vertex.
const FAR: u64 = 1 << 40;

/// What is not reached.
const NOWHERE: u64 = u64::MAX;

impl Kernel {
    /// What it is called in the paper.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bfs => "BFS",
            Self::Sssp => "SSSP",
            Self::Pr => "PR",
            Self::Cc => "CC",
            Self::Bc => "BC",
            Self::Tc => "TC",
        }
    }

    const fn source(self) -> &'static str {
        match self {
            Self::Bfs => include_str!("../../guest/paper/bfs.s"),
            Self::Sssp | Self::Cc => include_str!("../../guest/paper/relax.s"),
            Self::Pr => include_str!("../../guest/paper/pr.s"),
            Self::Bc => include_str!("../../guest/paper/bc.s"),
            Self::Tc => include_str!("../../guest/paper/tc.s"),
        }
    }
}

/// Where a node's arrays lie: the same on every node.
struct Layout {
    n_nodes: usize,
    /// Vertices of the node that has the most.
    most: usize,
    /// Edges of the node that has the most.
    edges: u64,
}

impl Layout {
    /// Array number `k` of words a vertex.
    const fn array(&self, k: u64) -> u64 {
        DATA + k * self.bytes()
    }

    /// Bytes of such an array, in which there is room for one word more.
    const fn bytes(&self) -> u64 {
        (8 * (self.most as u64 + 1)).next_multiple_of(64)
    }

    const fn offsets(&self) -> u64 {
        self.array(3)
    }

    const fn edges(&self) -> u64 {
        self.array(4)
    }

    const fn weights(&self) -> u64 {
        self.edges() + (8 * self.edges).next_multiple_of(64)
    }

    /// What a kernel is told beside its vertices, values and edges.
    const fn extra(&self, kernel: Kernel) -> [u64; 2] {
        match kernel {
            Kernel::Bfs | Kernel::Tc => [0, 0],
            Kernel::Sssp | Kernel::Cc => [self.weights() - self.edges(), self.array(1)],
            Kernel::Pr => [ROUNDS, self.array(1)],
            Kernel::Bc => [self.array(1), self.array(2)],
        }
    }

    /// A word a vertex, on each node.
    fn spread(&self, address: u64, values: &[u64]) -> Vec<Words> {
        let node = |node| Words {
            node,
            address,
            words: values
                .iter()
                .skip(node)
                .step_by(self.n_nodes)
                .copied()
                .collect(),
        };
        (0..self.n_nodes).map(node).collect()
    }
}

/// The workload of a kernel on a graph that is spread over nodes.
///
/// # Panics
/// If there are no nodes.
#[must_use]
pub fn workload(kernel: Kernel, graph: &Graph, n_nodes: usize) -> Workload {
    assert!(n_nodes > 0, "a machine has nodes");
    let n = graph.n_vertices();
    let lists = lists(kernel, graph, n_nodes);
    let of_node = |node: usize| lists.iter().skip(node).step_by(n_nodes);
    let edges = |node| of_node(node).map(Vec::len).sum::<usize>() as u64;
    let layout = Layout {
        n_nodes,
        most: n.div_ceil(n_nodes),
        edges: (0..n_nodes).map(edges).max().unwrap_or(0),
    };
    let mut before = Vec::new();
    for node in 0..n_nodes {
        let mut next = layout.edges();
        let mut offsets = vec![next];
        for list in of_node(node) {
            next += 8 * list.len() as u64;
            offsets.push(next);
        }
        let (places, weights) = of_node(node).flatten().copied().unzip();
        for (address, words) in [
            (layout.offsets(), offsets),
            (layout.edges(), places),
            (layout.weights(), weights),
        ] {
            before.push(Words {
                node,
                address,
                words,
            });
        }
    }
    let Data {
        start,
        end,
        outcome,
    } = data(kernel, graph);
    for (k, values) in (0..).zip(&start) {
        before.extend(layout.spread(layout.array(k), values));
    }
    let after = (0..).zip(&end);
    let after = after.flat_map(|(k, values)| layout.spread(layout.array(k), values));
    let params = |node| {
        let here = of_node(node).count() as u64;
        let mut params = vec![here, layout.array(0), layout.offsets()];
        params.extend(layout.extra(kernel));
        params
    };
    Workload {
        name: kernel.name().to_owned(),
        kernel: kernel.source().to_owned(),
        n_nodes,
        params: (0..n_nodes).map(params).collect(),
        after: after.collect(),
        before,
        outcome,
    }
}

/// Each vertex's edges as the kernel has them: where they lead, and what they weigh.
fn lists(kernel: Kernel, graph: &Graph, n_nodes: usize) -> Vec<Vec<(u64, u64)>> {
    let place = |vertex: usize| packed(vertex % n_nodes, vertex / n_nodes);
    let list = |(vertex, edges): (usize, &Vec<(usize, u64)>)| {
        let weight = |weight| if kernel == Kernel::Sssp { weight } else { 0 };
        let mut list: Vec<_> = edges
            .iter()
            .map(|&(other, it)| (place(other), weight(it)))
            .collect();
        if kernel == Kernel::Tc {
            list.retain(|(other, _)| *other < place(vertex));
            list.sort_unstable();
        }
        list
    };
    graph.neighbours.iter().enumerate().map(list).collect()
}

/// Arrays of a word a vertex.
struct Data {
    start: Vec<Vec<u64>>,
    end: Vec<Vec<u64>>,
    outcome: u64,
}

/// What lies there at the start, and what a sequential run makes of it.
fn data(kernel: Kernel, graph: &Graph) -> Data {
    let n = graph.n_vertices();
    let only = |vertex: usize, value: u64, others: u64| {
        let mut all = vec![others; n];
        all[vertex] = value;
        all
    };
    let hub = graph.hub();
    let mut outcome = 0;
    let (start, end) = match kernel {
        Kernel::Bfs => (vec![only(hub, 0, NOWHERE)], vec![levels(graph, hub)]),
        Kernel::Sssp => (
            vec![only(hub, 0, FAR), only(hub, 1, 0)],
            vec![distances(graph, hub), vec![0; n]],
        ),
        Kernel::Cc => (
            vec![(0..n as u64).collect(), vec![1; n]],
            vec![components(graph), vec![0; n]],
        ),
        Kernel::Pr => (
            vec![vec![1 << 32; n], vec![0; n]],
            vec![ranks(graph), vec![0; n]],
        ),
        Kernel::Bc => (
            vec![only(hub, 0, NOWHERE), only(hub, 1, 0), vec![0; n]],
            betweenness(graph, hub),
        ),
        Kernel::Tc => {
            outcome = triangles(graph);
            (Vec::new(), Vec::new())
        }
    };
    Data {
        start,
        end,
        outcome,
    }
}

/// Vertices in the order in which a search finds them, and the level of each.
fn search(graph: &Graph, source: usize) -> (Vec<usize>, Vec<u64>) {
    let mut levels = vec![NOWHERE; graph.n_vertices()];
    levels[source] = 0;
    let mut order = vec![source];
    let mut next = 0;
    while let Some(&vertex) = order.get(next) {
        next += 1;
        for &(other, _) in &graph.neighbours[vertex] {
            if levels[other] == NOWHERE {
                levels[other] = levels[vertex] + 1;
                order.push(other);
            }
        }
    }
    (order, levels)
}

fn levels(graph: &Graph, source: usize) -> Vec<u64> {
    search(graph, source).1
}

/// Dijkstra's way, which is not the kernel's.
fn distances(graph: &Graph, source: usize) -> Vec<u64> {
    let mut far = vec![FAR; graph.n_vertices()];
    far[source] = 0;
    let mut open = std::collections::BTreeSet::from([(0, source)]);
    while let Some((distance, vertex)) = open.pop_first() {
        for &(other, weight) in &graph.neighbours[vertex] {
            let new = distance + weight;
            if new < far[other] {
                open.remove(&(far[other], other));
                far[other] = new;
                open.insert((new, other));
            }
        }
    }
    far
}

fn components(graph: &Graph) -> Vec<u64> {
    let mut labels = vec![NOWHERE; graph.n_vertices()];
    for vertex in 0..graph.n_vertices() {
        if labels[vertex] == NOWHERE {
            for other in search(graph, vertex).0 {
                labels[other] = vertex as u64;
            }
        }
    }
    labels
}

fn ranks(graph: &Graph) -> Vec<u64> {
    let mut scores = vec![1_u64 << 32; graph.n_vertices()];
    for _ in 0..ROUNDS {
        let mut next = vec![0_u64; graph.n_vertices()];
        for (edges, score) in graph.neighbours.iter().zip(&scores) {
            for &(other, _) in edges {
                next[other] += score / edges.len() as u64;
            }
        }
        for (score, got) in scores.iter_mut().zip(next) {
            *score = ((got * 217) >> 8) + (39 << 24);
        }
    }
    scores
}

fn betweenness(graph: &Graph, source: usize) -> Vec<Vec<u64>> {
    let (order, levels) = search(graph, source);
    let mut sigma = vec![0_u64; graph.n_vertices()];
    let mut came = vec![0_u64; graph.n_vertices()];
    sigma[source] = 1;
    let next = |level: u64| level.wrapping_add(1);
    for &vertex in &order {
        for &(other, _) in &graph.neighbours[vertex] {
            if levels[other] == next(levels[vertex]) {
                sigma[other] = sigma[other].wrapping_add(sigma[vertex]);
            }
        }
    }
    for &vertex in order.iter().skip(1).rev() {
        came[vertex] = came[vertex].wrapping_mul(sigma[vertex]);
        let share = came[vertex].wrapping_add(1 << 20) / sigma[vertex];
        for &(other, _) in &graph.neighbours[vertex] {
            if next(levels[other]) == levels[vertex] {
                came[other] = came[other].wrapping_add(share);
            }
        }
    }
    vec![levels, sigma, came]
}

fn triangles(graph: &Graph) -> u64 {
    let has = |a: usize, b: usize| {
        let list = &graph.neighbours[a];
        list.binary_search_by_key(&b, |(vertex, _)| *vertex).is_ok()
    };
    let mut n = 0;
    for (a, list) in graph.neighbours.iter().enumerate() {
        for (k, &(b, _)) in list.iter().enumerate() {
            let behind = list[k + 1..].iter().filter(|_| a < b);
            n += behind.filter(|(c, _)| has(b, *c)).count() as u64;
        }
    }
    n
}
