//! The table of awaited answers, one thread at a time and many at once.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;
use std::thread;

use super::*;

fn returned(pending: &Pending, cookie: Cookie) -> Vec<u8> {
    assert!(pending.is_done(cookie));
    pending.take(cookie, |outcome, bytes| {
        assert_eq!(outcome, Outcome::Returned);
        bytes.to_vec()
    })
}

#[test]
fn answers_of_every_length_come_back() {
    let pending = Pending::default();
    for len in (0..100).chain([1000, 16_000]) {
        let answer: Vec<u8> = (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let cookie = pending.take_slot(0);
        assert!(!pending.is_done(cookie));
        assert!(pending.complete(cookie, Outcome::Returned, &answer));
        assert_eq!(returned(&pending, cookie), answer);
    }
    assert_eq!(pending.n_taken(), 0);
    assert_eq!(pending.n_slots.load(Relaxed), 1, "one slot served them all");
}

#[test]
fn a_failure_is_told_apart() {
    let pending = Pending::default();
    let cookie = pending.take_slot(0);
    pending.complete(cookie, Outcome::Failed, b"no");
    pending.take(cookie, |outcome, bytes| {
        assert_eq!((outcome, bytes), (Outcome::Failed, b"no".as_slice()));
    });
}

#[test]
fn many_calls_in_flight_have_slots_of_their_own() {
    let pending = Pending::default();
    let cookies: Vec<_> = (0..10_000).map(|_| pending.take_slot(0)).collect();
    for (i, cookie) in cookies.iter().enumerate().rev() {
        assert!(pending.complete(*cookie, Outcome::Returned, &i.to_ne_bytes()));
    }
    for (i, cookie) in cookies.iter().enumerate() {
        assert_eq!(returned(&pending, *cookie), i.to_ne_bytes());
    }
    assert_eq!(pending.n_taken(), 0);
}

#[test]
fn an_answer_that_nothing_waits_for_is_refused() {
    let pending = Pending::default();
    assert!(!pending.complete(Cookie(0), Outcome::Returned, &[]));
    let cookie = pending.take_slot(0);
    let Cookie(bits) = cookie;
    assert!(!pending.complete(Cookie(bits + 1), Outcome::Returned, &[]));
    assert!(!pending.complete(Cookie(bits | 1 << 40), Outcome::Returned, &[]));
    assert!(pending.complete(cookie, Outcome::Returned, &[]));
    assert!(
        !pending.complete(cookie, Outcome::Returned, &[]),
        "a second time"
    );
    pending.take(cookie, |_, _| ());
    assert!(
        !pending.complete(cookie, Outcome::Returned, &[]),
        "too late"
    );
}

#[test]
fn an_abandoned_call_gives_its_slot_back_when_the_answer_comes() {
    let pending = Pending::default();
    let cookie = pending.take_slot(0);
    pending.abandon(cookie);
    assert_eq!(pending.n_taken(), 1, "the answer is still to come");
    assert!(pending.complete(cookie, Outcome::Returned, &[1; 100]));
    assert_eq!(pending.n_taken(), 0);
    let answered = pending.take_slot(0);
    pending.complete(answered, Outcome::Returned, &[]);
    pending.abandon(answered);
    assert_eq!(pending.n_taken(), 0);
}

/// The memory of long answers.
fn n_held(pending: &Pending) -> usize {
    let slots = 0..pending.n_slots.load(Relaxed);
    slots
        .map(|index| lock(&pending.known(index).long).capacity())
        .sum()
}

#[test]
fn a_free_slot_holds_no_memory_however_its_call_ended() {
    type End = fn(&Pending, Cookie);
    let answer = |pending: &Pending, cookie| {
        assert!(pending.complete(cookie, Outcome::Failed, &[1; 1000]));
    };
    let wake = || Watcher::Wake(Waker::noop().clone());
    let ends: [(&str, bool, End); 4] = [
        ("taken", true, |pending, cookie| {
            pending.take(cookie, |outcome, bytes| {
                assert_eq!((outcome, bytes.len()), (Outcome::Failed, 1000));
            });
        }),
        ("dropped", true, Pending::abandon),
        ("dropped before", false, Pending::abandon),
        ("called", false, |pending, cookie| {
            let call = Box::new(|_, bytes: &[u8]| assert_eq!(bytes.len(), 1000));
            assert!(pending.watch(cookie, Watcher::Call(call)).is_none());
        }),
    ];
    let pending = Pending::default();
    for (how, is_answered, end) in ends {
        for is_watched in [false, true] {
            let cookie = pending.take_slot(0);
            if is_watched {
                pending.watch(cookie, wake());
            }
            if is_answered {
                answer(&pending, cookie);
                assert!(n_held(&pending) >= 1000);
                end(&pending, cookie);
            } else {
                end(&pending, cookie);
                answer(&pending, cookie);
            }
            assert_eq!(pending.n_taken(), 0, "{how}");
            assert_eq!(n_held(&pending), 0, "{how}");
        }
    }
    assert_eq!(pending.n_slots.load(Relaxed), 1, "one slot served them all");
}

#[test]
fn an_answer_that_comes_while_the_call_is_dropped_leaves_no_memory() {
    let pending = Pending::default();
    for is_watched in [false, true] {
        for _ in 0..500 {
            let cookie = pending.take_slot(0);
            if is_watched {
                pending.watch(cookie, Watcher::Wake(Waker::noop().clone()));
            }
            thread::scope(|scope| {
                scope.spawn(|| pending.complete(cookie, Outcome::Returned, &[1; 1000]));
                pending.abandon(cookie);
            });
            assert_eq!((pending.n_taken(), n_held(&pending)), (0, 0));
        }
    }
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn watchers_are_called_once_and_an_early_answer_gives_them_back() {
    let pending = Pending::default();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let cookie = pending.take_slot(0);
    assert!(
        pending
            .watch(cookie, Watcher::Wake(waker.clone()))
            .is_none()
    );
    assert!(
        pending
            .watch(cookie, Watcher::Wake(waker.clone()))
            .is_none()
    );
    pending.complete(cookie, Outcome::Returned, &[]);
    assert_eq!(count.0.load(Relaxed), 1);
    assert!(pending.watch(cookie, Watcher::Wake(waker)).is_some());
    pending.take(cookie, |_, _| ());

    let cookie = pending.take_slot(0);
    let seen = Arc::clone(&count);
    let call = Watcher::Call(Box::new(move |_, bytes| {
        seen.0.fetch_add(bytes.len(), Relaxed);
    }));
    assert!(pending.watch(cookie, call).is_none());
    pending.complete(cookie, Outcome::Returned, &[0; 9]);
    assert_eq!(count.0.load(Relaxed), 10);
    assert_eq!(pending.n_taken(), 0, "who is called needs no slot");
}

#[test]
fn threads_take_and_give_slots_without_mixing_them_up() {
    let pending = Pending::default();
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let pending = &pending;
            scope.spawn(move || {
                for i in 0..2000 {
                    let cookies: Vec<_> = (0..1 + i % 5).map(|_| pending.take_slot(0)).collect();
                    for cookie in &cookies {
                        let Cookie(bits) = *cookie;
                        let answer = (bits ^ thread).to_ne_bytes();
                        assert!(pending.complete(*cookie, Outcome::Returned, &answer));
                    }
                    for cookie in cookies {
                        let Cookie(bits) = cookie;
                        assert_eq!(returned(pending, cookie), (bits ^ thread).to_ne_bytes());
                    }
                }
            });
        }
    });
    assert_eq!(pending.n_taken(), 0);
}

#[test]
fn a_look_for_who_has_left_tells_the_watchers_of_that_rank_alone() {
    let pending = Pending::default();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let (gone, other) = (3, 4);
    let n_runs = Arc::new(AtomicUsize::new(0));
    let action = || {
        let seen = Arc::clone(&n_runs);
        Watcher::Call(Box::new(move |outcome, bytes| {
            assert_eq!((outcome, bytes), (Outcome::Left, [].as_slice()));
            seen.fetch_add(1, Relaxed);
        }))
    };
    let [awaited, dropped, chained, answered, stays] =
        [gone, gone, gone, gone, other].map(|rank| pending.take_slot(rank));
    pending.watch(awaited, Watcher::Wake(waker.clone()));
    pending.watch(chained, action());
    pending.watch(stays, Watcher::Wake(waker));
    pending.abandon(dropped);
    assert!(pending.complete(answered, Outcome::Returned, &[]));
    let look = |n| {
        let run = |call: Callback| call(Outcome::Left, &[]);
        pending.search_departed(n, |rank| rank == gone, run)
    };
    assert!(!look(0) && !pending.has_left());
    let found = [(); 5].map(|()| look(1));
    let what = "the first one, and one with an action";
    assert_eq!(found, [true, false, true, false, false], "{what}");
    assert!(pending.has_left());
    assert_eq!(count.0.load(Relaxed), 1, "woken once a look");
    assert_eq!(n_runs.load(Relaxed), 1);
    assert!(!look(100), "nothing new");
    assert_eq!((count.0.load(Relaxed), n_runs.load(Relaxed)), (2, 1));
    pending.give_up(awaited);
    look(100);
    assert_eq!((count.0.load(Relaxed), n_runs.load(Relaxed)), (2, 1));
    assert!(
        !pending.complete(awaited, Outcome::Returned, &[]),
        "too late"
    );
    assert!(pending.complete(stays, Outcome::Returned, &[]));
    pending.take(stays, |_, _| ());
    pending.take(answered, |_, _| ());
    assert_eq!(
        pending.n_taken(),
        0,
        "also the one that was dropped is free"
    );
}

#[test]
fn a_look_for_who_has_left_frees_the_slots_of_abandoned_calls_to_that_rank_alone() {
    let pending = Pending::default();
    let (gone, other) = (3, 4);
    let look = || {
        let run = |_| panic!("nobody is told");
        pending.search_departed(100, |rank| rank == gone, run);
    };
    for is_watched in [false, true] {
        let calls = [gone, other, gone, other].map(|rank| pending.take_slot(rank));
        if is_watched {
            for cookie in calls {
                pending.watch(cookie, Watcher::Wake(Waker::noop().clone()));
            }
        }
        for cookie in calls {
            pending.abandon(cookie);
        }
        assert_eq!(pending.awaited(), [gone, other]);
        look();
        assert_eq!((pending.awaited(), pending.n_taken()), (vec![other], 2));
        look();
        assert_eq!(pending.n_taken(), 2, "a free slot stays as it is");
        assert!(
            !pending.complete(calls[0], Outcome::Returned, &[]),
            "too late"
        );
        for cookie in [calls[1], calls[3]] {
            assert!(pending.complete(cookie, Outcome::Returned, &[1; 100]));
        }
        assert_eq!(pending.n_taken(), 0);
    }
    assert!(!pending.has_left(), "nobody waits");
    let taken = [(); 4].map(|()| pending.take_slot(other));
    let mut slots = taken.map(|cookie| cookie.parts().0);
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2, 3], "each is given back once");
}

#[test]
fn an_answer_to_a_call_that_is_over_is_none_to_the_next_one_in_its_slot() {
    let pending = Pending::default();
    let first = pending.take_slot(3);
    assert!(pending.complete(first, Outcome::Returned, &[1]));
    pending.take(first, |_, bytes| assert_eq!(bytes, [1]));
    let second = pending.take_slot(3);
    assert_eq!(first.parts().0, second.parts().0, "the same slot");
    assert!(!pending.complete(first, Outcome::Returned, &[2]));
    assert!(!pending.is_done(second));
    assert!(pending.complete(second, Outcome::Returned, &[3]));
    pending.take(second, |_, bytes| assert_eq!(bytes, [3]));
}

/// What a watcher has is dropped where it may come to the table again.
#[test]
fn watchers_are_forgotten_and_an_answer_then_is_nobodys() {
    let pending = Arc::new(Pending::default());
    let [called, awaited] = [(); 2].map(|()| pending.take_slot(0));
    let own = Calls(Arc::clone(&pending), called);
    let call = Watcher::Call(Box::new(move |_, _| drop(own)));
    assert!(pending.watch(called, call).is_none());
    let wake = Watcher::Wake(Waker::noop().clone());
    assert!(pending.watch(awaited, wake).is_none());
    pending.forget_watchers();
    assert_eq!(Arc::strong_count(&pending), 1);
    for cookie in [called, awaited] {
        assert!(pending.complete(cookie, Outcome::Returned, &[]));
        pending.abandon(cookie);
    }
    assert_eq!(pending.n_taken(), 0);
}

#[test]
fn who_watches_calls_of_a_rank_that_has_left_is_told_also_behind_one_that_panics() {
    let pending = Pending::default();
    assert!(!pending.has_left());
    let (sender, told) = std::sync::mpsc::channel();
    for n in 0..3 {
        let sender = sender.clone();
        let call = Watcher::Call(Box::new(move |outcome, _| {
            sender.send((n, outcome)).unwrap();
            assert_ne!(n, 1, "on purpose");
        }));
        assert!(pending.watch(pending.take_slot(0), call).is_none());
    }
    pending.end();
    assert!(pending.has_left());
    let tell = || {
        pending.take_watchers(|watcher| match watcher {
            Watcher::Call(call) => call(Outcome::Ended, &[]),
            Watcher::Wake(_) => panic!("there is none"),
        });
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(tell)).is_err());
    tell();
    assert!(told.try_iter().eq((0..3).map(|n| (n, Outcome::Ended))));
}

struct Calls(Arc<Pending>, Cookie);

impl Drop for Calls {
    fn drop(&mut self) {
        let wake = Watcher::Wake(Waker::noop().clone());
        assert!(self.0.watch(self.1, wake).is_none());
        self.0.forget_watchers();
    }
}

#[test]
fn a_search_goes_on_behind_a_task_that_panics_when_it_is_woken() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let pending = Pending::default();
    let [bad, good] = [(); 2].map(|()| pending.take_slot(1));
    let wake = Watcher::Wake(Arc::new(Panics).into());
    assert!(pending.watch(bad, wake).is_none());
    let call = Watcher::Call(Box::new(|_, _| ()));
    assert!(pending.watch(good, call).is_none());
    let mut n_run = 0;
    let mut search = || pending.search_departed(1, |_| true, |_| n_run += 1);
    let search_first = std::panic::AssertUnwindSafe(&mut search);
    assert!(std::panic::catch_unwind(search_first).is_err());
    search();
    assert_eq!(n_run, 1);
}
