//! What MPI alone takes to move the bytes: messages there and back, and an exchange of all with
//! all.

use mpi::collective::CommunicatorCollectives as _;
use mpi::datatype::{Partition, PartitionMut};
use mpi::point_to_point::send_receive_into;
use mpi::topology::{Communicator as _, SimpleCommunicator};

/// Words for each rank, one rank's behind another's.
pub(crate) struct Parcels {
    words: Vec<u64>,
    counts: Vec<i32>,
}

impl Parcels {
    /// Packs `each` of the items, some words, for the rank that `to` names: as many passes as it
    /// takes to know where each rank's words begin.
    pub(crate) fn pack<const N: usize>(
        n_ranks: usize,
        each: &[[u64; N]],
        to: impl Fn(&[u64; N]) -> usize,
    ) -> Self {
        let mut counts = vec![0; n_ranks];
        for item in each {
            counts[to(item)] += N;
        }
        let mut ends = begins(&counts);
        let mut words = vec![0; each.len() * N];
        for item in each {
            let end = &mut ends[to(item)];
            words[*end..*end + N].copy_from_slice(item);
            *end += N;
        }
        let counts = counts.into_iter().map(c_int).collect();
        Self { words, counts }
    }

    /// So many words come back for each that went there, as far as the ranks agree.
    pub(crate) fn answers(&self, words_for: fn(usize) -> usize) -> Self {
        let counts = self.counts.iter().map(|n| words_for(index(*n)));
        let counts: Vec<usize> = counts.collect();
        Self {
            words: vec![1; counts.iter().sum()],
            counts: counts.into_iter().map(c_int).collect(),
        }
    }

    /// Gives all ranks theirs, by `MPI_Alltoall` of the counts and `MPI_Alltoallv` of the words.
    pub(crate) fn exchange(&self, comm: &SimpleCommunicator) -> Self {
        let mut counts = vec![0; self.counts.len()];
        comm.all_to_all_into(&self.counts[..], &mut counts[..]);
        let mut words = vec![0_u64; counts.iter().copied().map(index).sum()];
        let places = |counts: &[i32]| {
            let counts: Vec<usize> = counts.iter().copied().map(index).collect();
            begins(&counts).into_iter().map(c_int).collect::<Vec<_>>()
        };
        let from = Partition::new(&self.words[..], &self.counts[..], places(&self.counts));
        let to = places(&counts);
        let mut to = PartitionMut::new(&mut words[..], &counts[..], to);
        comm.all_to_all_varcount_into(&from, &mut to);
        Self { words, counts }
    }
}

/// Where the words of each rank begin.
fn begins(counts: &[usize]) -> Vec<usize> {
    let mut begin = 0;
    let place = |n: &usize| {
        let here = begin;
        begin += n;
        here
    };
    counts.iter().map(place).collect()
}

/// A request to the other rank while it makes one, and an answer to it, so many times.
pub(crate) fn requests<const ASK: usize, const ANSWER: usize>(
    comm: &SimpleCommunicator,
    n_times: usize,
) {
    let other = comm.process_at_rank(1 - comm.rank());
    let (mut request, mut answer) = ([0_u64; ASK], [0_u64; ANSWER]);
    for _ in 0..n_times {
        send_receive_into(&[1_u64; ASK][..], &other, &mut request[..], &other);
        send_receive_into(&[1_u64; ANSWER][..], &other, &mut answer[..], &other);
    }
}

fn c_int(n: usize) -> i32 {
    i32::try_from(n).expect("less than 2^31 words")
}

fn index(n: i32) -> usize {
    usize::try_from(n).expect("a count")
}
