//! Active messages, remote calls and futures of `pgas`: they send computation to the data.
//!
//! Programs use the crate `pgas`, which has all of this; its guide has chapters on calls and
//! futures, on aggregation and on tokio.
//!
//! | layer | sends | runs at the target |
//! |---|---|---|
//! | [`message`], active messages | arguments and bytes | a handler that the target registered |
//! | [`Aggregator`] | many small items, in few messages | a function, on a slice of them |
//! | [`LocalCalls`] | a closure, to another thread of this rank | the closure, on that thread |
//! | [`DistObject`] | the name of an object | finds the target's own instance |
//! | [`rpc`], remote calls | a function and its arguments | the function; its result comes back as a [`PgasFuture`] |
//!
//! ```
//! use pgas_am::RemoteCalls;
//!
//! # let world = pgas_core::backend::loopback::world();
//! # pgas_am::attach(&world)?; // `pgas::init` and `pgas::threads` do this
//! let answer = world.rpc(world.rank(), |x: u64| x + 1, 41)?;
//! assert_eq!(answer.wait()?, 42);
//! # Ok::<(), pgas_am::Error>(())
//! ```
//!
//! # Progress
//!
//! Messages of other ranks are served inside this rank's own calls only, unless the program asks
//! for a progress thread (`PGAS_PROGRESS=thread`). As in UPC++ each call makes progress at one of
//! three levels:
//!
//! | level | progress | calls |
//! |---|---|---|
//! | none | none | `put`, `get`, atomics, `flush`; all `try_` forms, `prepare`, `try_prepare`; starting a non-blocking operation; `then`, `and_then`, `when_all`, `when_any`, [`PgasFuture::is_ready`]; everything inside a handler |
//! | internal | the transport's work, and the steps of collectives | a blocking transfer over a network, while it waits |
//! | user | also handlers, remote functions, actions chained to futures, and spawned tasks | `World::progress`, every `wait`, `barrier`, collectives; polling a future, [`PgasFuture::test`]; sending while there is no room |
//!
//! Operations of containers are made of these calls. Whether one makes progress differs from one
//! network to another, and over shared memory most make none.
//!
//! Handlers, remote functions and chained actions do not nest: progress inside one does nothing,
//! and a wait inside one is [`Error::InHandler`].
//!
//! They run on whichever thread makes progress, or on those that the program has chosen
//! ([`World::serve_here`](pgas_core::World::serve_here)). On each thread they run one at a time;
//! those of several threads, of which the progress thread is one, may run at once, unless one is
//! chosen. Threads of a rank hand calls to each other by [`LocalCalls`].
//!
//! A rank that computes for long serves no messages. Calls of other ranks then stay in its bounded
//! mailbox: they wait, they do not fail. Such a rank calls
//! [`World::progress`](pgas_core::World::progress) now and then, or has the progress thread.
//!
//! # Awaiting
//!
//! Futures and the events of core can be awaited in any executor, which then polls them repeatedly.
//! With feature `tokio` a `Driver` makes progress concurrently with a program's tasks, sleeps when
//! there is nothing to do, and wakes the tasks whose operations have completed.
//!
//! # What it does not do
//!
//! - Order messages.
//! - Send an active message of more than
//!   [`max_medium`](pgas_core::backend::Capabilities::max_medium) bytes. (A long one puts its
//!   payload separately. A remote call of up to 64 MiB goes in pieces.)
//! - Run functions of libraries that were loaded at run time.
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | built from calls; where messages that arrive go | `aggregate`, `dist_object`, `layer`, `wide` |
//! | calls by team, teams as arguments | `team_calls`, `teams` |
//! | the interface for programs | `attach`, `collectives`, `local_calls`, `message`, `rpc` |
//! | calls as messages | `way` |
//! | sending, serving and waiting | `driver`, `future`, `malformed`, `quiescence`, `send`, `serve` |
//! | the state of a rank | `state` |
//! | sending | `outbox` |
//! | other parts of the state; contents of messages | `answer`, `function`, `objects`, `pieces`, `put_off` |
//! | encoding; lost calls | `codec`, `lost` |
//! | names, errors, independent modules | `buffers`, `call_times`, `driven`, `error`, `identity`, `ids`, `panics`, `registry`, `set_aside`, `transfers` |

mod aggregate;
mod answer;
mod attach;
mod buffers;
mod call_times;
pub mod codec;
mod collectives;
mod dist_object;
#[cfg(feature = "tokio")]
mod driven;
#[cfg(not(feature = "tokio"))]
#[path = "driven_disabled.rs"]
mod driven;
#[cfg(feature = "tokio")]
mod driver;
mod error;
mod function;
mod future;
mod identity;
mod ids;
mod layer;
mod local_calls;
mod lost;
mod malformed;
pub mod message;
mod objects;
mod outbox;
mod panics;
mod pieces;
#[cfg(test)]
mod prices;
mod put_off;
mod quiescence;
mod registry;
pub mod rpc;
mod send;
mod serve;
mod set_aside;
mod state;
mod team_calls;
mod teams;
mod transfers;
mod way;
mod wide;

pub use aggregate::Aggregator;
pub use attach::{attach, is_attached};
pub use codec::Wire;
pub use collectives::ValueCollectives;
pub use dist_object::{DistObject, WeakObject};
#[cfg(feature = "tokio")]
pub use driver::Driver;
pub use function::Returns;
pub use future::{All, Completes, First, PgasFuture, Promise, SharedFuture, when_all, when_any};
pub use local_calls::{LocalCalls, ThreadHandle};
pub use message::{
    ActiveMessages, Origin, Payload, Prepared, PreparedReply, ReplyHandler, RequestHandler, Token,
};
/// The library's error and result.
pub use pgas_core::{Error, Result};
pub use quiescence::quiet;
pub use rpc::{Here, RemoteCalls};
pub use team_calls::TeamCalls;
pub use wide::WideAtomics;
