//! Loom models of the promises of [`word`] and [`memory`], one operation at a time.

use loom::sync::Arc;
use loom::thread;

use crate::sync::model::each;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::{memory, word};

/// Two threads each change a word and then read the other one. At least one of them sees the
/// other's change.
fn no_two_miss_each_other(before: u64, change: fn(&AtomicU64)) {
    each(|| {
        loom::model(move || {
            let words = Arc::new([AtomicU64::new(before), AtomicU64::new(before)]);
            let other = {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    change(&words[0]);
                    word::load(&words[1])
                })
            };
            change(&words[1]);
            let seen = [word::load(&words[0]), other.join().unwrap()];
            assert_ne!(seen, [before, before], "both miss each other");
        });
    });
}

#[test]
fn loom_of_two_words_that_are_exchanged_one_is_seen() {
    no_two_miss_each_other(1, |word| {
        word::swap(word, 2);
    });
    no_two_miss_each_other(1, |word| {
        assert!(word::compare_exchange(word, 1, 2).is_ok())
    });
    no_two_miss_each_other(1, |word| {
        word::update(word, |bits| bits + 1);
    });
}

#[test]
fn loom_of_two_sums_one_is_seen() {
    no_two_miss_each_other(1, |word| {
        word::add(word, 2);
    });
}

#[test]
fn loom_of_two_words_whose_bits_are_changed_one_is_seen() {
    no_two_miss_each_other(1, |word| {
        word::and(word, 2);
    });
    no_two_miss_each_other(1, |word| {
        word::or(word, 2);
    });
    no_two_miss_each_other(1, |word| {
        word::xor(word, 2);
    });
}

#[test]
fn loom_of_two_extremes_one_is_seen() {
    no_two_miss_each_other(1, |word| {
        word::min(word, 0);
    });
    no_two_miss_each_other(1, |word| {
        word::max(word, 2);
    });
}

#[test]
fn loom_what_comes_before_a_release_is_seen_with_what_comes_after_it() {
    loom::model(|| {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let other = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                words[0].store(1, Relaxed);
                memory::release();
                words[1].store(1, Relaxed);
            })
        };
        if memory::acquire_after(|| words[1].load(Relaxed)) == 1 {
            assert_eq!(words[0].load(Relaxed), 1);
        }
        other.join().unwrap();
    });
}

/// Two threads that read two words, which two others change, agree on the order of the changes.
#[test]
fn loom_two_readers_agree_on_which_word_changed_first() {
    each(|| {
        loom::model(|| {
            let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let run = |f: fn(&[AtomicU64; 2]) -> [u64; 2]| {
                let words = Arc::clone(&words);
                thread::spawn(move || f(&words))
            };
            let writer = run(|words| [word::swap(&words[0], 1), 0]);
            let one = run(|words| [word::load(&words[0]), word::load(&words[1])]);
            let other = run(|words| [word::load(&words[1]), word::load(&words[0])]);
            word::swap(&words[1], 1);
            writer.join().unwrap();
            let seen = [one.join().unwrap(), other.join().unwrap()];
            assert_ne!(seen, [[1, 0]; 2], "they disagree");
        });
    });
}
