//! Buffers that operations in flight still use after their events were dropped.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::backend::OpId;
use crate::locks::lock;

/// Operations that one round of progress tests, so that it does not get longer with their number. If
/// there are more, each further one tests some, too.
const ASKED: usize = 64;

/// Operations that each further one tests: one makes room for it, and one makes the list shorter. So
/// a program that makes no progress, or little, keeps about as many as are in flight.
const ASKED_BY_EACH: usize = 2;

/// Operations whose events were dropped in flight, with their buffers; the first one was tested
/// longest ago.
#[derive(Default)]
pub(crate) struct Orphans {
    list: Mutex<VecDeque<Orphan>>,
    len: AtomicUsize,
}

struct Orphan {
    op: OpId,
    _buffers: Box<dyn Any + Send>,
}

impl fmt::Debug for Orphans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Orphans({})", self.len())
    }
}

impl Orphans {
    /// Keeps the buffers of an operation until it is over; `over` asks the backend about others.
    pub(crate) fn adopt(
        &self,
        op: OpId,
        buffers: Box<dyn Any + Send>,
        over: impl FnMut(OpId) -> bool,
    ) {
        let mut list = lock(&self.list);
        if list.len() > ASKED {
            reap_first(&mut list, ASKED_BY_EACH, over);
        }
        list.push_back(Orphan {
            op,
            _buffers: buffers,
        });
        // Only a hint that saves `reap` the lock.
        self.len.store(list.len(), Ordering::Relaxed);
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Frees the buffers of operations that are over, among those tested in one round; `over` asks
    /// the backend.
    pub(crate) fn reap(&self, over: impl FnMut(OpId) -> bool) {
        self.reap_among(ASKED, over);
    }

    /// The same for all operations.
    pub(crate) fn reap_all(&self, over: impl FnMut(OpId) -> bool) {
        self.reap_among(usize::MAX, over);
    }

    fn reap_among(&self, most: usize, over: impl FnMut(OpId) -> bool) {
        if self.len() == 0 {
            return;
        }
        let mut list = lock(&self.list);
        reap_first(&mut list, most, over);
        self.len.store(list.len(), Ordering::Relaxed);
    }

    /// Leaks the buffers: the network may still write into them.
    pub(crate) fn leak(&self) {
        for orphan in lock(&self.list).drain(..) {
            Box::leak(Box::new(orphan));
        }
    }
}

/// Tests the first ones, and puts those that are not over behind the others.
fn reap_first(list: &mut VecDeque<Orphan>, most: usize, mut over: impl FnMut(OpId) -> bool) {
    for _ in 0..list.len().min(most) {
        if let Some(orphan) = list.pop_front()
            && !over(orphan.op)
        {
            list.push_back(orphan);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::backend::loopback;
    use crate::pod::Pod;

    use super::*;

    #[test]
    fn buffers_are_kept_until_their_operation_is_over() {
        let orphans = Orphans::default();
        let buffers = [Arc::new(()), Arc::new(())];
        for (op, buffer) in (1..).map(OpId).zip(&buffers) {
            orphans.adopt(op, Box::new(Arc::clone(buffer)), |_| false);
        }
        let are_kept = || {
            buffers
                .each_ref()
                .map(|buffer| Arc::strong_count(buffer) > 1)
        };
        orphans.reap(|_| false);
        assert_eq!((orphans.len(), are_kept()), (2, [true, true]));
        orphans.reap(|op| op == OpId(1));
        assert_eq!((orphans.len(), are_kept()), (1, [false, true]));
        orphans.reap(|_| true);
        assert_eq!((orphans.len(), are_kept()), (0, [false, false]));
    }

    /// However many operations there are, a round asks after the same number, and all have their
    /// turn.
    #[test]
    fn a_round_asks_after_a_few_operations() {
        let orphans = Orphans::default();
        let n = 10 * ASKED + 1;
        for op in 1..=n as u64 {
            orphans.adopt(OpId(op), Box::new(()), |_| false);
        }
        let mut asked = vec![0; n + 1];
        for _ in 0..22 {
            let mut n_asked = 0;
            orphans.reap(|OpId(op)| {
                n_asked += 1;
                asked[usize::try_from(op).unwrap()] += 1;
                false
            });
            assert_eq!(n_asked, ASKED);
        }
        assert!(asked[1..].iter().all(|n| (2..=3).contains(n)));
        orphans.reap_all(|_| true);
        assert_eq!(orphans.len(), 0);
    }

    /// With rounds of progress, which test far fewer than come, and with none.
    #[test]
    fn a_loop_that_drops_events_keeps_about_as_many_as_are_in_flight() {
        const IN_FLIGHT: usize = 10 * ASKED;
        for makes_progress in [true, false] {
            let world = loopback::world();
            let cell = world.alloc::<u64>(1).unwrap();
            for _ in 0..20 {
                for value in 0..IN_FLIGHT as u64 {
                    drop(cell.put_nb(&world, value).unwrap());
                }
                world.flush_all().unwrap();
                if makes_progress {
                    world.progress().unwrap();
                }
                assert!(world.orphans().len() <= IN_FLIGHT + ASKED + 1);
            }
        }
    }

    /// The transport for tests completes nothing early.
    fn is_complete_when_its_value_is_there<T>(value: T)
    where
        T: Pod + Copy + PartialEq + fmt::Debug + Unpin,
    {
        let world = loopback::world();
        let cells = world.alloc::<T>(2).unwrap();
        let mut put = cells.put_nb(&world, value).unwrap();
        assert!(!put.is_complete().unwrap());
        assert!(format!("{put:?}").contains("in flight"));
        put.wait().unwrap();
        let mut get = cells.get_nb(&world).unwrap();
        assert!(!get.is_complete().unwrap());
        assert_eq!(get.wait().unwrap(), value);
        let mut got = cells.get_nb(&world).unwrap();
        while !got.test().unwrap() {}
        assert_eq!(world.block_on(got).unwrap().unwrap(), value);
        drop(cells.put_nb(&world, value).unwrap());
        drop(cells.get_nb(&world).unwrap());
        assert_eq!(world.orphans().len(), 2);
    }

    #[test]
    fn a_brief_operation_is_complete_when_its_value_is_there() {
        is_complete_when_its_value_is_there(7_u64);
        is_complete_when_its_value_is_there([7_u64, 8]);
    }

    #[test]
    fn a_longer_operation_is_complete_when_its_value_is_there() {
        is_complete_when_its_value_is_there([7_u64, 8, 9]);
    }

    #[test]
    fn a_dropped_event_leaves_its_buffers_to_the_world_until_the_transfer_is_over() {
        let world = loopback::world();
        let cells = world.alloc::<u64>(4).unwrap();
        drop(cells.get_vec_nb(&world, 4).unwrap());
        drop(cells.put_vec_nb(&world, vec![1; 4]).unwrap());
        assert_eq!(world.orphans().len(), 2);
        let mut n_rounds = 0;
        while world.orphans().len() > 0 {
            world.progress().unwrap();
            n_rounds += 1;
            assert!(n_rounds < 10_000, "they are never over");
        }
        assert_eq!(cells.get_vec(&world, 4).unwrap(), [1; 4]);
    }
}
