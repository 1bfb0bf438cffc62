//! Memory that returns to the system while other threads allocate.
#![expect(unsafe_code, reason = "passes the contract's calls on")]

use std::sync::{Arc, Mutex, OnceLock};

use crate::backend::{Backend, loopback};
use crate::locks::lock;
use crate::segment::HeapUse;
use crate::{Config, Result, WeakWorld, World};

/// A transport that looks at the heaps whenever memory returns to the system.
#[derive(Debug)]
struct Watched {
    inner: loopback::Loopback,
    world: OnceLock<WeakWorld>,
    /// The bytes in use, of the symmetric and of the local heap.
    seen: Mutex<Vec<[u64; 2]>>,
}

fn used(world: &World) -> [u64; 2] {
    [world.symmetric_heap_use(), world.local_heap_use()].map(|HeapUse { used, .. }| used)
}

// SAFETY: every call is the inner transport's with the same arguments.
unsafe impl Backend for Watched {
    crate::pass_on! {
        inner:
        name, test, poll, abort, leave, rank, n_ranks, capabilities, segment_bytes, mapped_ranks,
        mapped, board, mapped_stride, flush, flush_all, barrier_begin, barrier_test,
        barrier_missing, try_send, prepare, try_commit, give_back, n_credits, progress, park,
        notify, ranks_per_processor, health, has_left, has_joined, blame
    }
    crate::pass_on_one_sided!(inner);

    fn discard(&self, offset: u64, bytes: u64) -> bool {
        let world = self.world.get().and_then(WeakWorld::upgrade);
        lock(&self.seen).push(used(&world.expect("the world frees memory")));
        self.inner.discard(offset, bytes)
    }
}

/// Otherwise another thread's new memory, with what it has written, would be lost.
#[test]
fn freed_memory_is_taken_until_it_has_returned_to_the_system() -> Result<()> {
    const BYTES: u64 = 1 << 20;
    const LEN: usize = 1 << 20;
    let options = loopback::Options::default();
    let inner = loopback::job(1, 16 * BYTES, &options)
        .pop()
        .expect("one rank");
    let watched = Arc::new(Watched {
        inner,
        world: OnceLock::new(),
        seen: Mutex::default(),
    });
    let backend: Arc<dyn Backend> = Arc::<Watched>::clone(&watched);
    let world = World::new(backend, Config::default())?;
    assert!(watched.world.set(world.downgrade()).is_ok());

    let block = world.alloc::<u8>(LEN)?;
    let symmetric = world.alloc_symmetric::<u8>(LEN)?;
    symmetric.bequeath([world.alloc::<u8>(LEN)?]);
    let team = world.team().reorder(0)?;
    let of_team = team.alloc_symmetric::<u8>(LEN)?;
    world.free(block);
    drop((symmetric, of_team));
    team.reclaim()?;
    world.reclaim()?;
    let mib = |blocks: [u64; 2]| blocks.map(|n| n * BYTES);
    let before = [mib([1, 3]), mib([1, 2]), mib([1, 1]), mib([0, 1])];
    assert_eq!(
        (&**lock(&watched.seen), used(&world)),
        (&before[..], [0, 0])
    );
    Ok(())
}
