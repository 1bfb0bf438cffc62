//! The eight kernels of CircusTent, each with fetch-and-add and with compare-and-swap. Node `p`
//! works on the arrays of node `p + 1`, in PTRCHASE on those of random nodes.

use std::fmt::Write as _;

use fastrand::Rng;

use super::{DATA, Words, Workload};

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "CircusTent's names; `steps` has what they do")]
pub enum Kernel {
    Rand,
    Stride1,
    StrideN,
    PtrChase,
    Central,
    Sg,
    Scatter,
    Gather,
}

/// All kernels.
pub const KERNELS: [Kernel; 8] = [
    Kernel::Rand,
    Kernel::Stride1,
    Kernel::StrideN,
    Kernel::PtrChase,
    Kernel::Central,
    Kernel::Sg,
    Kernel::Scatter,
    Kernel::Gather,
];

/// Which operation a kernel makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Atomic {
    /// Fetch-and-add.
    Add,
    /// Compare-and-swap, which expects 0.
    Cas,
}

/// How large a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Nodes.
    pub n_nodes: usize,
    /// Rounds of a node.
    pub n_iterations: usize,
    /// Words of each node's ARRAY, rounded up to a power of two; places beyond its end are taken
    /// modulo that.
    pub n_words: usize,
    /// What indices come from.
    pub seed: u64,
}

impl Shape {
    /// Words of ARRAY.
    const fn words(&self) -> usize {
        self.n_words.next_power_of_two()
    }
}

/// Words between those that STRIDEN works on.
const STRIDE: usize = 9;

#[derive(Clone, Copy)]
enum Array {
    Index,
    Data,
}

#[derive(Clone, Copy)]
enum Place {
    Round,
    NextRound,
    Strided,
    First,
    /// What a step before had as its result.
    Result(usize),
}

#[derive(Clone, Copy)]
enum Value {
    Number(u64),
    Result(usize),
}

/// One operation of a round; its result is number `into`.
#[derive(Clone, Copy)]
struct Step {
    array: Array,
    place: Place,
    value: Value,
    /// A plain remote load.
    is_get: bool,
    into: usize,
}

const fn step(array: Array, place: Place, value: Value, into: usize) -> Step {
    Step {
        array,
        place,
        value,
        is_get: false,
        into,
    }
}

impl Kernel {
    /// What it is called in the paper.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rand => "RAND",
            Self::Stride1 => "STRIDE1",
            Self::StrideN => "STRIDEN",
            Self::PtrChase => "PTRCHASE",
            Self::Central => "CENTRAL",
            Self::Sg => "SG",
            Self::Scatter => "SCATTER",
            Self::Gather => "GATHER",
        }
    }

    /// Whether its addresses have an order that a cache can use.
    #[must_use]
    pub const fn is_regular(self) -> bool {
        matches!(self, Self::Stride1 | Self::StrideN | Self::Central)
    }

    const fn steps(self) -> &'static [Step] {
        use Array::{Data, Index};
        use Place::{First, NextRound, Result, Round, Strided};
        use Value::Number;
        match self {
            Self::Rand => {
                const GET: Step = Step {
                    array: Index,
                    place: Round,
                    value: Number(0),
                    is_get: true,
                    into: 0,
                };
                const { &[GET, step(Data, Result(0), Number(1), 1)] }
            }
            Self::Stride1 => const { &[step(Data, Round, Number(0xf), 0)] },
            Self::StrideN => const { &[step(Data, Strided, Number(0xf), 0)] },
            Self::PtrChase => const { &[step(Index, Result(0), Number(0), 0)] },
            Self::Central => const { &[step(Data, First, Number(1), 0)] },
            Self::Sg => {
                const {
                    &[
                        step(Index, Round, Number(0), 0),
                        step(Index, NextRound, Number(0), 1),
                        step(Data, Result(0), Number(1), 2),
                        step(Data, Result(1), Value::Result(2), 2),
                    ]
                }
            }
            Self::Scatter => {
                const {
                    &[
                        step(Index, NextRound, Number(0), 0),
                        step(Data, Round, Number(1), 1),
                        step(Data, Result(0), Value::Result(1), 1),
                    ]
                }
            }
            Self::Gather => {
                const {
                    &[
                        step(Index, NextRound, Number(0), 0),
                        step(Data, Result(0), Number(1), 1),
                        step(Data, Round, Value::Result(1), 1),
                    ]
                }
            }
        }
    }

    /// Operations of a round.
    #[must_use]
    pub const fn n_steps(self) -> usize {
        self.steps().len()
    }
}

/// What a round works with: both arrays of each node, and where they lie.
struct Data {
    index: Vec<Vec<u64>>,
    array: Vec<Vec<u64>>,
    targets: Vec<Vec<u64>>,
}

/// Registers of results.
const RESULTS: [&str; 3] = ["s8", "s9", "s10"];

/// The workload of a kernel.
#[must_use]
pub fn workload(kernel: Kernel, atomic: Atomic, shape: &Shape) -> Workload {
    let data = data(kernel, shape);
    let index = DATA;
    let targets = index + 8 * (shape.n_iterations as u64 + 1);
    let array = (targets + 8 * shape.n_iterations as u64).next_multiple_of(64);
    let mut after = data.arrays(index, array);
    let mut before = after.clone();
    for (node, words) in data.targets.iter().enumerate() {
        let words = words.clone();
        before.push(Words {
            node,
            address: targets,
            words,
        });
    }
    let (sequential, _) = run(kernel, atomic, shape, data);
    after.clone_from(&sequential.arrays(index, array));
    let name = match atomic {
        Atomic::Add => "add",
        Atomic::Cas => "cas",
    };
    Workload {
        name: format!("{} {name}", kernel.name()),
        kernel: source(kernel, atomic, shape),
        n_nodes: shape.n_nodes,
        params: vec![vec![shape.n_iterations as u64, index, array, targets]; shape.n_nodes],
        before,
        after,
        outcome: 0,
    }
}

/// Which words of ARRAY node `initiator`'s rounds go to, in their order: the sequence of figure 9.
#[must_use]
pub fn sequence(kernel: Kernel, atomic: Atomic, shape: &Shape, initiator: usize) -> Vec<u64> {
    let (_, mut visited) = run(kernel, atomic, shape, data(kernel, shape));
    visited.swap_remove(initiator)
}

impl Data {
    fn arrays(&self, index: u64, array: u64) -> Vec<Words> {
        let both = [(index, &self.index), (array, &self.array)];
        let words = both.into_iter().flat_map(|(address, all)| {
            all.iter().enumerate().map(move |(node, words)| Words {
                node,
                address,
                words: words.clone(),
            })
        });
        words.collect()
    }
}

fn data(kernel: Kernel, shape: &Shape) -> Data {
    let mut random = Rng::with_seed(shape.seed);
    // Indices are words of ARRAY; those that PTRCHASE follows, words of IDX.
    let bound = match kernel {
        Kernel::PtrChase => shape.n_iterations.max(1) as u64,
        _ => shape.words() as u64,
    };
    let mut words = |n: usize, bound: u64| -> Vec<Vec<u64>> {
        let node = |_| (0..n).map(|_| random.u64(..bound)).collect();
        (0..shape.n_nodes).map(node).collect()
    };
    let index = words(shape.n_iterations + 1, bound);
    let array = words(shape.words(), 3);
    let mut targets = words(shape.n_iterations, shape.n_nodes as u64);
    targets.iter_mut().flatten().for_each(|it| *it += 1);
    Data {
        index,
        array,
        targets,
    }
}

/// A sequential run: node after node. Gives the arrays, and the words of ARRAY that each node went
/// to.
fn run(kernel: Kernel, atomic: Atomic, shape: &Shape, mut data: Data) -> (Data, Vec<Vec<u64>>) {
    let mut visited = vec![Vec::new(); shape.n_nodes];
    for (node, visited) in visited.iter_mut().enumerate() {
        let mut results = [0_u64; 3];
        for round in 0..shape.n_iterations {
            let target = match kernel {
                Kernel::PtrChase => word_number(data.targets[node][round]) - 1,
                _ => (node + 1) % shape.n_nodes,
            };
            for step in kernel.steps() {
                let place = match step.place {
                    Place::Round => round,
                    Place::NextRound => round + 1,
                    Place::Strided => round * STRIDE,
                    Place::First => 0,
                    Place::Result(k) => word_number(results[k]),
                };
                let (array, n) = match step.array {
                    Array::Index => (&mut data.index[target], shape.n_iterations + 1),
                    Array::Data => (&mut data.array[target], shape.words()),
                };
                let place = place % n;
                if matches!(step.array, Array::Data) {
                    visited.push(place as u64);
                }
                let word = &mut array[place];
                let value = match step.value {
                    Value::Number(number) => number,
                    Value::Result(k) => results[k],
                };
                let old = *word;
                match (step.is_get, atomic) {
                    (true, _) => {}
                    (false, Atomic::Add) => *word = old.wrapping_add(value),
                    (false, Atomic::Cas) if old == 0 => *word = swapped(step.value, &results),
                    (false, Atomic::Cas) => {}
                }
                results[step.into] = old;
            }
        }
    }
    (data, visited)
}

/// An index that was in memory, and is below the number of words or nodes.
fn word_number(index: u64) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// What a compare-and-swap puts: what an earlier step gave, otherwise 0.
const fn swapped(value: Value, results: &[u64; 3]) -> u64 {
    match value {
        Value::Number(_) => 0,
        Value::Result(k) => results[k],
    }
}

/// The kernel's assembly. s2 rounds, s3 IDX, s4 ARRAY, s5 TARGET, s6 the target's object, s7 the
/// round.
fn source(kernel: Kernel, atomic: Atomic, shape: &Shape) -> String {
    let mut text = String::from(
        "kernel: la t0, kernel_return; sd ra, 0(t0)
         la t0, params
         ld s2, 0(t0); ld s3, 8(t0); ld s4, 16(t0); ld s5, 24(t0)
         addi s6, s0, 1; remu s6, s6, s1; addi s6, s6, 1
         li s7, 0; li s8, 0; li s9, 0; li s10, 0
         beqz s2, done
   loop:\n",
    );
    if kernel == Kernel::PtrChase {
        text += "slli t0, s7, 3; add t0, t0, s5; ld s6, 0(t0)\n";
    }
    for step in kernel.steps() {
        let base = match step.array {
            Array::Index => "s3",
            Array::Data => "s4",
        };
        let place = match step.place {
            Place::Round => "mv t0, s7".to_owned(),
            Place::NextRound => "addi t0, s7, 1".to_owned(),
            Place::Strided => format!("li t1, {STRIDE}; mul t0, s7, t1"),
            Place::First => "li t0, 0".to_owned(),
            Place::Result(k) => format!("mv t0, {}", RESULTS[k]),
        };
        let _ = writeln!(text, "{place}");
        if matches!(step.array, Array::Data) && !matches!(step.place, Place::First) {
            let _ = writeln!(text, "li t1, {}; and t0, t0, t1", shape.words() - 1);
        }
        let _ = writeln!(text, "slli t0, t0, 3; add a0, t0, {base}; mv a3, s6");
        let value = match step.value {
            Value::Number(number) => format!("li a1, {number}"),
            Value::Result(k) => format!("mv a1, {}", RESULTS[k]),
        };
        let operation = match (step.is_get, atomic, step.value) {
            (true, ..) => "\namo.get".to_owned(),
            (false, Atomic::Add, _) => format!("{value}\namo.add"),
            (false, Atomic::Cas, Value::Number(_)) => "li a1, 0; li a2, 0\namo.cas".to_owned(),
            (false, Atomic::Cas, Value::Result(k)) => {
                format!("li a1, 0; mv a2, {}\namo.cas", RESULTS[k])
            }
        };
        let _ = writeln!(text, "{operation}\nmv {}, a0", RESULTS[step.into]);
    }
    text += "addi s7, s7, 1; bltu s7, s2, loop\ndone: la t0, kernel_return; ld ra, 0(t0); ret\n";
    text
}
