//! The way of operations on other ranks' memory: direct or aggregated.

use std::fmt;

use pgas::World;
use pgas::collective::op::Min;

/// The way of operations to the ranks of their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One by one, by one-sided operations.
    Direct,
    /// Aggregated by rank.
    Aggregated,
}

impl Way {
    /// The faster way: one by one only if all memory is local, as on one host. Collective.
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
