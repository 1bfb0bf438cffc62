//! What MPI alone takes to move the bytes: messages there and back, and exchanges of all with all.

use mpi::collective::CommunicatorCollectives as _;
use mpi::datatype::{Partition, PartitionMut};
use mpi::point_to_point::{Destination as _, Source as _, send_receive_into};
use mpi::request::multiple_scope;
use mpi::topology::{Communicator as _, SimpleCommunicator};

use crate::parcels::begins;
pub(crate) use crate::raw::RawWindow as Window;

/// The two ranks, as MPI knows them.
pub(crate) struct Comm(pub(crate) SimpleCommunicator);

impl Comm {
    pub(crate) fn barrier(&self) {
        self.0.barrier();
    }

    /// Makes a window of this many words on each rank. Collective.
    pub(crate) fn window(&self, n_words: usize) -> Window {
        Window::new(&self.0, n_words)
    }

    /// Gives each rank its words, one rank's behind another's, by `MPI_Alltoall` of the counts and
    /// `MPI_Alltoallv` of the words; returns what has come, likewise.
    pub(crate) fn exchange(&self, words: &[u64], counts: &[usize]) -> (Vec<u64>, Vec<usize>) {
        let there: Vec<i32> = counts.iter().copied().map(c_int).collect();
        let mut here = vec![0; there.len()];
        self.0.all_to_all_into(&there[..], &mut here[..]);
        let n_here: Vec<usize> = here.iter().copied().map(index).collect();
        let mut come = vec![0_u64; n_here.iter().sum()];
        let places =
            |counts: &[usize]| -> Vec<i32> { begins(counts).into_iter().map(c_int).collect() };
        let from = Partition::new(words, &there[..], places(counts));
        let mut to = PartitionMut::new(&mut come[..], &here[..], places(&n_here));
        self.0.all_to_all_varcount_into(&from, &mut to);
        (come, n_here)
    }

    /// Sends this many requests to the other rank, one after the other, and answers as many of its
    /// requests.
    pub(crate) fn requests<const ASK: usize, const ANSWER: usize>(&self, n_times: usize) {
        let other = self.0.process_at_rank(1 - self.0.rank());
        let (mut request, mut answer) = ([0_u64; ASK], [0_u64; ANSWER]);
        for _ in 0..n_times {
            send_receive_into(&[1_u64; ASK][..], &other, &mut request[..], &other);
            send_receive_into(&[1_u64; ANSWER][..], &other, &mut answer[..], &other);
        }
    }

    /// Sends this many messages to the other rank, 64 at a time, while it sends as many.
    pub(crate) fn messages<const N: usize>(&self, n_times: usize) {
        const AT_ONCE: usize = 64;
        let other = self.0.process_at_rank(1 - self.0.rank());
        let (sent, mut come) = ([1_u64; N], [[0_u64; N]; AT_ONCE]);
        let mut left = n_times;
        while left > 0 {
            let n = left.min(AT_ONCE);
            multiple_scope(2 * n, |scope, requests| {
                for place in &mut come[..n] {
                    requests.add(other.immediate_receive_into(scope, &mut place[..]));
                }
                for _ in 0..n {
                    requests.add(other.immediate_send(scope, &sent[..]));
                }
                requests.wait_all(&mut Vec::with_capacity(2 * n));
            });
            left -= n;
        }
    }
}

fn c_int(n: usize) -> i32 {
    i32::try_from(n).expect("less than 2^31 words")
}

fn index(n: i32) -> usize {
    usize::try_from(n).expect("a count")
}
