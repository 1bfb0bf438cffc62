//! Messages: each is delivered once and whole, and back-pressure never blocks the job.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use pgas_core::backend::{HandlerId, Message, MessageClass, Offer, Sent};
use pgas_core::{Error, Rank, Result, World};

use super::{case, case_alone};
use crate::Case;
use crate::support::{assert_panics, caught, neighbour, random_bytes};
use pgas_testkit::rng;

pub(super) const CASES: &[Case] = &[
    case_alone!(1, messages_of_every_size_arrive_whole),
    case_alone!(1, a_message_is_the_concatenation_of_its_parts),
    case_alone!(1, messages_are_written_where_the_transport_has_room),
    case_alone!(1, a_flood_from_all_to_all_arrives_once_each),
    case_alone!(1, requests_are_answered_under_back_pressure),
    case_alone!(1, a_handler_may_answer_at_once),
    case_alone!(1, messages_behind_a_handler_that_panicked_arrive),
    case_alone!(1, threads_of_a_rank_send_and_serve_together),
    case_alone!(1, a_message_that_is_too_long_is_refused),
    case_alone!(1, messages_are_served_inside_a_barrier),
    case_alone!(1, a_message_for_nobody_is_an_error_that_names_the_handler),
    case_alone!(1, reserved_and_taken_handlers_are_refused),
    case_alone!(1, waiting_inside_a_handler_is_an_error),
    case_alone!(2, a_full_queue_does_not_stop_one_sided_operations),
];

/// The handlers of these cases.
const FIRST: HandlerId = HandlerId(HandlerId::N_RESERVED + 20);
const SECOND: HandlerId = HandlerId(HandlerId::N_RESERVED + 21);

/// Sends, and makes progress while there is no room.
fn send(
    world: &World,
    to: Rank,
    class: MessageClass,
    handler: HandlerId,
    parts: &[&[u8]],
) -> Result<()> {
    world.wait_for("messages", || {
        Ok(world.try_send(to, class, handler, parts)? == Sent::Accepted)
    })
}

/// A list that handlers append to.
struct Shared<T>(Arc<Mutex<Vec<T>>>);

impl<T: Send + 'static> Shared<T> {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn push(&self, value: T) {
        self.lock().push(value);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn another(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

fn messages_of_every_size_arrive_whole(world: &World) -> Result<()> {
    let capabilities = world.capabilities();
    let (short, medium) = (capabilities.max_short, capabilities.max_medium);
    let mut sizes: Vec<usize> = (0..=300)
        .chain(short.saturating_sub(9)..=short + 9)
        .collect();
    sizes.extend((0..medium).step_by(509));
    sizes.extend([medium - 1, medium]);
    sizes.retain(|size| *size <= medium);

    let received = Shared::new();
    let inbox = received.another();
    let previous = neighbour(world, world.n_ranks() - 1);
    world.set_handler(FIRST, move |_, message| {
        inbox.push((message.from, message.class, message.payload.to_vec()));
    });
    world.barrier()?;
    let next = neighbour(world, 1);
    let payload = |size: usize| random_bytes(&mut rng(size as u64), size);
    for class in [MessageClass::Request, MessageClass::Reply] {
        for &size in &sizes {
            send(world, next, class, FIRST, &[&payload(size)])?;
        }
        world.wait_for("messages", || Ok(received.lock().len() == sizes.len()))?;
        let mut seen = std::mem::take(&mut *received.lock());
        seen.sort_by_key(|message| message.2.len());
        let mut expected = sizes.clone();
        expected.sort_unstable();
        for ((from, seen_class, bytes), size) in seen.into_iter().zip(expected) {
            assert_eq!((from, seen_class), (previous, class));
            assert!(bytes == payload(size), "a message of {size} bytes");
        }
        world.barrier()?;
    }
    Ok(())
}

fn a_message_is_the_concatenation_of_its_parts(world: &World) -> Result<()> {
    let received = Shared::new();
    let inbox = received.another();
    world.set_handler(FIRST, move |_, message| {
        inbox.push(message.payload.to_vec());
    });
    world.barrier()?;
    let next = neighbour(world, 1);
    let all = random_bytes(&mut rng(90), 400);
    let cuts: [&[usize]; 6] = [
        &[],
        &[0],
        &[1],
        &[8, 48],
        &[0, 0, 400],
        &[3, 5, 47, 49, 399],
    ];
    for cut in cuts {
        let mut parts: Vec<&[u8]> = Vec::new();
        let mut from = 0;
        for &to in cut {
            parts.push(&all[from..to]);
            from = to;
        }
        parts.push(&all[from..]);
        send(world, next, MessageClass::Request, FIRST, &parts)?;
    }
    send(world, next, MessageClass::Request, FIRST, &[])?;
    world.wait_for("messages", || Ok(received.lock().len() == cuts.len() + 1))?;
    let seen = std::mem::take(&mut *received.lock());
    let empty = seen.iter().filter(|bytes| bytes.is_empty()).count();
    let whole = seen.iter().filter(|bytes| **bytes == all).count();
    assert_eq!((empty, whole), (1, cuts.len()));
    world.barrier()
}

fn messages_are_written_where_the_transport_has_room(world: &World) -> Result<()> {
    let (next, received) = (neighbour(world, 1), Shared::new());
    let seen = received.another();
    world.set_handler(FIRST, move |_, message| seen.push(message.payload.to_vec()));
    world.barrier()?;
    let sizes = [0, 1, 8, 100, 500];
    for size in sizes {
        let payload = random_bytes(&mut rng(size as u64), size);
        let mut place = None;
        world.wait_for("room for a message", || {
            Ok(match world.prepare_in_place(next, size)? {
                Offer::InPlace(offered) => {
                    place = Some(offered);
                    true
                }
                Offer::BackPressure => false,
                Offer::Elsewhere => true,
            })
        })?;
        let Some(mut place) = place else {
            // The transport copies; or this one message, since it is long or for this rank.
            send(
                world,
                next,
                MessageClass::Request,
                FIRST,
                &[b"opening.", &payload],
            )?;
            continue;
        };
        assert_eq!((place.to(), place.world().rank()), (next, world.rank()));
        place[..size].copy_from_slice(&payload);
        let mut offered = Some(place);
        while let Some(place) = offered {
            let message = (MessageClass::Request, FIRST);
            offered = place.try_commit(message.0, message.1, b"opening.", size)?;
            world.progress()?;
        }
    }
    world.wait_for("the messages", || Ok(received.lock().len() == sizes.len()))?;
    let mut received = std::mem::take(&mut *received.lock());
    received.sort_by_key(Vec::len);
    for (size, seen) in sizes.into_iter().zip(received) {
        let payload = random_bytes(&mut rng(size as u64), size);
        assert_eq!(seen, [&b"opening."[..], &payload].concat());
    }
    world.barrier()
}

fn a_flood_from_all_to_all_arrives_once_each(world: &World) -> Result<()> {
    const EACH: u64 = 300;
    let received = Shared::new();
    let inbox = received.another();
    world.set_handler(FIRST, move |_, message| {
        let (number, rest) = message.payload.split_at(8);
        let number = u64::from_ne_bytes(number.try_into().expect("eight bytes"));
        // Length and content follow from the sender and the number.
        assert_eq!(rest.len(), flood_length(number), "from {}", message.from);
        let byte = flood_byte(message.from, number);
        assert!(rest.iter().all(|b| *b == byte), "from {}", message.from);
        inbox.push((message.from, number));
    });
    world.barrier()?;
    for number in 0..EACH {
        let mut targets: Vec<Rank> = world.ranks().collect();
        rng(number).shuffle(&mut targets);
        for to in targets {
            let filling = vec![flood_byte(world.rank(), number); flood_length(number)];
            let parts: [&[u8]; 2] = [&number.to_ne_bytes(), &filling];
            send(world, to, MessageClass::Request, FIRST, &parts)?;
        }
    }
    let n = world.n_ranks() as usize * usize::try_from(EACH).expect("small");
    world.wait_for("messages", || Ok(received.lock().len() >= n))?;
    world.barrier()?;
    let mut seen = std::mem::take(&mut *received.lock());
    seen.sort_unstable();
    let expected: Vec<(Rank, u64)> = world
        .ranks()
        .flat_map(|from| (0..EACH).map(move |number| (from, number)))
        .collect();
    assert!(seen == expected, "each message once");
    Ok(())
}

fn flood_length(number: u64) -> usize {
    usize::try_from(number * 37 % 200).expect("small")
}

fn flood_byte(from: Rank, number: u64) -> u8 {
    u8::try_from((u64::from(from.number()) * 41 + number) % 251).expect("below 251")
}

/// Handlers cannot wait, so replies that meet back-pressure are kept and sent later.
fn requests_are_answered_under_back_pressure(world: &World) -> Result<()> {
    const EACH: u64 = 150;
    let finished = world.alloc_symmetric::<u64>(1)?;
    let todo = Shared::new();
    let questions = todo.another();
    world.set_handler(FIRST, move |_, message| {
        assert_eq!(message.class, MessageClass::Request);
        questions.push((message.from, word_of(&message)));
    });
    let answers = Shared::new();
    let inbox = answers.another();
    world.set_handler(SECOND, move |_, message| {
        assert_eq!(message.class, MessageClass::Reply);
        inbox.push(word_of(&message));
    });
    world.barrier()?;
    let answer = || -> Result<()> {
        loop {
            let Some((to, x)) = todo.lock().pop() else {
                return Ok(());
            };
            let square = (x * x).to_ne_bytes();
            if world.try_send(to, MessageClass::Reply, SECOND, &[&square])? == Sent::BackPressure {
                todo.push((to, x));
                return Ok(());
            }
        }
    };
    for x in 0..EACH {
        for to in world.ranks() {
            send(world, to, MessageClass::Request, FIRST, &[&x.to_ne_bytes()])?;
            answer()?;
        }
    }
    let asked = EACH * u64::from(world.n_ranks());
    world.wait_for("messages", || {
        answer()?;
        Ok(answers.lock().len() as u64 >= asked)
    })?;
    // Other ranks may still wait for answers of this rank.
    finished.on(Rank::ZERO).fetch_add(world, 1)?;
    world.wait_for("messages", || {
        answer()?;
        Ok(finished.on(Rank::ZERO).atomic_load(world)? == u64::from(world.n_ranks()))
    })?;
    let squares: u64 = (0..EACH).map(|x| x * x).sum();
    let sum: u64 = answers.lock().iter().sum();
    assert_eq!(sum, squares * u64::from(world.n_ranks()));
    assert_eq!(answers.lock().len() as u64, asked);
    world.barrier()
}

/// A handler tries to send the reply itself. The rank sends replies that met back-pressure.
fn a_handler_may_answer_at_once(world: &World) -> Result<()> {
    const EACH: u64 = 100;
    let finished = world.alloc_symmetric::<u64>(1)?;
    let late = Shared::new();
    let list = late.another();
    world.set_handler(FIRST, move |world, message| {
        let (to, x) = (message.from, word_of(&message));
        let answer = (x + 1).to_ne_bytes();
        let sent = world.try_send(to, MessageClass::Reply, SECOND, &[&answer]);
        if sent.expect("a short message") == Sent::BackPressure {
            list.push((to, answer));
        }
    });
    let answers = Shared::new();
    let inbox = answers.another();
    world.set_handler(SECOND, move |_, message| inbox.push(word_of(&message)));
    world.barrier()?;
    for x in 0..EACH {
        for to in world.ranks() {
            send(world, to, MessageClass::Request, FIRST, &[&x.to_ne_bytes()])?;
        }
    }
    let send_late = || -> Result<()> {
        let kept = std::mem::take(&mut *late.lock());
        for (to, answer) in kept {
            send(world, to, MessageClass::Reply, SECOND, &[&answer])?;
        }
        Ok(())
    };
    let asked = EACH * u64::from(world.n_ranks());
    let mut told = false;
    world.wait_for("all ranks' answers", || {
        send_late()?;
        if !told && answers.lock().len() as u64 == asked {
            finished.on(Rank::ZERO).fetch_add(world, 1)?;
            told = true;
        }
        let done = finished.on(Rank::ZERO).atomic_load(world)?;
        Ok(done == u64::from(world.n_ranks()))
    })?;
    let sum: u64 = answers.lock().iter().sum();
    assert_eq!(sum, u64::from(world.n_ranks()) * EACH * (EACH + 1) / 2);
    world.barrier()
}

thread_local! {
    /// Whether this thread catches panics of handlers.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// The panic of a handler passes through the call that made progress. A program that catches it
/// still receives all other messages, each once, and its senders get their room back.
fn messages_behind_a_handler_that_panicked_arrive(world: &World) -> Result<()> {
    const EACH: u64 = 200;
    let seen = Shared::new();
    let n_panicked = Arc::new(AtomicU64::new(0));
    for (handler, period) in [(FIRST, 7), (SECOND, 3)] {
        let (seen, n_panicked) = (seen.another(), Arc::clone(&n_panicked));
        world.set_handler(handler, move |_, message| {
            let word = word_of(&message);
            seen.push((message.class as usize, message.from, word));
            // A message may come before its receiver has begun to catch panics.
            if word.is_multiple_of(period) && CATCHES.get() {
                n_panicked.fetch_add(1, Ordering::Relaxed);
                panic!("the handler of message {word}");
            }
        });
    }
    world.barrier()?;
    let mut n_caught = 0;
    let mut until = |ready: &mut dyn FnMut() -> Result<bool>| {
        loop {
            CATCHES.set(true);
            let waited = caught(|| world.wait_for("messages", &mut *ready));
            CATCHES.set(false);
            match waited {
                Ok(waited) => return waited,
                Err(_) => n_caught += 1,
            }
        }
    };
    let kinds = [
        (MessageClass::Request, FIRST),
        (MessageClass::Reply, SECOND),
    ];
    for number in 0..EACH {
        for to in world.ranks() {
            for (class, handler) in kinds {
                let word = number.to_ne_bytes();
                until(&mut || Ok(world.try_send(to, class, handler, &[&word])? == Sent::Accepted))?;
            }
        }
    }
    let all = 2 * EACH * u64::from(world.n_ranks());
    until(&mut || Ok(seen.lock().len() as u64 >= all))?;
    world.barrier()?;
    assert_eq!(n_caught, n_panicked.load(Ordering::Relaxed));
    let mut seen = std::mem::take(&mut *seen.lock());
    seen.sort_unstable();
    let expected = [0, 1].into_iter().flat_map(|class| {
        let words = move |from| (0..EACH).map(move |word| (class, from, word));
        world.ranks().flat_map(words)
    });
    assert!(
        seen.into_iter().eq(expected),
        "a message was lost, or came twice"
    );
    Ok(())
}

fn threads_of_a_rank_send_and_serve_together(world: &World) -> Result<()> {
    const THREADS: u64 = 3;
    const EACH: u64 = 100;
    let received = Shared::new();
    let inbox = received.another();
    world.set_handler(FIRST, move |_, message| inbox.push(word_of(&message)));
    world.barrier()?;
    let next = neighbour(world, 1);
    let run = &|thread: u64| -> Result<()> {
        for i in 0..EACH {
            let payload = (thread * EACH + i).to_ne_bytes();
            send(world, next, MessageClass::Request, FIRST, &[&payload])?;
        }
        let all = usize::try_from(THREADS * EACH).expect("small");
        world.wait_for("messages", || Ok(received.lock().len() >= all))
    };
    let outcomes: Vec<Result<()>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|i| scope.spawn(move || run(i))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
        threads.into_iter().map(join).collect()
    });
    outcomes.into_iter().collect::<Result<()>>()?;
    world.barrier()?;
    let mut seen = std::mem::take(&mut *received.lock());
    seen.sort_unstable();
    assert_eq!(seen, (0..THREADS * EACH).collect::<Vec<_>>());
    Ok(())
}

fn word_of(message: &Message<'_>) -> u64 {
    u64::from_ne_bytes(message.payload.try_into().expect("eight bytes"))
}

fn a_message_that_is_too_long_is_refused(world: &World) -> Result<()> {
    let received = Shared::new();
    let inbox = received.another();
    world.set_handler(FIRST, move |_, message| inbox.push(message.payload.len()));
    world.barrier()?;
    let limit = world.capabilities().max_medium;
    let long = vec![0; limit + 1];
    let next = neighbour(world, 1);
    for parts in [&[&long[..]][..], &[&long[..limit], &long[..1]]] {
        let error = world
            .try_send(next, MessageClass::Request, FIRST, parts)
            .expect_err("too long");
        let Error::MessageTooLong {
            to,
            bytes,
            limit: told,
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((to, bytes, told as usize), (next, limit as u64 + 1, limit));
        assert!(error.to_string().contains(&limit.to_string()));
    }
    send(world, next, MessageClass::Request, FIRST, &[b"end"])?;
    world.wait_for("messages", || Ok(!received.lock().is_empty()))?;
    world.barrier()?;
    assert_eq!(*received.lock(), [3]);
    world.barrier()
}

fn messages_are_served_inside_a_barrier(world: &World) -> Result<()> {
    const N: u64 = 200;
    let served = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&served);
    world.set_handler(FIRST, move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    world.barrier()?;
    if world.rank() == Rank::ZERO {
        // More than any queue holds: this ends only if the others serve messages in the barrier
        // below.
        for i in 0..N {
            for to in world.ranks() {
                let payload = i.to_ne_bytes();
                send(world, to, MessageClass::Request, FIRST, &[&payload])?;
            }
        }
    }
    world.barrier()?;
    world.wait_for("messages", || Ok(served.load(Ordering::Relaxed) == N))?;
    world.barrier()
}

/// Each rank sends to itself. A message from another rank might arrive in a barrier, which then
/// fails.
fn a_message_for_nobody_is_an_error_that_names_the_handler(world: &World) -> Result<()> {
    let nobody = HandlerId(12345);
    let sent = world.try_send(world.rank(), MessageClass::Request, nobody, &[])?;
    assert_eq!(sent, Sent::Accepted, "an empty queue has room");
    let error = world
        .wait_for("messages", || world.progress().map(|_| false))
        .expect_err("a stray message");
    let text = error.to_string();
    assert!(text.contains("12345"), "{text}");
    assert!(text.contains(&format!("rank {}", world.rank())), "{text}");
    world.barrier()
}

fn reserved_and_taken_handlers_are_refused(world: &World) -> Result<()> {
    let reserved = HandlerId(HandlerId::N_RESERVED - 1);
    assert_panics("reserved", || world.set_handler(reserved, |_, _| {}));
    world.set_handler(FIRST, |_, _| {});
    assert_panics("set already", || world.set_handler(FIRST, |_, _| {}));
    let nowhere = Rank::new(world.n_ranks());
    assert_panics("the job has ranks 0 to", || {
        world.try_send(nowhere, MessageClass::Request, FIRST, &[])
    });
    world.barrier()
}

/// A wait might need the thread that runs the handler.
fn waiting_inside_a_handler_is_an_error(world: &World) -> Result<()> {
    let outcomes = Shared::new();
    let list = outcomes.another();
    let is_inside = AtomicBool::new(false);
    world.set_handler(FIRST, move |world, _| {
        // Handlers do not nest: the second message has arrived, and is served after this handler
        // has returned.
        assert!(
            !is_inside.swap(true, Ordering::Relaxed),
            "a handler runs inside of one"
        );
        list.push(world.barrier());
        list.push(world.wait_for("godot", || Ok(true)));
        list.push(world.progress().map(drop));
        is_inside.store(false, Ordering::Relaxed);
    });
    world.barrier()?;
    for _ in 0..2 {
        send(world, world.rank(), MessageClass::Request, FIRST, &[])?;
    }
    world.wait_for("the handlers", || Ok(outcomes.lock().len() == 6))?;
    let mut seen = std::mem::take(&mut *outcomes.lock()).into_iter();
    for _ in 0..2 {
        for what in ["a barrier", "godot"] {
            let error = seen.next().expect("six outcomes").expect_err("refused");
            assert!(matches!(error, Error::InHandler { .. }), "{error}");
            assert!(error.to_string().contains(what), "{error}");
        }
        seen.next().expect("six outcomes")?;
    }
    // The refused barrier has not begun.
    world.barrier()
}

/// While a rank's queues are full and it makes no progress, its memory can still be read and
/// written, unless the transport says that it needs the target.
fn a_full_queue_does_not_stop_one_sided_operations(world: &World) -> Result<()> {
    let word = world.alloc_symmetric::<u64>(2)?;
    let served = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&served);
    world.set_handler(FIRST, move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    world.barrier()?;
    let needs = world.capabilities().needs_target;
    let (from, to) = (Rank::ZERO, Rank::new(1));
    if world.rank() == from && !(needs.put || needs.get || needs.atomics) {
        let mut sent = 0_u64;
        let filling = [7; 200];
        while sent < 100_000
            && world.try_send(to, MessageClass::Request, FIRST, &[&filling])? == Sent::Accepted
        {
            sent += 1;
        }
        word.on(to).put(world, 5)?;
        world.flush(to)?;
        assert_eq!(word.on(to).get(world)?, 5);
        assert_eq!(word.on(to).fetch_add(world, 1)?, 5);
        word.on(to).add(1).atomic_store(world, sent + 1)?;
    } else if world.rank() == from {
        word.on(to).add(1).atomic_store(world, 1)?;
    }
    world.barrier()?;
    if world.rank() == to {
        let sent = word.here().add(1).atomic_load(world)? - 1;
        world.wait_for("messages", || Ok(served.load(Ordering::Relaxed) == sent))?;
    }
    world.barrier()
}
