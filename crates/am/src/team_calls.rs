//! Calls of a team's members, and messages to them, by their numbers in the team.

use std::borrow::Borrow;

use pgas_core::backend::Sent;
use pgas_core::{Pod, Result, Team};

use crate::codec::Wire;
use crate::function::Returns;
use crate::future::{Completes, PgasFuture};
use crate::message::{ActiveMessages, Prepared, RequestHandler};
use crate::rpc::{RemoteCalls, call_each};

/// Remote calls and active messages to members of a team, which are named by their numbers in it;
/// in the prelude. As in UPC++, where calls take a team and a number.
///
/// A long request goes to a pointer, which names its rank, so it has no form here:
/// [`ActiveMessages::request_long`]. [`quiet`](crate::quiet) is of the world, also for calls by
/// team.
///
/// # Examples
///
/// ```
/// use pgas_am::TeamCalls;
///
/// # for result in pgas_core::backend::loopback::run(3, |world| {
/// #   pgas_am::attach(&world)?;
///     let team = world.team().reorder(world.n_ranks() - world.rank().number())?;
///     let square = |x: u64| x * x;
///     assert_eq!(team.rpc(0, square, 7)?.wait()?, 49); // by the last rank, which is member 0
///     assert_eq!(team.rpc_view(1, |n, xs: &[u64]| n * xs[1], 2, &[3, 4])?.wait()?, 8);
///     let both = |(), xs: &[u64], ys: &[u8]| xs[0] + u64::from(ys[0]);
///     assert_eq!(team.rpc_views(1, both, (), (&[3], &[4]))?.wait()?, 7);
///     team.barrier()?;
/// # Ok::<(), pgas_core::Error>(())
/// # }) { result?; }
/// # Ok::<(), pgas_core::Error>(())
/// ```
///
/// One-way calls, and calls of all members:
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use pgas_am::{TeamCalls, quiet};
/// use pgas_core::backend::Sent;
///
/// static SUM: AtomicU64 = AtomicU64::new(0);
/// let add = |n: u64| drop(SUM.fetch_add(n, Ordering::Relaxed));
/// let add_all = |factor: u64, xs: &[u64]| {
///     SUM.fetch_add(factor * xs.iter().sum::<u64>(), Ordering::Relaxed);
/// };
/// let add_both = |factor: u64, xs: &[u64], ys: &[u64]| {
///     SUM.fetch_add(factor * (xs[0] + ys[0]), Ordering::Relaxed);
/// };
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let team = world.team();
/// team.rpc_ff(0, add, 1)?;
/// team.rpc_ff_view(0, add_all, 10, &[1, 1])?;
/// team.rpc_ff_views(0, add_both, 100_000, (&[1], &[2]))?;
/// while team.try_rpc_ff(0, add, &100)? == Sent::BackPressure {
///     world.progress()?; // until there is room
/// }
/// while team.try_rpc_ff_view(0, add_all, &1000, &[1, 1])? == Sent::BackPressure {
///     world.progress()?;
/// }
/// while team.try_rpc_ff_views(0, add_both, &1_000_000, (&[1], &[2]))? == Sent::BackPressure {
///     world.progress()?;
/// }
/// let cell = world.alloc::<u64>(1)?;
/// team.rpc_ff_after(cell.put_nb(&world, 5), 0, add, 10_000).wait()?;
/// let after = team.rpc_after(cell.put_nb(&world, 6), 0, |n: u64| n + 1, 6);
/// assert_eq!(after.wait()?, 7);
/// quiet(&world)?; // collective: all calls have run
/// assert_eq!(SUM.load(Ordering::Relaxed), 3_312_121);
/// assert_eq!(team.rpc_all(|n: u64| n + 1, &1)?.wait()?, [2]); // of the one member
/// # Ok::<(), pgas_am::Error>(())
/// ```
///
/// Active messages:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use pgas_am::{ActiveMessages as _, Payload, RequestHandler, TeamCalls as _, Token, quiet};
/// use pgas_core::backend::Sent;
///
/// struct Count(Arc<AtomicUsize>);
/// impl RequestHandler for Count {
///     type Args = usize;
///     fn handle(&self, _: Token<'_>, n: usize, payload: Payload<'_>) -> pgas_am::Result<()> {
///         let n_bytes = if let Payload::Medium(bytes) = payload { bytes.len() } else { 0 };
///         self.0.fetch_add(n + n_bytes, Ordering::Relaxed);
///         Ok(())
///     }
/// }
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let n = Arc::new(AtomicUsize::new(0));
/// world.register(Count(n.clone()))?;
/// world.barrier()?;
/// let team = world.team();
/// team.request::<Count>(0, &1)?;
/// team.request_medium::<Count>(0, &10, b"ab")?;
/// while team.try_request::<Count>(0, &100)? == Sent::BackPressure {
///     world.progress()?; // until there is room
/// }
/// while team.try_request_medium::<Count>(0, &1000, b"abc")? == Sent::BackPressure {
///     world.progress()?;
/// }
/// let mut buffer = team.prepare(0, 20)?; // of the network, if it has one
/// buffer[..4].copy_from_slice(b"abcd");
/// buffer.commit::<Count>(&10_000, 4)?;
/// if let Some(buffer) = team.try_prepare(0, 20)? {
///     drop(buffer); // sends nothing
/// }
/// quiet(&world)?;
/// assert_eq!(n.load(Ordering::Relaxed), 11_111 + 9);
/// assert!(team.max_medium::<Count>(0, &1)? >= 20 && team.n_request_credits(0) > 0);
/// assert_eq!(team.max_long(0), world.segment_bytes());
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub trait TeamCalls: Borrow<Team> {
    /// As [`RemoteCalls::rpc`], to a member.
    ///
    /// # Cost
    ///
    /// M: two messages.
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::rpc`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn rpc<A: Wire, R: Returns>(
        &self,
        member: u32,
        function: fn(A) -> R,
        args: A,
    ) -> Result<PgasFuture<R::Value>> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().rpc(to, function, args)
    }

    /// As [`RemoteCalls::rpc_view`], to a member.
    ///
    /// # Cost
    ///
    /// M: two messages.
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::rpc_view`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn rpc_view<A: Wire, T: Pod, R: Returns>(
        &self,
        member: u32,
        function: fn(A, &[T]) -> R,
        args: A,
        view: &[T],
    ) -> Result<PgasFuture<R::Value>> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().rpc_view(to, function, args, view)
    }

    /// As [`RemoteCalls::rpc_views`], to a member.
    ///
    /// # Cost
    ///
    /// M: two messages.
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::rpc_views`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn rpc_views<A: Wire, T: Pod, U: Pod, R: Returns>(
        &self,
        member: u32,
        function: fn(A, &[T], &[U]) -> R,
        args: A,
        views: (&[T], &[U]),
    ) -> Result<PgasFuture<R::Value>> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().rpc_views(to, function, args, views)
    }

    /// As [`RemoteCalls::rpc_ff`], to a member.
    ///
    /// # Cost
    ///
    /// One message. Complete locally on return.
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::rpc_ff`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn rpc_ff<A: Wire>(&self, member: u32, function: fn(A), args: A) -> Result<()> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().rpc_ff(to, function, args)
    }

    /// As [`RemoteCalls::try_rpc_ff`], to a member.
    ///
    /// # Cost
    ///
    /// As [`rpc_ff`](Self::rpc_ff).
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::try_rpc_ff`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn try_rpc_ff<A: Wire>(&self, member: u32, function: fn(A), args: &A) -> Result<Sent> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().try_rpc_ff(to, function, args)
    }

    /// As [`RemoteCalls::rpc_ff_view`], to a member.
    ///
    /// # Cost
    ///
    /// As [`rpc_ff`](Self::rpc_ff).
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::rpc_ff_view`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn rpc_ff_view<A: Wire, T: Pod>(
        &self,
        member: u32,
        function: fn(A, &[T]),
        args: A,
        view: &[T],
    ) -> Result<()> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().rpc_ff_view(to, function, args, view)
    }

    /// As [`RemoteCalls::rpc_ff_views`], to a member.
    ///
    /// # Cost
    ///
    /// As [`rpc_ff`](Self::rpc_ff).
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::rpc_ff_views`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn rpc_ff_views<A: Wire, T: Pod, U: Pod>(
        &self,
        member: u32,
        function: fn(A, &[T], &[U]),
        args: A,
        views: (&[T], &[U]),
    ) -> Result<()> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().rpc_ff_views(to, function, args, views)
    }

    /// As [`RemoteCalls::try_rpc_ff_view`], to a member.
    ///
    /// # Cost
    ///
    /// As [`rpc_ff`](Self::rpc_ff).
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::try_rpc_ff_view`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn try_rpc_ff_view<A: Wire, T: Pod>(
        &self,
        member: u32,
        function: fn(A, &[T]),
        args: &A,
        view: &[T],
    ) -> Result<Sent> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().try_rpc_ff_view(to, function, args, view)
    }

    /// As [`RemoteCalls::try_rpc_ff_views`], to a member.
    ///
    /// # Cost
    ///
    /// As [`rpc_ff`](Self::rpc_ff).
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::try_rpc_ff_views`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn try_rpc_ff_views<A: Wire, T: Pod, U: Pod>(
        &self,
        member: u32,
        function: fn(A, &[T], &[U]),
        args: &A,
        views: (&[T], &[U]),
    ) -> Result<Sent> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().try_rpc_ff_views(to, function, args, views)
    }

    /// As [`RemoteCalls::rpc_after`], to a member.
    ///
    /// # Cost
    ///
    /// M: two messages. Two or four allocations if the operation is not complete.
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn rpc_after<A: Wire + Send + 'static, R: Returns + 'static>(
        &self,
        operation: impl Completes,
        member: u32,
        function: fn(A) -> R,
        args: A,
    ) -> PgasFuture<R::Value> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().rpc_after(operation, to, function, args)
    }

    /// As [`RemoteCalls::rpc_ff_after`], to a member.
    ///
    /// # Cost
    ///
    /// One message. Two allocations if the operation is not complete.
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn rpc_ff_after<A: Wire + Send + 'static>(
        &self,
        operation: impl Completes,
        member: u32,
        function: fn(A),
        args: A,
    ) -> PgasFuture<()> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().rpc_ff_after(operation, to, function, args)
    }

    /// As [`ActiveMessages::request`], to a member.
    ///
    /// # Cost
    ///
    /// One message. Complete locally on return.
    ///
    /// # Errors
    ///
    /// As [`ActiveMessages::request`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn request<H: RequestHandler>(&self, member: u32, args: &H::Args) -> Result<()> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().request::<H>(to, args)
    }

    /// As [`ActiveMessages::try_request`], to a member.
    ///
    /// # Cost
    ///
    /// As [`request`](Self::request).
    ///
    /// # Errors
    ///
    /// As [`ActiveMessages::try_request`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn try_request<H: RequestHandler>(&self, member: u32, args: &H::Args) -> Result<Sent> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().try_request::<H>(to, args)
    }

    /// As [`ActiveMessages::request_medium`], to a member.
    ///
    /// # Cost
    ///
    /// One message, a copy of the payload at both ends.
    ///
    /// # Errors
    ///
    /// As [`ActiveMessages::request_medium`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn request_medium<H: RequestHandler>(
        &self,
        member: u32,
        args: &H::Args,
        payload: &[u8],
    ) -> Result<()> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().request_medium::<H>(to, args, payload)
    }

    /// As [`ActiveMessages::try_request_medium`], to a member.
    ///
    /// # Cost
    ///
    /// As [`request_medium`](Self::request_medium).
    ///
    /// # Errors
    ///
    /// As [`ActiveMessages::try_request_medium`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn try_request_medium<H: RequestHandler>(
        &self,
        member: u32,
        args: &H::Args,
        payload: &[u8],
    ) -> Result<Sent> {
        let team: &Team = self.borrow();
        let to = team.world_rank(member);
        team.world().try_request_medium::<H>(to, args, payload)
    }

    /// As [`ActiveMessages::n_request_credits`], of a member.
    ///
    /// # Cost
    ///
    /// As [`ActiveMessages::n_request_credits`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn n_request_credits(&self, member: u32) -> u64 {
        let team: &Team = self.borrow();
        team.world().n_request_credits(team.world_rank(member))
    }

    /// As [`ActiveMessages::prepare`], for a member.
    ///
    /// # Cost
    ///
    /// As [`ActiveMessages::prepare`].
    ///
    /// # Errors
    ///
    /// As [`ActiveMessages::prepare`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn prepare(&self, member: u32, len: usize) -> Result<Prepared<'_>> {
        let team: &Team = self.borrow();
        team.world().prepare(team.world_rank(member), len)
    }

    /// As [`ActiveMessages::try_prepare`], for a member.
    ///
    /// # Cost
    ///
    /// As [`ActiveMessages::prepare`].
    ///
    /// # Errors
    ///
    /// As [`ActiveMessages::try_prepare`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn try_prepare(&self, member: u32, len: usize) -> Result<Option<Prepared<'_>>> {
        let team: &Team = self.borrow();
        team.world().try_prepare(team.world_rank(member), len)
    }

    /// As [`ActiveMessages::max_medium`], to a member.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Errors
    ///
    /// As [`ActiveMessages::max_medium`].
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn max_medium<H: RequestHandler>(&self, member: u32, args: &H::Args) -> Result<usize> {
        let team: &Team = self.borrow();
        team.world().max_medium::<H>(team.world_rank(member), args)
    }

    /// As [`ActiveMessages::max_long`], to a member.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Panics
    ///
    /// If the team has no member `member`.
    #[track_caller]
    fn max_long(&self, member: u32) -> u64 {
        let team: &Team = self.borrow();
        team.world().max_long(team.world_rank(member))
    }

    /// As [`RemoteCalls::rpc_all`], to every member.
    ///
    /// # Cost
    ///
    /// An M for each member: two messages.
    ///
    /// # Errors
    ///
    /// As [`RemoteCalls::rpc`].
    #[track_caller]
    fn rpc_all<A: Wire, R: Returns>(
        &self,
        function: fn(A) -> R,
        args: &A,
    ) -> Result<PgasFuture<Vec<R::Value>>> {
        let team: &Team = self.borrow();
        call_each(team.world(), team.ranks(), function, args)
    }
}

// The methods above have the team by its `Borrow` of itself.
impl TeamCalls for Team {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a team of 1 has no member 1")]
    fn a_call_of_a_member_that_the_team_does_not_have_panics() {
        let world = pgas_core::backend::loopback::world();
        crate::attach(&world).unwrap();
        drop(world.team().rpc(1, |x: u64| x, 7));
    }
}
