//! The elimination tree: which vertices are eliminated together, in which order, and which vertices
//! that affects.
//!
//! Nested dissection: a level of a breadth-first search separates a set of vertices into two
//! halves. The halves are eliminated first, each in the same way, and then the separator. Vertices
//! that are eliminated together form a *front*: a dense matrix over them (its *pivots*) and over
//! all later vertices that the elimination affects (its *border*).

use std::ops::Range;

use crate::graph::Graph;

/// Sets of at most this many vertices are not divided.
const LEAF: usize = 32;

/// Vertices that are eliminated together.
pub(crate) struct Front {
    /// The pivots, then the border, each in the order of elimination.
    pub(crate) rows: Vec<u32>,
    pub(crate) n_pivots: usize,
    pub(crate) parent: Option<usize>,
    /// The positions of the border's rows in the parent.
    pub(crate) in_parent: Vec<u32>,
    /// The height: one more than that of the highest child.
    pub(crate) height: usize,
    /// The ranks that work on it.
    pub(crate) ranks: Range<u32>,
    children: Vec<usize>,
}

/// Fronts, children before parents.
pub(crate) struct Tree {
    pub(crate) fronts: Vec<Front>,
}

impl Tree {
    /// The tree of `graph`, divided among `n_ranks` ranks.
    pub(crate) fn new(graph: &Graph, n_ranks: u32) -> Self {
        let mut builder = Builder {
            graph,
            set_of: vec![0; graph.n_vertices()],
            reached_in: vec![0; graph.n_vertices()],
            n_searches: 0,
            position: vec![0; graph.n_vertices()],
            n_eliminated: 0,
            fronts: Vec::new(),
        };
        let everything =
            (0..graph.n_vertices()).map(|vertex| u32::try_from(vertex).expect("32 bits"));
        builder.dissect(everything.collect());
        let mut tree = Self {
            fronts: builder.fronts,
        };
        tree.divide(n_ranks);
        tree
    }

    /// Assigns ranks to each front in proportion to its work. A child's ranks are among its
    /// parent's.
    fn divide(&mut self, n_ranks: u32) {
        let mut work: Vec<u64> = self
            .fronts
            .iter()
            .map(|front| (front.rows.len() as u64).pow(2))
            .collect();
        for i in 0..self.fronts.len() {
            if let Some(parent) = self.fronts[i].parent {
                work[parent] += work[i];
            }
        }
        if let Some(root) = self.fronts.last_mut() {
            root.ranks = 0..n_ranks;
        }
        for i in (0..self.fronts.len()).rev() {
            let Range { start, end } = self.fronts[i].ranks;
            let children = self.fronts[i].children.clone();
            let [left, right] = children[..] else {
                children
                    .iter()
                    .for_each(|child| self.fronts[*child].ranks = start..end);
                continue;
            };
            let n = u64::from(end - start);
            let ours = (n * work[left] / (work[left] + work[right])).clamp(1, n.max(2) - 1);
            let cut = start + u32::try_from(ours).expect("at most the ranks");
            let (first, second) = if n == 1 {
                (start..end, start..end)
            } else {
                (start..cut, cut..end)
            };
            self.fronts[left].ranks = first;
            self.fronts[right].ranks = second;
        }
    }
}

struct Builder<'a> {
    graph: &'a Graph,
    /// The first search in the last set that a vertex belonged to, and the last search that has
    /// reached it.
    set_of: Vec<usize>,
    reached_in: Vec<usize>,
    n_searches: usize,
    /// The position of a vertex in the order of elimination, from 1; 0 if it is not known yet.
    position: Vec<u32>,
    n_eliminated: u32,
    fronts: Vec<Front>,
}

impl Builder<'_> {
    /// Makes the fronts of `vertices`, and returns the last one.
    fn dissect(&mut self, vertices: Vec<u32>) -> usize {
        let parts = if vertices.len() > LEAF {
            self.cut(&vertices)
        } else {
            None
        };
        let (pivots, children) = match parts {
            None => (vertices, Vec::new()),
            Some([left, cut, right]) => (cut, vec![self.dissect(left), self.dissect(right)]),
        };
        self.eliminate(pivots, children)
    }

    /// Two unconnected sets, and between them their separator. `None` if the search has too few
    /// levels.
    fn cut(&mut self, vertices: &[u32]) -> Option<[Vec<u32>; 3]> {
        let set = self.n_searches + 1;
        vertices
            .iter()
            .for_each(|vertex| self.set_of[*vertex as usize] = set);
        // Start at one of the last vertices of a first search, which is far from the centre.
        let outer = self.levels(vertices[0], set).pop()?;
        let levels = self.levels(*outer.first()?, set);
        let n_reached: usize = levels.iter().map(Vec::len).sum();
        if n_reached < vertices.len() {
            return Some(self.share_out(levels.concat(), vertices, set));
        }
        if levels.len() < 3 {
            return None;
        }
        let mut n_before = 0;
        let middle = levels.iter().position(|level| {
            n_before += level.len();
            2 * n_before >= vertices.len()
        })?;
        let middle = middle.clamp(1, levels.len() - 2);
        Some([
            levels[..middle].concat(),
            levels[middle].clone(),
            levels[middle + 1..].concat(),
        ])
    }

    /// The `vertices` in two parts without a separator: `left`, which the last search has reached,
    /// and what else is unconnected, until that is half of them. So many parts do not make a deep
    /// tree.
    fn share_out(&mut self, mut left: Vec<u32>, vertices: &[u32], set: usize) -> [Vec<u32>; 3] {
        let first = self.n_searches;
        for &vertex in vertices {
            if 2 * left.len() >= vertices.len() {
                break;
            }
            if self.reached_in[vertex as usize] < first {
                let more = self.levels(vertex, set).concat();
                if left.len() + more.len() == vertices.len() {
                    return [left, Vec::new(), more];
                }
                left.extend(more);
            }
        }
        let is_left_over = |vertex: &&u32| self.reached_in[**vertex as usize] < first;
        let rest = vertices.iter().filter(is_left_over).copied().collect();
        [left, Vec::new(), rest]
    }

    /// The vertices of `set` that can be reached from `start`, by distance.
    fn levels(&mut self, start: u32, set: usize) -> Vec<Vec<u32>> {
        self.n_searches += 1;
        self.reached_in[start as usize] = self.n_searches;
        let mut levels = vec![vec![start]];
        while let Some(last) = levels.last() {
            let mut next = Vec::new();
            for &vertex in last
                .iter()
                .flat_map(|vertex| self.graph.neighbours(*vertex))
            {
                let reached_in = &mut self.reached_in[vertex as usize];
                if self.set_of[vertex as usize] == set && *reached_in != self.n_searches {
                    *reached_in = self.n_searches;
                    next.push(vertex);
                }
            }
            if next.is_empty() {
                break;
            }
            levels.push(next);
        }
        levels
    }

    /// Adds the front of `pivots`, after its `children`.
    fn eliminate(&mut self, pivots: Vec<u32>, children: Vec<usize>) -> usize {
        for pivot in &pivots {
            self.n_eliminated += 1;
            self.position[*pivot as usize] = self.n_eliminated;
        }
        // The vertices that are not eliminated yet: neighbours of the pivots, and the children's
        // borders. They are sorted later.
        let of_children = children.iter().flat_map(|child| {
            let child = &self.fronts[*child];
            &child.rows[child.n_pivots..]
        });
        let touched = pivots
            .iter()
            .flat_map(|pivot| self.graph.neighbours(*pivot));
        let is_later = |vertex: &&u32| self.position[**vertex as usize] == 0;
        let mut border: Vec<u32> = of_children
            .chain(touched)
            .filter(is_later)
            .copied()
            .collect();
        border.sort_unstable();
        border.dedup();
        let height = children
            .iter()
            .map(|child| self.fronts[*child].height + 1)
            .max();
        let index = self.fronts.len();
        let n_pivots = pivots.len();
        let rows = [pivots, border].concat();
        for child in &children {
            let child = &mut self.fronts[*child];
            let place = |vertex: &u32| {
                let place = rows.iter().position(|row| row == vertex);
                let place = place.expect("a child touches nothing that its parent does not have");
                u32::try_from(place).expect("a front has fewer rows than the matrix")
            };
            child.parent = Some(index);
            child.in_parent = child.rows[child.n_pivots..].iter().map(place).collect();
        }
        self.fronts.push(Front {
            rows,
            n_pivots,
            parent: None,
            in_parent: Vec::new(),
            height: height.unwrap_or(0),
            ranks: 0..1,
            children,
        });
        index
    }
}
