//! Every interleaving of small runs, by loom.

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::*;

/// The answer is either taken, or its slot is given back by the thread that completes the call;
/// never both and never neither.
#[test]
fn loom_an_answer_and_a_drop_at_once_give_the_slot_back_once() {
    loom::model(|| {
        let pending = Arc::new(Pending::default());
        let cookie = pending.take_slot(0);
        let other = Arc::clone(&pending);
        let answer = thread::spawn(move || other.complete(cookie, Outcome::Returned, &[1; 8]));
        pending.abandon(cookie);
        assert!(answer.join().unwrap());
        assert_eq!(pending.n_taken(), 0);
        let (first, second) = (pending.take_slot(0), pending.take_slot(0));
        assert_ne!(first, second);
    });
}

/// The same of an answer that takes memory, which goes with it.
#[test]
fn loom_a_long_answer_and_a_drop_at_once_leave_no_memory() {
    for is_watched in [false, true] {
        loom::model(move || {
            let pending = Arc::new(Pending::default());
            let cookie = pending.take_slot(0);
            if is_watched {
                let waker = Watcher::Wake(Waker::noop().clone());
                assert!(pending.watch(cookie, waker).is_none());
            }
            let other = Arc::clone(&pending);
            let answer = thread::spawn(move || other.complete(cookie, Outcome::Returned, &[1; 40]));
            pending.abandon(cookie);
            assert!(answer.join().unwrap());
            assert_eq!(pending.n_taken(), 0);
            let (index, _) = cookie.parts();
            assert_eq!(lock(&pending.known(index).long).capacity(), 0);
        });
    }
}

/// A thread that sees that the answer is there reads all of it. It checks once: after a yield loom
/// returns no value that was seen before.
fn check_that_an_answer_is_whole(watch: fn(&Pending, Cookie)) {
    loom::model(move || {
        let pending = Arc::new(Pending::default());
        let cookie = pending.take_slot(0);
        watch(&pending, cookie);
        let whole = |_, bytes: &[u8]| assert_eq!(bytes, [7; 16]);
        let answer = {
            let pending = Arc::clone(&pending);
            thread::spawn(move || pending.complete(cookie, Outcome::Returned, &[7; 16]))
        };
        let asker = {
            let pending = Arc::clone(&pending);
            thread::spawn(move || {
                let is_done = pending.is_done(cookie);
                if is_done {
                    pending.take(cookie, whole);
                }
                is_done
            })
        };
        assert!(answer.join().unwrap());
        if !asker.join().unwrap() {
            pending.take(cookie, whole);
        }
        assert_eq!(pending.n_taken(), 0);
    });
}

#[test]
fn loom_an_answer_that_is_seen_is_whole() {
    check_that_an_answer_is_whole(|_, _| ());
}

#[test]
fn loom_an_answer_to_a_call_that_is_watched_is_whole() {
    check_that_an_answer_is_whole(|pending, cookie| {
        let waker = Watcher::Wake(Waker::noop().clone());
        assert!(pending.watch(cookie, waker).is_none());
    });
}

/// A callback runs once: in the thread that completes the call, or in the one that came too late to
/// set it.
#[test]
fn loom_an_action_and_an_answer_at_once_meet() {
    loom::model(|| {
        let pending = Arc::new(Pending::default());
        let n_runs = Arc::new(AtomicUsize::new(0));
        let cookie = pending.take_slot(0);
        let other = Arc::clone(&pending);
        let answer = thread::spawn(move || other.complete(cookie, Outcome::Returned, &[3; 4]));
        let seen = Arc::clone(&n_runs);
        let call: Callback = Box::new(move |_, bytes| {
            assert_eq!(bytes, [3; 4]);
            seen.fetch_add(1, Relaxed);
        });
        if let Some(Watcher::Call(call)) = pending.watch(cookie, Watcher::Call(call)) {
            pending.take(cookie, call);
        }
        assert!(answer.join().unwrap());
        assert_eq!(n_runs.load(Relaxed), 1);
        assert_eq!(pending.n_taken(), 0);
    });
}

/// Two threads that take and give back never hold one slot.
#[test]
fn loom_slots_are_handed_to_one_at_a_time() {
    loom::model(|| {
        let pending = Arc::new(Pending::default());
        let used = pending.take_slot(0);
        pending.cancel(used);
        let run = |pending: &Pending| {
            let cookie = pending.take_slot(0);
            assert!(pending.complete(cookie, Outcome::Returned, &[]));
            assert!(!pending.complete(cookie, Outcome::Returned, &[]));
            pending.take(cookie, |_, _| ());
        };
        let other = Arc::clone(&pending);
        let thread = thread::spawn(move || run(&other));
        run(&pending);
        thread.join().unwrap();
        assert_eq!(pending.n_taken(), 0);
    });
}

/// The list of free slots is followed from the head that was read.
#[test]
fn loom_a_slot_that_was_just_given_back_is_handed_on_with_what_is_behind_it() {
    loom::model(|| {
        let pending = Arc::new(Pending::default());
        let (held, behind) = (pending.take_slot(0), pending.take_slot(0));
        pending.cancel(behind);
        let giver = {
            let pending = Arc::clone(&pending);
            thread::spawn(move || pending.cancel(held))
        };
        let taker = {
            let pending = Arc::clone(&pending);
            thread::spawn(move || [(); 2].map(|()| pending.take_slot(0).parts().0))
        };
        giver.join().unwrap();
        let [one, other] = taker.join().unwrap();
        assert_ne!(one, other);
        assert_eq!(pending.n_taken(), 2);
    });
}

/// A list whose head is the same again is not taken for the same list.
#[test]
fn loom_a_slot_that_comes_back_between_a_look_and_an_exchange_is_no_old_one() {
    loom::model(|| {
        let pending = Arc::new(Pending::default());
        // As many as are held at once: loom knows nothing of the lock under which further ones are
        // made.
        let slots = [(); 4].map(|()| pending.take_slot(0));
        for cookie in slots {
            pending.cancel(cookie);
        }
        let other = Arc::clone(&pending);
        let thread = thread::spawn(move || {
            let (first, kept) = (other.take_slot(0), other.take_slot(0));
            other.cancel(first);
            kept.parts().0
        });
        let mut taken = [(); 2].map(|()| pending.take_slot(0).parts().0).to_vec();
        taken.push(thread.join().unwrap());
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 3, "each is held by one");
    });
}

/// A watched call that is dropped gives its slot back, as one that is not watched does.
#[test]
fn loom_an_answer_and_the_drop_of_who_watches_give_the_slot_back_once() {
    loom::model(|| {
        let pending = Arc::new(Pending::default());
        let cookie = pending.take_slot(0);
        let waker = Watcher::Wake(Waker::noop().clone());
        assert!(pending.watch(cookie, waker).is_none());
        let other = Arc::clone(&pending);
        let answer = thread::spawn(move || other.complete(cookie, Outcome::Returned, &[1; 8]));
        pending.abandon(cookie);
        assert!(answer.join().unwrap());
        assert_eq!(pending.n_taken(), 0);
        let (first, second) = (pending.take_slot(0), pending.take_slot(0));
        assert_ne!(first, second);
    });
}

/// Two threads that search for ranks that have left, while the callback waits, run it once, and the
/// slot is given back once.
#[test]
fn loom_an_action_whose_rank_has_left_is_run_once() {
    loom::model(|| {
        let pending = Arc::new(Pending::default());
        let n_runs = Arc::new(AtomicUsize::new(0));
        let cookie = pending.take_slot(0);
        let other = Arc::clone(&pending);
        let look = |pending: &Pending| {
            pending.search_departed(1, |_| true, |call| call(Outcome::Left, &[]))
        };
        let thread = thread::spawn(move || look(&other));
        let seen = Arc::clone(&n_runs);
        let call: Callback = Box::new(move |outcome, _| {
            assert_eq!(outcome, Outcome::Left);
            seen.fetch_add(1, Relaxed);
        });
        assert!(pending.watch(cookie, Watcher::Call(call)).is_none());
        look(&pending);
        thread.join().unwrap();
        assert_eq!(n_runs.load(Relaxed), 1);
        assert_eq!(pending.n_taken(), 0);
        let (first, second) = (pending.take_slot(0), pending.take_slot(0));
        assert_ne!(first, second);
    });
}

/// The task that awaits such a call may give it up, and make another call, during a search.
#[test]
fn loom_a_call_that_is_given_up_during_a_look_leaves_the_next_one_alone() {
    loom::model(|| {
        let pending = Arc::new(Pending::default());
        let (gone, stays) = (1, 2);
        let cookie = pending.take_slot(gone);
        let wake = || Watcher::Wake(Waker::noop().clone());
        assert!(pending.watch(cookie, wake()).is_none());
        let other = Arc::clone(&pending);
        let thread = thread::spawn(move || {
            other.search_departed(1, |rank| rank == gone, |_| panic!("it is not its action"));
        });
        pending.give_up(cookie);
        let next = pending.take_slot(stays);
        let call: Callback = Box::new(|outcome, _| assert_eq!(outcome, Outcome::Returned));
        assert!(pending.watch(next, Watcher::Call(call)).is_none());
        thread.join().unwrap();
        assert!(pending.complete(next, Outcome::Returned, &[]));
        assert_eq!(pending.n_taken(), 0);
    });
}

/// Two threads that search give the slot of an abandoned call back once.
#[test]
fn loom_an_abandoned_call_whose_rank_has_left_gives_its_slot_back_once() {
    loom::model(|| {
        let pending = Arc::new(Pending::default());
        let cookie = pending.take_slot(0);
        pending.abandon(cookie);
        let look = |pending: &Pending| {
            pending.search_departed(1, |_| true, |_| panic!("it has no action"));
        };
        let other = Arc::clone(&pending);
        let thread = thread::spawn(move || look(&other));
        look(&pending);
        thread.join().unwrap();
        assert_eq!(pending.n_taken(), 0);
        let (first, second) = (pending.take_slot(0), pending.take_slot(0));
        assert_ne!(first, second);
    });
}

/// A call that is answered, or not, and dropped during a search gives its slot back once.
#[test]
fn loom_a_call_that_is_dropped_during_a_look_gives_its_slot_back_once() {
    for (is_watched, is_answered) in [(false, false), (true, false), (true, true)] {
        loom::model(move || {
            let pending = Arc::new(Pending::default());
            let cookie = pending.take_slot(0);
            if is_watched {
                let waker = Watcher::Wake(Waker::noop().clone());
                assert!(pending.watch(cookie, waker).is_none());
            }
            if is_answered {
                assert!(pending.complete(cookie, Outcome::Returned, &[1; 8]));
            }
            let look = |pending: &Pending| {
                pending.search_departed(1, |_| true, |_| panic!("it has no action"));
            };
            let other = Arc::clone(&pending);
            let thread = thread::spawn(move || look(&other));
            pending.abandon(cookie);
            thread.join().unwrap();
            look(&pending);
            assert_eq!(pending.n_taken(), 0);
            let (first, second) = (pending.take_slot(0), pending.take_slot(0));
            assert_ne!(first, second);
        });
    }
}

/// A slot that one search has freed may be that of a call to another rank in the next moment.
#[test]
fn loom_a_call_in_a_slot_that_was_freed_during_a_look_is_left_alone() {
    loom::model(|| {
        let pending = Arc::new(Pending::default());
        let (gone, stays) = (1, 2);
        let cookie = pending.take_slot(gone);
        pending.abandon(cookie);
        let look = move |pending: &Pending| {
            pending.search_departed(1, |rank| rank == gone, |_| panic!("it has no action"));
        };
        let other = Arc::clone(&pending);
        let thread = thread::spawn(move || look(&other));
        look(&pending);
        let next = pending.take_slot(stays);
        pending.abandon(next);
        thread.join().unwrap();
        assert!(pending.complete(next, Outcome::Returned, &[]));
        assert_eq!(pending.n_taken(), 0);
    });
}
