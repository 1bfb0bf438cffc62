//! Operations that a rank performs for others: on its own shard, and on those of the ranks of its
//! host, which it reaches by loads and stores.
//!
//! A search stays within one shard and never waits in a handler. If it reaches the end of the
//! shard, or a slot that another rank is writing, the asking rank repeats the operation
//! one-sidedly. It does so, too, where a function of the program panics, which is its own panic
//! then.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pgas_core::process::discard_panic;
use pgas_core::{Pod, Rank};

use super::batch::local::pipelined;
use super::op::OnKey;
use super::outcome::{Effect, Outcome, too_long};
use super::shard::Shards;
use super::slot::Access;
use super::slot::layout::Pair;
use super::view::View;
use crate::Result;
use crate::object::{self, Heap, KeyHasher, Object, Repr, SlotOf};
use crate::requests::{Operation, Owed};

/// Bytes of long values in the answer to a message. Requests behind it are sent once more.
const MOST_PACKED: usize = 1 << 20;

/// `O` as a request to a shard.
pub(super) struct OnShards<O, K, V, S>(PhantomData<(O, K, V, S)>);

/// A request for `O`.
pub(super) type Request<O, K, V> = Pair<SlotOf<K>, <O as OnKey<K, V>>::Given>;

/// The answer to a request for `O`.
pub(super) type Answer<O, K, V> = <<O as OnKey<K, V>>::Outcome as Outcome<V>>::Answer;

impl<K, V, S, O> Operation for OnShards<O, K, V, S>
where
    K: Object,
    V: Object,
    S: KeyHasher,
    O: OnKey<K, V, Given: Pod> + 'static,
{
    type On = Arc<Shards<K, V, S>>;
    type Request = Request<O, K, V>;
    type Answer = Answer<O, K, V>;

    const IS_ORDERED: bool = O::IS_ORDERED;
    const CHANGES: bool = !matches!(O::EFFECT, Effect::Read);
    const HAS_PARCELS: bool = object::has_heap::<K>() || object::has_heap::<V>();

    #[inline]
    fn is_local(on: &Arc<Shards<K, V, S>>, rank: Rank) -> bool {
        on.is_here(rank)
    }

    fn serve(
        on: &Arc<Shards<K, V, S>>,
        rank: Rank,
        requests: &[Self::Request],
        parcel: &Heap,
        answered: &Heap,
    ) -> Vec<Answer<O, K, V>> {
        let parcels = (parcel, answered);
        if rank == on.world().rank()
            && let Some(view) = on.shared()
        {
            return serve::<O, _, _, _, _>(&view, requests, parcels);
        }
        let near = on.with_near(rank, |view| {
            serve::<O, _, _, _, _>(&view, requests, parcels)
        });
        near.unwrap_or_else(|| serve::<O, _, _, _, _>(&on.remote(rank), requests, parcels))
    }

    fn owed(on: &Arc<Shards<K, V, S>>) -> Vec<Owed> {
        if object::has_heap::<V>() {
            on.heap().take_late()
        } else {
            Vec::new()
        }
    }

    fn pay(on: &Arc<Shards<K, V, S>>, owed: Vec<Owed>) {
        for block in owed {
            if let Err(error) = on.heap().release_for_other(block) {
                on.heap().give_up(error);
            }
        }
    }
}

fn serve<'a, O, K, V, S, R>(
    view: &View<'a, K, V, S, R>,
    requests: &[Request<O, K, V>],
    (parcel, answered): (&Heap, &Heap),
) -> Vec<Answer<O, K, V>>
where
    O: OnKey<K, V, Given: Pod>,
    K: Object,
    V: Object,
    S: KeyHasher,
    R: Access<'a>,
{
    let key_of = |i: usize| -> Result<_> {
        let (key, given) = requests[i].parts();
        Ok((<K::Repr as Repr<K>>::load(key, parcel)?, given))
    };
    let mut answers = Vec::with_capacity(requests.len());
    let begin = |i| {
        let (key, _) = key_of(i).ok()?;
        let hash = view.hash(&key);
        view.prefetch(hash);
        Some(hash)
    };
    let serve_all = || {
        pipelined(requests.len(), begin, |i, hash| -> Result<()> {
            if object::has_heap::<V>() && answered.n_packed() >= MOST_PACKED {
                return Err(too_long());
            }
            let (key, given) = key_of(i)?;
            let hash = hash.unwrap_or_else(|| view.hash(&key));
            let given = O::unpack(given, parcel, view.heap())?;
            let done = O::perform(view, hash, &key, given)?;
            answers.push(done.to_answer(answered)?);
            Ok(())
        })
    };
    // The asking rank repeats what failed here, and meets the error or the panic itself.
    match catch_unwind(AssertUnwindSafe(|| object::serving(serve_all))) {
        Ok(_ended_early) => {}
        Err(panic) => discard_panic(panic),
    }
    answers
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pgas_core::Rank;

    use super::*;
    use crate::hash_map::hash::Hash;
    use crate::hash_map::operations::{Find, Insert};
    use crate::hash_map::{Atomic, HashMap, RapidHasher};
    use crate::testing::{near_counted, price};

    type Map = HashMap<u64, u64>;
    type Shard = OnShards<Insert, u64, u64, RapidHasher>;
    type Lookup = OnShards<Find<Atomic>, u64, u64, RapidHasher>;

    fn performed<O: Operation>(on: &O::On, rank: Rank, requests: &[O::Request]) -> Vec<O::Answer> {
        let parcel = || Heap::parcel(Vec::new());
        O::serve(on, rank, requests, &parcel(), &parcel())
    }

    /// The shards of a map whose slots are all local, as if they were not.
    fn shards(map: &Map) -> Arc<Shards<u64, u64, RapidHasher>> {
        Arc::new(Shards::new(&map.table.shape))
    }

    /// Requests to insert the keys whose home rank is `rank`.
    fn requests_for(map: &Map, rank: Rank, n: u64) -> Vec<Pair<u64, u64>> {
        let home = |key: &u64| {
            let hash = Hash::of::<u64>(key, &RapidHasher);
            map.table.shape.home_rank(hash)
        };
        let keys = (0..n).filter(|key| home(key) == rank);
        keys.map(|key| Pair::new(key, !key)).collect()
    }

    #[test]
    fn what_is_done_to_the_part_of_a_near_rank_is_done_to_the_map() {
        let ends = pgas_smp::threads(3, |world| {
            // With so much room no search reaches the end of a shard.
            let map = Map::with_capacity(&world, 30_000).unwrap();
            let shards = shards(&map);
            // Each rank works on its neighbour's shard.
            let to = Rank::new((world.rank().number() + 1) % 3);
            assert!(Shard::is_local(&shards, to));
            let requests = requests_for(&map, to, 1200);
            let answers = performed::<Shard>(&shards, to, &requests);
            assert_eq!(answers, vec![0; requests.len()]);
            assert_eq!(performed::<Shard>(&shards, to, &requests[..1]), [1]);
            world.barrier().unwrap();
            for key in 0..1200 {
                assert_eq!(map.find(&key).unwrap(), Some(!key));
            }
            let of_rank = |rank| {
                let keys = requests_for(&map, rank, 1200).into_iter();
                let keys = keys.map(|request| Pair::new(request.parts().0, ()));
                let keys: Vec<_> = keys.collect();
                let found = performed::<Lookup>(&shards, rank, &keys);
                let values = found.iter().zip(&keys);
                assert!(
                    values
                        .clone()
                        .all(|(found, key)| found.parts() == (1, !key.parts().0))
                );
                values.len()
            };
            let n: usize = world.ranks().map(of_rank).sum();
            world.barrier().unwrap();
            n
        });
        assert_eq!(ends.unwrap(), [1200; 3]);
    }

    #[test]
    fn what_is_done_to_a_near_part_is_counted_by_its_steps() {
        near_counted(2, |world| {
            let map = Map::with_capacity(&world, 30_000).unwrap();
            let shards = shards(&map);
            let to = Rank::new(1 - world.rank().number());
            assert!(Shard::is_local(&shards, to));
            let requests = requests_for(&map, to, 100);
            let n = requests.len() as u64;
            let serve = || assert_eq!(performed::<Shard>(&shards, to, &requests).len() as u64, n);
            assert_eq!(price(&world, serve), (0, n, 2 * n), "all are new");
            let before = world.costs();
            serve();
            let costs = world.costs() - before;
            assert_eq!((costs.reads, costs.atomics, costs.messages), (n, 2 * n, 0));
            world.barrier().unwrap();
        });
    }

    #[test]
    fn a_part_without_room_leaves_the_rest_to_who_asked() {
        let ends = pgas_smp::threads(2, |world| {
            let map = Map::with_capacity(&world, 24).unwrap();
            let shards = shards(&map);
            let requests = requests_for(&map, world.rank(), 200);
            let n = performed::<Shard>(&shards, world.rank(), &requests).len();
            // At least one key fits, and no more than the shard has slots.
            assert!((1..=12).contains(&n), "{n} of {}", requests.len());
            world.barrier().unwrap();
            let done = requests[..n].iter().map(|request| request.parts());
            for (key, value) in done {
                assert_eq!(map.find(&key).unwrap(), Some(value));
            }
            let (key, _) = requests[n].parts();
            assert_eq!(map.find(&key).unwrap(), None);
            world.barrier().unwrap();
        });
        ends.unwrap();
    }
}
