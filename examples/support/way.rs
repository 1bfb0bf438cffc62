//! How operations on other ranks' memory travel: as it is near or not.

use std::fmt;

use pgas::World;
use pgas::collective::op::Min;

/// How operations come to the ranks that have what they work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One by one, by instructions of the rank that asks.
    Direct,
    /// Many for one rank together.
    Aggregated,
}

impl Way {
    /// The faster way: one by one only where all memory is near, as on one host. Collective.
    pub(crate) fn of(world: &World) -> pgas::Result<Self> {
        let is_near = world.ranks().all(|rank| world.is_direct(rank));
        let all_are_near = world.allreduce(u8::from(is_near), Min)? == 1;
        Ok(if all_are_near {
            Self::Direct
        } else {
            Self::Aggregated
        })
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Aggregated => "aggregated",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
