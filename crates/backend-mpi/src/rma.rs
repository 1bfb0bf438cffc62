//! Puts and gets through the window.

use pgas_core::Result;
use pgas_core::backend::{Backend, Get, OpId, Operand, Put, Stage};

use crate::network::Network;
use crate::ops::{Flight, Plain};
use crate::staging::Staging;
use crate::sys::{self, Mpi};

/// Up to this length a non-blocking operation has no request of its own, so that a flood of them
/// costs no more than MPI's. Longer ones can be tested without a flush.
const SHORT: usize = 8 << 10;

impl Network {
    /// Begins a short put of a copy of its source.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for its callers")]
    fn put_staged(&self, put: &Put) -> Result<()> {
        let (rank, staging) = (put.rank().number(), &self.staging);
        let mut mpi = sys::enter()?;
        self.flush_other_staged(&mut mpi, rank)?;
        if !self.flushes.get(&mut mpi).has_staged() {
            staging.get(&mut mpi).clear();
        }
        let copy = match staging.get(&mut mpi).copy(put) {
            Some(copy) => copy,
            None => {
                self.unstage(&mut mpi)?;
                let staging = staging.get(&mut mpi);
                staging.clear();
                staging.copy(put).expect("room for a short put")
            }
        };
        sys::put(&mpi, &self.window, &copy)?;
        self.flushes.get(&mut mpi).stage(rank);
        Ok(())
    }

    /// Begins a put, which a flush completes locally and remotely. The caller records it as in
    /// flight.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a call more is felt beside MPI's own put"
    )]
    fn issue_put(&self, mpi: &mut Mpi, put: &Put) -> Result<()> {
        self.flush_other_staged(mpi, put.rank().number())?;
        sys::put(mpi, &self.window, put)
    }

    /// Begins a put without a flush before the next operation.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put alone")]
    pub(crate) fn begin_put_unflushed(&self, mpi: &mut Mpi, put: &Put) -> Result<Plain> {
        self.issue_put(mpi, put)?;
        let rank = put.rank().number();
        Ok(Plain {
            is_get: false,
            rank,
            n_flushes: self.flushes.get(mpi).begin_unsent(rank),
        })
    }

    /// Begins a get, which a local flush completes.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a call more is felt beside MPI's own get"
    )]
    fn issue_get(&self, mpi: &mut Mpi, get: &Get) -> Result<()> {
        self.flush_other_staged(mpi, get.rank().number())?;
        sys::get(mpi, &self.window, get)
    }

    /// Begins a get without a flush before the next operation.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a get alone")]
    pub(crate) fn begin_get_unflushed(&self, mpi: &mut Mpi, get: &Get) -> Result<Plain> {
        self.issue_get(mpi, get)?;
        let rank = get.rank().number();
        Ok(Plain {
            is_get: true,
            rank,
            n_flushes: self.flushes.get(mpi).begin_unflushed(rank),
        })
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a put that is a call of MPI and some tens of instructions notices each call in between"
    )]
    pub(crate) fn put_bytes(&self, put: &Put) -> Result<()> {
        if self.neighbours.is_direct() || self.is_oversubscribed {
            self.put_slow(put)
        } else if put.len() <= Staging::LONGEST {
            self.put_staged(put)
        } else {
            self.put_whole(put)
        }
    }

    /// Slow path: the target is on this host, or MPI must not block (oversubscribed).
    #[inline(never)]
    fn put_slow(&self, put: &Put) -> Result<()> {
        if let Some(local) = self.on_this_host(*put) {
            return self.member().put(local);
        }
        if self.is_oversubscribed {
            self.put_without_blocking(put)
        } else if put.len() <= Staging::LONGEST {
            self.put_staged(put)
        } else {
            self.put_whole(put)
        }
    }

    /// A put that waits for MPI to take its source.
    #[inline(never)]
    fn put_whole(&self, put: &Put) -> Result<()> {
        let mut mpi = sys::enter()?;
        self.issue_put(&mut mpi, put)?;
        self.flushes.get(&mut mpi).begin(put.rank().number());
        let flushed = self.flush_here(&mut mpi, put.rank().number());
        self.has_given_back(flushed)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put")]
    pub(crate) fn get_bytes(&self, get: &Get) -> Result<()> {
        if self.neighbours.is_direct() || self.is_oversubscribed {
            return self.get_slow(get);
        }
        self.get_whole(get)
    }

    /// Slow path: the target is on this host, or MPI must not block (oversubscribed).
    #[inline(never)]
    fn get_slow(&self, get: &Get) -> Result<()> {
        if let Some(local) = self.on_this_host(*get) {
            return self.member().get(local);
        }
        if self.is_oversubscribed {
            return self.get_without_blocking(get);
        }
        self.get_whole(get)
    }

    /// A get that waits for its bytes inside of MPI.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for a put")]
    fn get_whole(&self, get: &Get) -> Result<()> {
        let mut mpi = sys::enter()?;
        self.issue_get(&mut mpi, get)?;
        let flushed = self.flush_here(&mut mpi, get.rank().number());
        self.has_given_back(flushed)
    }

    #[cold]
    fn put_without_blocking(&self, put: &Put) -> Result<()> {
        let op = self.begin_put(put)?;
        self.wait_without_blocking(op, Stage::Source)
    }

    #[cold]
    fn get_without_blocking(&self, get: &Get) -> Result<()> {
        let op = self.begin_get(get)?;
        self.wait_without_blocking(op, Stage::Operation)
    }

    pub(crate) fn begin_put(&self, put: &Put) -> Result<OpId> {
        if let Some(local) = self.on_this_host(*put) {
            return self.member().put_nb(local);
        }
        if put.len() <= SHORT && !self.is_oversubscribed {
            let mut mpi = sys::enter()?;
            return Ok(self.begin_put_unflushed(&mut mpi, put)?.id());
        }
        self.request_put(put)
    }

    /// Begins a put with a request, if there may be one more of these.
    #[inline(never)]
    fn request_put(&self, put: &Put) -> Result<OpId> {
        let mut state = self.state();
        let mut mpi = sys::enter()?;
        let rank = put.rank().number();
        self.flush_other_staged(&mut mpi, rank)?;
        let Some(index) = state.ops.reserve_for_transfer() else {
            return Ok(self.begin_put_unflushed(&mut mpi, put)?.id());
        };
        match sys::rput(&mpi, &self.window, put) {
            Ok(request) => {
                let n_flushes = self.flushes.get(&mut mpi).begin(rank);
                let flight = Flight::Put {
                    request,
                    rank,
                    n_flushes,
                    behind: None,
                };
                Ok(state.ops.begin(index, flight))
            }
            Err(error) => {
                state.ops.release(index);
                Err(error)
            }
        }
    }

    pub(crate) fn begin_get(&self, get: &Get) -> Result<OpId> {
        if let Some(local) = self.on_this_host(*get) {
            return self.member().get_nb(local);
        }
        if get.len() <= SHORT && !self.is_oversubscribed {
            let mut mpi = sys::enter()?;
            return Ok(self.begin_get_unflushed(&mut mpi, get)?.id());
        }
        self.request_get(get)
    }

    /// Begins a get with a request, if there may be one more of these.
    #[inline(never)]
    fn request_get(&self, get: &Get) -> Result<OpId> {
        let mut state = self.state();
        let mut mpi = sys::enter()?;
        self.flush_other_staged(&mut mpi, get.rank().number())?;
        let Some(index) = state.ops.reserve_for_transfer() else {
            return Ok(self.begin_get_unflushed(&mut mpi, get)?.id());
        };
        match sys::rget(&mpi, &self.window, get) {
            Ok(request) => Ok(state.ops.begin(index, Flight::Get { request })),
            Err(error) => {
                state.ops.release(index);
                Err(error)
            }
        }
    }
}
