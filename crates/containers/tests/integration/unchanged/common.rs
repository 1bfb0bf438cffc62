//! What the tests of refusals share.

use pgas_am::codec::{AsSerde, Wire};
use pgas_containers::object::{Encoded, Object};
use pgas_core::backend::loopback;
use pgas_core::{Config, World};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that is not written if it begins with `!w`, and is written, but not read, if it begins
/// with `!r`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Picky(pub(crate) String);

impl Picky {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// A text that lies outside of its slot.
    pub(crate) fn long(text: &str) -> Self {
        Self(text.to_owned() + &" long".repeat(20))
    }
}

impl Serialize for Picky {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.starts_with("!w") {
            return Err(S::Error::custom("is never written"));
        }
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Picky {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.starts_with("!r") {
            return Err(D::Error::custom("is never read"));
        }
        Ok(Self(text))
    }
}

impl Wire for Picky {
    type By = AsSerde;
}

impl Object for Picky {
    type Repr = Encoded<28>;
}

/// Runs `body` over the reference transport, and over shared memory on both paths.
pub(crate) fn everywhere(n_ranks: u32, segment_bytes: u64, body: impl Fn(World) + Sync) {
    let mut config = Config::default();
    config.segment_bytes = Some(segment_bytes);
    loopback::run_with(n_ranks, &config, &body);
    for direct in [true, false] {
        config.direct = direct;
        pgas_smp::threads_with(n_ranks, &config, &body).unwrap();
    }
}

/// Bytes in use of this rank's heap, after the drops of all ranks. Collective.
pub(crate) fn used(world: &World) -> u64 {
    world.barrier().unwrap();
    world.reclaim().unwrap();
    world.local_heap_use().used
}
