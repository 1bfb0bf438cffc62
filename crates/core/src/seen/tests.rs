//! What a subscriber is told.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, subscriber};

use crate::backend::{HandlerId, MessageClass, Sent};
use crate::handler::in_handler;
use crate::locks::lock;
use crate::loopback;
use crate::rank::Rank;
use crate::world::{WeakWorld, World};

/// A subscriber that records its calls. It may call the library itself.
#[derive(Clone, Default)]
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    /// The name and the number of handles of each span.
    spans: Arc<Mutex<Vec<(&'static str, u32)>>>,
    calls: Arc<OnceLock<WeakWorld>>,
}

impl Log {
    fn note(&self, text: String) {
        let place = if in_handler() { " in a handler" } else { "" };
        lock(&self.lines).push(text + place);
        if let Some(world) = self.calls.get().and_then(WeakWorld::upgrade_if_held) {
            drop(world.span("of the subscriber"));
            world.barrier().unwrap();
        }
    }

    /// The span's name, and the number of its handles after a change.
    fn span(&self, id: &Id, change: impl Fn(&mut u32)) -> (&'static str, u32) {
        let mut spans = lock(&self.spans);
        let index = usize::try_from(id.into_u64() - 1).unwrap();
        let (name, n_handles) = &mut spans[index];
        change(n_handles);
        (name, *n_handles)
    }

    /// Waits for a line, for a minute at most.
    fn wait_for(&self, line: &str) {
        let is_told = || self.told().iter().any(|told| told == line);
        let sleep = || thread::sleep(Duration::from_millis(1));
        let came = (0..60_000).any(|_| is_told() || (sleep(), false).1);
        assert!(came, "no {line}: {:#?}", self.told());
    }

    fn told(&self) -> Vec<String> {
        lock(&self.lines).clone()
    }
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        *self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "pgas"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let name = span.metadata().name();
        let mut text = format!("new {name}");
        span.record(&mut Fields(&mut text));
        let id = {
            let mut spans = lock(&self.spans);
            spans.push((name, 1));
            Id::from_u64(spans.len() as u64)
        };
        self.note(text);
        id
    }

    fn enter(&self, id: &Id) {
        let (name, _) = self.span(id, |_| ());
        self.note(format!("enter {name}"));
    }

    fn exit(&self, id: &Id) {
        let (name, _) = self.span(id, |_| ());
        self.note(format!("exit {name}"));
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.span(id, |n| *n += 1);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let (name, n) = self.span(&id, |n| *n -= 1);
        if n == 0 {
            self.note(format!("close {name}"));
        }
        n == 0
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}
}

/// What a subscriber is told of `body`.
fn told_of(body: impl FnOnce(&World, &Log)) -> Vec<String> {
    let log = Log::default();
    subscriber::with_default(log.clone(), || {
        let world = loopback::world();
        assert!(world.trace().is_none(), "it needs none");
        body(&world, &log);
    });
    log.told()
}

const SECTION: [&str; 4] = [
    "new pgas name=\"sort\" rank=0",
    "enter pgas",
    "exit pgas",
    "close pgas",
];

#[test]
fn sections_of_the_program_are_spans() {
    let told = told_of(|world, _| drop(world.span("sort")));
    assert_eq!(told, SECTION);
}

#[test]
fn a_subscriber_that_calls_the_library_is_told_of_no_call_of_its_own() {
    let told = told_of(|world, log| {
        assert!(log.calls.set(world.downgrade()).is_ok());
        drop(world.span("sort"));
    });
    assert_eq!(told, SECTION);
}

#[test]
fn phases_are_spans_that_are_not_entered() {
    let mut line = 0;
    let told = told_of(|world, _| {
        line = line!() + 1;
        let mut phase = world.phase("table", 7, "writing");
        phase.change("reading");
    });
    let new = |phase: &str, line: u32| {
        let at = format!("{}:{line}", file!());
        format!("new phase object=\"table\" phase={phase:?} at={at:?} identity=7 rank=0")
    };
    let (first, second) = (new("writing", line), new("reading", line + 1));
    assert_eq!(told, [&*first, "close phase", &second, "close phase"]);
}

#[test]
fn a_collective_beside_the_program_is_a_span_that_is_not_entered() {
    let told = told_of(|world, _| world.barrier_nb().wait().unwrap());
    assert!(
        told[0].starts_with("new collective what=\"a barrier begun by barrier_nb\" at="),
        "{told:?}"
    );
    assert!(told[1].starts_with("close collective"), "{told:?}");
    assert_eq!(told.len(), 2, "{told:?}");
}

/// The first rank waits in a barrier, and serves a message there.
#[test]
fn a_handler_runs_within_a_wait_within_a_collective() {
    const SERVED: HandlerId = HandlerId(100);
    let (log, line) = (Log::default(), OnceLock::new());
    let rank = |world: World| {
        world.set_handler(SERVED, |_, _| ());
        if world.rank() == Rank::ZERO {
            subscriber::with_default(log.clone(), || {
                line.set(line!() + 1).unwrap();
                world.barrier().unwrap();
            });
        } else {
            log.wait_for("enter wait");
            let sent = world.try_send(Rank::ZERO, MessageClass::Request, SERVED, &[b"two"]);
            assert_eq!(sent.unwrap(), Sent::Accepted);
            log.wait_for("close handler in a handler");
            world.barrier().unwrap();
        }
    };
    loopback::run(2, rank);
    let at = format!("{}:{}", file!(), line.get().unwrap());
    let expected = [
        &*format!("new collective what=\"a barrier\" at={at:?} rank=0"),
        "enter collective",
        &format!("new wait what=\"a barrier\" at={at:?} rank=0"),
        "enter wait",
        "new handler from=1 is_reply=false bytes=3 rank=0 in a handler",
        "enter handler in a handler",
        "exit handler in a handler",
        "close handler in a handler",
        "exit wait",
        "close wait",
        "exit collective",
        "close collective",
    ];
    assert_eq!(log.told(), expected);
}
