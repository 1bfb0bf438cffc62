//! Graphs for the kernels of GAP, and their partition: vertex `v` is number `v / n` of node `v %
//! n`.

use fastrand::Rng;

/// How a graph's edges are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By halving the matrix again and again with the probabilities of Graph500: few vertices have
    /// many edges.
    Kronecker,
    /// Both ends at random.
    Uniform,
}

/// An undirected graph without loops and double edges, whose edges have weights.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The neighbours of each vertex in ascending order, and the edges' weights, 1 to 255.
    pub neighbours: Vec<Vec<(usize, u64)>>,
}

impl Graph {
    /// A graph of `2^scale` vertices, of whose `degree * 2^(scale-1)` edges loops and double ones
    /// have been left out.
    #[must_use]
    pub fn new(kind: Kind, scale: u32, degree: usize, seed: u64) -> Self {
        let n = 1_usize << scale;
        let mut random = Rng::with_seed(seed);
        let mut neighbours = vec![Vec::new(); n];
        for _ in 0..n * degree / 2 {
            let (a, b) = match kind {
                Kind::Uniform => (random.usize(..n), random.usize(..n)),
                Kind::Kronecker => (0..scale).fold((0, 0), |(a, b), _| {
                    // 0.57, 0.19, 0.19 and 0.05.
                    let (x, y) = match random.u8(..100) {
                        0..57 => (0, 0),
                        57..76 => (0, 1),
                        76..95 => (1, 0),
                        _ => (1, 1),
                    };
                    (2 * a + x, 2 * b + y)
                }),
            };
            let weight = random.u64(1..=255);
            if a != b {
                neighbours[a].push((b, weight));
                neighbours[b].push((a, weight));
            }
        }
        for list in &mut neighbours {
            list.sort_unstable();
            list.dedup_by_key(|(vertex, _)| *vertex);
        }
        // Of double edges both ends keep the lightest one.
        Self { neighbours }
    }

    /// How many vertices.
    #[must_use]
    pub fn n_vertices(&self) -> usize {
        self.neighbours.len()
    }

    /// The first vertex with the most edges, from which searches begin.
    #[must_use]
    pub fn hub(&self) -> usize {
        let most = self.neighbours.iter().map(Vec::len).max().unwrap_or(0);
        let hub = self.neighbours.iter().position(|list| list.len() == most);
        hub.unwrap_or(0)
    }
}
