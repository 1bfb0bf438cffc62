//! Collectives over values of any [`Wire`] type, of any length: text, lists, types of the program.
//!
//! Collectives of numbers and other byte-copyable types are methods of [`World`] and [`Team`]
//! themselves, and are faster. UPC++ has such collectives of any serializable type as `broadcast`
//! and `reduce_one_nontrivial`.

use pgas_core::collective::{Encoding, ReduceOp};
use pgas_core::{AsTeam, Event, Member as _, Result};

use crate::codec::{Decoder, Encoder, Wire};

/// Collectives over values of any [`Wire`] type, on all ranks or a team; in the prelude.
///
/// All are collective over the world or the team. With `PGAS_CHECK=1` members get
/// [`Error::Mismatch`](pgas_core::Error::Mismatch) if they call different ones, or name different
/// roots. A value that cannot be encoded or decoded ends the job, since others wait for it; so does
/// a panic of an operator or a codec.
///
/// Each has a non-blocking form, which begins it and returns an event.
///
/// # Examples
///
/// All of them in flight, by their non-blocking forms:
///
/// ```
/// use pgas_am::ValueCollectives;
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let me = world.rank();
/// let text = world.broadcast_value_nb(me, "all".to_owned());
/// let own = world.scatter_values_nb(me, vec![(1_u64, 'a')]);
/// let gathered = world.gather_values_nb(me, Some(2_u8));
/// let all = world.allgather_values_nb(3.5_f64);
/// let exchanged = world.all_to_all_values_nb(vec![vec![4_u64]]);
/// assert_eq!((text.wait()?, own.wait()?), ("all".to_owned(), (1, 'a')));
/// assert_eq!((gathered.wait()?, all.wait()?), (Some(vec![Some(2)]), vec![3.5]));
/// assert_eq!(exchanged.wait()?, [[4]]);
///
/// let join = |before: String, after: String| before + &after;
/// let reduced = world.reduce_values_nb(me, "a".to_owned(), join);
/// let of_all = world.allreduce_values_nb("b".to_owned(), join);
/// let before = world.scan_values_nb("c".to_owned(), join);
/// assert_eq!(reduced.wait()?.as_deref(), Some("a"));
/// assert_eq!((of_all.wait()?, before.wait()?), ("b".to_owned(), "c".to_owned()));
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub trait ValueCollectives: AsTeam {
    /// Gives all members the root's `value`; the values of the other members are ignored.
    ///
    /// # Cost
    ///
    /// log n rounds, in each of which the whole value is sent; the root does not wait for the
    /// others. Collective.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; inside a handler
    /// [`Error::InHandler`](pgas_core::Error::InHandler).
    ///
    /// # Panics
    ///
    /// If there is no member `root`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::ValueCollectives;
    /// use pgas_core::Rank;
    ///
    /// # for result in pgas_core::backend::loopback::run(3, |world| {
    ///     let mine = format!("from rank {}", world.rank());
    ///     assert_eq!(world.broadcast_value(Rank::new(1), mine)?, "from rank 1");
    /// # Ok::<(), pgas_core::Error>(())
    /// # }) { result?; }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    fn broadcast_value<T: Wire + Send>(&self, root: Self::Member, value: T) -> Result<T> {
        self.broadcast_value_nb(root, value).wait()
    }

    /// Begins [`broadcast_value`](Self::broadcast_value).
    ///
    /// # Cost
    ///
    /// As [`broadcast_value`](Self::broadcast_value). Collective.
    ///
    /// # Panics
    ///
    /// If there is no member `root`.
    #[track_caller]
    fn broadcast_value_nb<T: Wire + Send>(&self, root: Self::Member, value: T) -> Event<T> {
        self.as_team()
            .broadcast_encoded::<T, ByWire>(root.number(), value)
    }

    /// Gives each member its entry of the root's `values`, in the order of the members; the
    /// `values` of the other members are ignored.
    ///
    /// # Cost
    ///
    /// A message from the root to each other member. Collective.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; inside a handler
    /// [`Error::InHandler`](pgas_core::Error::InHandler).
    ///
    /// # Panics
    ///
    /// If there is no member `root`. If the root's `values` has not one entry for each member.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::ValueCollectives;
    /// use pgas_core::Rank;
    ///
    /// # for result in pgas_core::backend::loopback::run(3, |world| {
    ///     let is_root = world.rank() == Rank::ZERO;
    ///     let parts = if is_root { vec![vec![0], vec![1, 1], vec![]] } else { vec![] };
    ///     let part = world.scatter_values(Rank::ZERO, parts)?;
    ///     assert_eq!(part.len(), [1, 2, 0][world.rank().index()]);
    /// # Ok::<(), pgas_core::Error>(())
    /// # }) { result?; }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    fn scatter_values<T: Wire + Send>(&self, root: Self::Member, values: Vec<T>) -> Result<T> {
        self.scatter_values_nb(root, values).wait()
    }

    /// Begins [`scatter_values`](Self::scatter_values).
    ///
    /// # Cost
    ///
    /// As [`scatter_values`](Self::scatter_values). Collective.
    ///
    /// # Panics
    ///
    /// If there is no member `root`. If the root's `values` has not one entry for each member.
    #[track_caller]
    fn scatter_values_nb<T: Wire + Send>(&self, root: Self::Member, values: Vec<T>) -> Event<T> {
        self.as_team()
            .scatter_encoded::<T, ByWire>(root.number(), values)
    }

    /// Gives the root the values of all members, in the order of the members: `Some` there, `None`
    /// elsewhere.
    ///
    /// # Cost
    ///
    /// 2 log n rounds up a tree, in which members pass on the values of those below. Collective.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; inside a handler
    /// [`Error::InHandler`](pgas_core::Error::InHandler).
    ///
    /// # Panics
    ///
    /// If there is no member `root`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::ValueCollectives;
    /// use pgas_core::Rank;
    ///
    /// # for result in pgas_core::backend::loopback::run(3, |world| {
    ///     let all = world.gather_values(Rank::ZERO, vec![7_u64; world.rank().index()])?;
    ///     if let Some(all) = all {
    ///         assert_eq!(all, [vec![], vec![7], vec![7, 7]]);
    ///     }
    /// # Ok::<(), pgas_core::Error>(())
    /// # }) { result?; }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    fn gather_values<T: Wire + Send>(
        &self,
        root: Self::Member,
        value: T,
    ) -> Result<Option<Vec<T>>> {
        self.gather_values_nb(root, value).wait()
    }

    /// Begins [`gather_values`](Self::gather_values).
    ///
    /// # Cost
    ///
    /// As [`gather_values`](Self::gather_values). Collective.
    ///
    /// # Panics
    ///
    /// If there is no member `root`.
    #[track_caller]
    fn gather_values_nb<T: Wire + Send>(
        &self,
        root: Self::Member,
        value: T,
    ) -> Event<Option<Vec<T>>> {
        self.as_team()
            .gather_encoded::<T, ByWire>(root.number(), value)
    }

    /// Gives all members the values of all members, in the order of the members.
    ///
    /// # Cost
    ///
    /// 2 log n rounds. Collective.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; inside a handler
    /// [`Error::InHandler`](pgas_core::Error::InHandler).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::ValueCollectives;
    ///
    /// # for result in pgas_core::backend::loopback::run(3, |world| {
    ///     let names = world.allgather_values(format!("rank {}", world.rank()))?;
    ///     assert_eq!(names, ["rank 0", "rank 1", "rank 2"]);
    /// # Ok::<(), pgas_core::Error>(())
    /// # }) { result?; }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    fn allgather_values<T: Wire + Send>(&self, value: T) -> Result<Vec<T>> {
        self.allgather_values_nb(value).wait()
    }

    /// Begins [`allgather_values`](Self::allgather_values).
    ///
    /// # Cost
    ///
    /// As [`allgather_values`](Self::allgather_values). Collective.
    #[track_caller]
    fn allgather_values_nb<T: Wire + Send>(&self, value: T) -> Event<Vec<T>> {
        self.as_team().allgather_encoded::<T, ByWire>(value)
    }

    /// Sends `values[i]` to member `i`. Returns the values that the members sent to this one, in
    /// the order of the members.
    ///
    /// # Cost
    ///
    /// n - 1 rounds, in each of which a member sends to one other and receives from one.
    /// Collective.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; inside a handler
    /// [`Error::InHandler`](pgas_core::Error::InHandler).
    ///
    /// # Panics
    ///
    /// If `values` has not one entry for each member.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::ValueCollectives;
    ///
    /// # for result in pgas_core::backend::loopback::run(3, |world| {
    ///     let me = world.rank();
    ///     let given = world.ranks().map(|to| format!("{me} to {to}")).collect();
    ///     assert_eq!(world.all_to_all_values(given)?[2], format!("2 to {me}"));
    /// # Ok::<(), pgas_core::Error>(())
    /// # }) { result?; }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    fn all_to_all_values<T: Wire + Send>(&self, values: Vec<T>) -> Result<Vec<T>> {
        self.all_to_all_values_nb(values).wait()
    }

    /// Begins [`all_to_all_values`](Self::all_to_all_values).
    ///
    /// # Cost
    ///
    /// As [`all_to_all_values`](Self::all_to_all_values). Collective.
    ///
    /// # Panics
    ///
    /// If `values` has not one entry for each member.
    #[track_caller]
    fn all_to_all_values_nb<T: Wire + Send>(&self, values: Vec<T>) -> Event<Vec<T>> {
        self.as_team().all_to_all_encoded::<T, ByWire>(values)
    }

    /// Combines all members' values in the order of the members, for the root: `Some` there, `None`
    /// elsewhere.
    ///
    /// # Cost
    ///
    /// log n rounds, and another one unless the root is member 0. Collective.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; inside a handler
    /// [`Error::InHandler`](pgas_core::Error::InHandler).
    ///
    /// # Panics
    ///
    /// If there is no member `root`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::ValueCollectives;
    /// use pgas_core::Rank;
    ///
    /// # for result in pgas_core::backend::loopback::run(3, |world| {
    ///     let longer = |a: String, b: String| if b.len() > a.len() { b } else { a };
    ///     let longest = world.reduce_values(Rank::ZERO, "x".repeat(world.rank().index()), longer)?;
    ///     assert_eq!(longest, (world.rank() == Rank::ZERO).then(|| "xx".to_owned()));
    /// # Ok::<(), pgas_core::Error>(())
    /// # }) { result?; }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    fn reduce_values<T: Wire + Send>(
        &self,
        root: Self::Member,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Result<Option<T>> {
        self.reduce_values_nb(root, value, op).wait()
    }

    /// Begins [`reduce_values`](Self::reduce_values).
    ///
    /// # Cost
    ///
    /// As [`reduce_values`](Self::reduce_values). Collective.
    ///
    /// # Panics
    ///
    /// If there is no member `root`.
    #[track_caller]
    fn reduce_values_nb<T: Wire + Send>(
        &self,
        root: Self::Member,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<Option<T>> {
        self.as_team()
            .reduce_encoded::<T, ByWire>(root.number(), value, op)
    }

    /// Combines all members' values in the order of the members, for all of them.
    ///
    /// # Cost
    ///
    /// 2 log n rounds. Collective.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; inside a handler
    /// [`Error::InHandler`](pgas_core::Error::InHandler).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::ValueCollectives;
    /// use pgas_core::collective::op::Or;
    ///
    /// # for result in pgas_core::backend::loopback::run(3, |world| {
    ///     let any = world.allreduce_values(world.rank().number() == 2, Or)?;
    ///     assert!(any);
    ///     let longer = |a: String, b: String| if a.len() > b.len() { a } else { b };
    ///     let longest = world.allreduce_values("x".repeat(world.rank().index()), longer)?;
    ///     assert_eq!(longest, "xx");
    /// # Ok::<(), pgas_core::Error>(())
    /// # }) { result?; }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    fn allreduce_values<T: Wire + Send>(
        &self,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Result<T> {
        self.allreduce_values_nb(value, op).wait()
    }

    /// Begins [`allreduce_values`](Self::allreduce_values).
    ///
    /// # Cost
    ///
    /// As [`allreduce_values`](Self::allreduce_values). Collective.
    #[track_caller]
    fn allreduce_values_nb<T: Wire + Send>(
        &self,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<T> {
        self.as_team().allreduce_encoded::<T, ByWire>(value, op)
    }

    /// Combines each member's value with those of all members before it, in their order.
    ///
    /// # Cost
    ///
    /// log n rounds (Hillis and Steele, Data parallel algorithms, 1986). Collective.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; inside a handler
    /// [`Error::InHandler`](pgas_core::Error::InHandler).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::ValueCollectives;
    ///
    /// # for result in pgas_core::backend::loopback::run(3, |world| {
    ///     let both = |a: String, b: String| a + &b;
    ///     let text = world.scan_values(world.rank().to_string(), both)?;
    ///     assert_eq!(text, ["0", "01", "012"][world.rank().index()]);
    /// # Ok::<(), pgas_core::Error>(())
    /// # }) { result?; }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    fn scan_values<T: Wire + Send>(
        &self,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Result<T> {
        self.scan_values_nb(value, op).wait()
    }

    /// Begins [`scan_values`](Self::scan_values).
    ///
    /// # Cost
    ///
    /// As [`scan_values`](Self::scan_values). Collective.
    #[track_caller]
    fn scan_values_nb<T: Wire + Send>(
        &self,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<T> {
        self.as_team().scan_encoded::<T, ByWire>(value, op)
    }

    /// Combines the values of the members before each one, in their order; the first member gets
    /// `first`.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; inside a handler
    /// [`Error::InHandler`](pgas_core::Error::InHandler).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::ValueCollectives;
    ///
    /// # for result in pgas_core::backend::loopback::run(3, |world| {
    ///     let both = |a: String, b: String| a + &b;
    ///     let before = world.scan_exclusive_values(world.rank().to_string(), "-".into(), both)?;
    ///     assert_eq!(before, ["-", "0", "01"][world.rank().index()]);
    ///     let begun = world.scan_exclusive_values_nb("a".to_owned(), String::new(), both);
    ///     assert_eq!(begun.wait()?.len(), world.rank().index());
    /// # Ok::<(), pgas_core::Error>(())
    /// # }) { result?; }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    fn scan_exclusive_values<T: Wire + Send>(
        &self,
        value: T,
        first: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Result<T> {
        self.scan_exclusive_values_nb(value, first, op).wait()
    }

    /// Begins [`scan_exclusive_values`](Self::scan_exclusive_values).
    ///
    /// # Cost
    ///
    /// As [`scan_exclusive_values`](Self::scan_exclusive_values). Collective.
    #[track_caller]
    fn scan_exclusive_values_nb<T: Wire + Send>(
        &self,
        value: T,
        first: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<T> {
        self.as_team()
            .scan_exclusive_encoded::<T, ByWire>(value, first, op)
    }
}

/// The encoding of [`Wire`] types.
enum ByWire {}

impl<T: Wire> Encoding<T> for ByWire {
    fn encode(value: &T) -> Result<Vec<u8>> {
        let mut out = Encoder::new();
        out.put(value)?;
        Ok(out.bytes().to_vec())
    }

    fn decode(bytes: &[u8]) -> Result<T> {
        Decoder::new(bytes).get_last()
    }
}

impl<G: AsTeam> ValueCollectives for G {}

#[cfg(test)]
mod tests {
    use pgas_core::collective::op::Sum;
    use pgas_core::{Config, Rank, Statistics};

    use super::*;
    use crate::codec::format::EMPTY;

    #[test]
    fn rounds_are_logarithmic_in_the_ranks() {
        let mut config = Config::default();
        config.statistics = Statistics::Total;
        pgas_core::backend::loopback::run_with(13, &config, |world| {
            let (rank, rounds) = (world.rank(), 4);
            let messages = |collective: &dyn Fn() -> Result<()>| {
                let before = world.costs().messages;
                collective().unwrap();
                world.costs().messages - before
            };
            let (root, text) = (Rank::new(5), || "text".to_owned());
            assert!(messages(&|| world.broadcast_value(root, text()).map(drop)) <= rounds);
            let scattered = messages(&|| world.scatter_values(root, vec![text(); 13]).map(drop));
            assert_eq!(scattered, if rank == root { 12 } else { 0 });
            assert!(messages(&|| world.gather_values(root, text()).map(drop)) <= 2);
            assert_eq!(
                messages(&|| world.allgather_values(text()).map(drop)),
                2 * rounds
            );
            assert_eq!(
                messages(&|| world.all_to_all_values(vec![text(); 13]).map(drop)),
                12
            );
            assert!(messages(&|| world.reduce_values(root, 1_u64, Sum).map(drop)) <= 2);
            assert!(messages(&|| world.allreduce_values(1_u64, Sum).map(drop)) <= rounds + 1);
            assert!(messages(&|| world.scan_values(1_u64, Sum).map(drop)) <= rounds);
            let before = || world.scan_exclusive_values(1_u64, 0, Sum).map(drop);
            assert!(messages(&before) <= rounds);
        });
    }

    #[test]
    fn truth_is_one_where_a_value_is_combined_with_no_other() {
        use pgas_core::collective::op::{And, Or};

        let world = pgas_core::backend::loopback::world();
        assert_eq!(world.allreduce_values(5, Or).unwrap(), 1);
        assert_eq!(world.reduce_values(Rank::ZERO, 5, And).unwrap(), Some(1));
        let results = pgas_core::backend::loopback::run(2, |world| {
            let first = world.scan_values(5, And)?;
            Ok::<_, pgas_core::Error>([first, world.scan_exclusive_values(5, 9, Or)?])
        });
        let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
        assert_eq!(results, [[1, 9], [1, 1]]);
    }

    #[test]
    fn a_value_that_has_no_bytes_ends_the_job_for_all_who_wait() {
        let results = pgas_core::backend::loopback::run(3, |world| {
            let n_elements = if world.rank() == Rank::ZERO {
                EMPTY + 1
            } else {
                1
            };
            let result = world.allgather_values(vec![(); n_elements]);
            result.map(drop)
        });
        let mut texts = Vec::new();
        for result in results {
            texts.push(result.unwrap_err().to_string());
        }
        assert!(texts[0].contains("empty"), "{texts:?}");
    }
}
