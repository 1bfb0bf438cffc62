//! Routes by which elements travel over several ranks, if a message from each rank to each other
//! one is too expensive.
//!
//! Ranks are numbered, and a number has digits: two digits make the ranks a grid, three a cube. On
//! its way to a rank an element takes a hop for each digit, the lowest one first. A hop goes to the
//! rank that has this digit of the target's number instead of its own. So a rank sends to the ranks
//! of its row, and then to those of its column: to 512 of 65,536 in a grid, and to 121 in a cube.
//! If the lowest digit counts the ranks of a host, the first hop is within the host, and combines
//! what its ranks send to others.
//!
//! The last row of a grid may have gaps. If the rank that would pass on an element does not exist,
//! the rank one row before it does so. A path depends only on the ranks at its ends, so elements
//! with the same source and target keep their order.
//!
//! On a team, ranks are numbered as in the team.
//!
//! [`Model`] says what a route costs, and chooses one.

mod model;

pub use model::{LogGp, Model, Prediction};

use pgas_core::config::Routing;
use pgas_core::{Rank, Team};

/// The most digits of a rank's number.
const MAX_HOPS: usize = 3;

/// The hops by which elements travel between any two ranks of a job; the same on all ranks.
///
/// # Examples
///
/// ```
/// use pgas_containers::route::{Route, Shape};
/// use pgas_core::Rank;
/// use pgas_core::config::Routing;
///
/// let shape = Shape::one_rank_a_host(100);
/// assert_eq!(shape.n_hosts(), 100);
/// let route = Route::of(shape, Routing::Grid);
/// let [from, to] = [12, 78].map(Rank::new);
/// let between = route.next(0, from, to);
/// assert_eq!((between, route.next(1, between, to)), (Rank::new(18), to));
/// assert_eq!((route.n_ranks(), route.n_hops(), route.routing()), (100, 2, Routing::Grid));
/// assert_eq!([0, 1].map(|hop| route.n_lanes_of(hop)), [10, 10]);
/// assert_eq!((route.n_lanes(), Route::direct(100).n_lanes()), (20, 100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    n_ranks: u32,
    n_hops: usize,
    /// The number of values of each digit, the lowest digit first; one for unused digits.
    radices: [u32; MAX_HOPS],
}

/// The number of ranks, and the number of them that share a host.
///
/// # Examples
///
/// See [`Route`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// All ranks.
    pub n_ranks: u32,
    /// Ranks of each host, with consecutive numbers; 1 if the hosts have different numbers of
    /// ranks. 0 is taken as 1.
    pub per_host: u32,
}

impl Shape {
    /// Ranks that share no memory.
    #[must_use]
    pub fn one_rank_a_host(n_ranks: u32) -> Self {
        let per_host = 1;
        Self { n_ranks, per_host }
    }

    /// The number of hosts.
    #[must_use]
    pub fn n_hosts(self) -> u32 {
        self.n_ranks.div_ceil(self.per_host.max(1))
    }

    /// This rank's part of [`agreed`](Self::agreed): the minimum and maximum number of ranks that
    /// hosts may have.
    pub(crate) fn seen_by(team: &Team) -> [u64; 2] {
        let (here, n_ranks) = (team.rank(), team.n_ranks());
        let is_local = |member: &u32| team.world().is_direct(team.world_rank(*member));
        let n_before = (0..here).rev().take_while(is_local).count() as u64;
        let n_behind = (here + 1..n_ranks).take_while(is_local).count() as u64;
        let (first, len) = (u64::from(here) - n_before, n_before + 1 + n_behind);
        let is_last = first + len == n_ranks.into();
        let least = match () {
            // The last host may have fewer ranks than the others.
            () if is_last && first > 0 => u64::MAX,
            () if first.is_multiple_of(len) => len,
            () => 1,
        };
        [least, len]
    }

    /// The shape, by the smallest of the first and the largest of the second numbers that ranks
    /// have seen.
    pub(crate) fn agreed(n_ranks: u32, [least, most]: [u64; 2]) -> Self {
        let per_host = if least == most { most } else { 1 };
        let per_host = u32::try_from(per_host).unwrap_or(1);
        Self { n_ranks, per_host }
    }
}

impl Route {
    /// The route without hops in between.
    #[must_use]
    pub fn direct(n_ranks: u32) -> Self {
        Self::with_low_digits(n_ranks, &[])
    }

    /// The route of that kind with the fewest lanes, or one with fewer hops where there are too few
    /// ranks.
    #[must_use]
    pub fn of(shape: Shape, routing: Routing) -> Self {
        let of_kind = Self::all(shape).filter(|route| route.routing() == routing);
        of_kind
            .min_by_key(|route| route.n_lanes())
            .unwrap_or_else(|| match routing {
                Routing::Cube => Self::of(shape, Routing::Grid),
                Routing::Direct | Routing::Grid => Self::direct(shape.n_ranks),
            })
    }

    /// All possible routes for a shape, the shortest first: with a digit for the ranks of a host,
    /// and without.
    pub(crate) fn all(shape: Shape) -> impl Iterator<Item = Self> {
        let Shape { n_ranks, per_host } = shape;
        let (square, cube) = (n_ranks.isqrt(), cube_root(n_ranks));
        let hosts = shape.n_hosts().isqrt();
        let low_digits = [
            &[][..],
            &[per_host],
            &[square],
            &[per_host, hosts],
            &[cube, cube],
        ]
        .map(<[u32]>::to_vec);
        let is_of_use = move |digits: &Vec<u32>| {
            let n_below: u32 = digits.iter().product();
            digits.iter().all(|radix| *radix > 1) && n_below <= n_ranks / 2
        };
        let kept = low_digits
            .into_iter()
            .filter(move |digits| digits.is_empty() || is_of_use(digits));
        kept.map(move |digits| Self::with_low_digits(n_ranks, &digits))
    }

    /// The route for numbers with these low digits, and a highest digit that covers the rest. All
    /// numbers whose highest digit is zero are ranks.
    fn with_low_digits(n_ranks: u32, low: &[u32]) -> Self {
        let mut radices = [1; MAX_HOPS];
        radices[..low.len()].copy_from_slice(low);
        radices[low.len()] = n_ranks.div_ceil(low.iter().product());
        let n_hops = low.len() + 1;
        Self {
            n_ranks,
            n_hops,
            radices,
        }
    }

    /// The kind of the route, by its number of hops.
    #[must_use]
    pub fn routing(&self) -> Routing {
        match self.n_hops {
            1 => Routing::Direct,
            2 => Routing::Grid,
            _ => Routing::Cube,
        }
    }

    /// The number of ranks that it connects.
    #[must_use]
    pub fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    /// The maximum number of hops of an element.
    #[must_use]
    pub fn n_hops(&self) -> usize {
        self.n_hops
    }

    /// The maximum number of ranks for which a rank collects elements, itself included, over all
    /// hops.
    #[must_use]
    pub fn n_lanes(&self) -> u64 {
        let lanes = (0..self.n_hops).map(|hop| u64::from(self.n_lanes_of(hop)));
        lanes.sum()
    }

    /// The number of lanes of one hop: a lane for each value of the digit.
    ///
    /// # Panics
    ///
    /// If `hop` is 3 or more.
    #[must_use]
    pub fn n_lanes_of(&self, hop: usize) -> u32 {
        self.radices[hop]
    }

    /// The rank that holds an element for `to` after hop `hop`, if `at` holds it before.
    #[must_use]
    pub fn next(&self, hop: usize, at: Rank, to: Rank) -> Rank {
        if self.is_last(hop) {
            return to;
        }
        self.passing_on(hop, at, self.lane(hop, to))
    }

    /// The lane for that hop of elements for `to`.
    pub(crate) fn lane(&self, hop: usize, to: Rank) -> u32 {
        to.number() / self.stride(hop) % self.radices[hop]
    }

    /// The target of a lane of `at`; `None` if no rank has this digit.
    pub(crate) fn target(&self, hop: usize, at: Rank, lane: u32) -> Option<Rank> {
        if self.is_last(hop) {
            let to = Rank::new(self.with_digit(hop, at, lane));
            return (to.number() < self.n_ranks).then_some(to);
        }
        Some(self.passing_on(hop, at, lane))
    }

    /// The ranks whose lanes of that hop go to `at`, itself included.
    pub(crate) fn sources(&self, hop: usize, at: Rank) -> impl Iterator<Item = Rank> {
        let lane = self.lane(hop, at);
        let highest = self.stride(self.n_hops - 1);
        let numbers = (0..self.radices[hop]).flat_map(move |digit| {
            let beside = self.with_digit(hop, at, digit);
            // Also those of the next row, whose own rank may be missing.
            let behind = if self.is_last(hop) {
                None
            } else {
                beside.checked_add(highest)
            };
            [Some(beside), behind]
        });
        let ranks = numbers.flatten().filter(|rank| *rank < self.n_ranks);
        let ranks = ranks.map(Rank::new);
        ranks.filter(move |rank| self.target(hop, *rank, lane) == Some(at))
    }

    /// The number of [`sources`](Self::sources).
    pub(crate) fn n_sources(&self, hop: usize, at: Rank) -> u32 {
        u32::try_from(self.sources(hop, at).count()).unwrap_or(u32::MAX)
    }

    fn is_last(&self, hop: usize) -> bool {
        hop + 1 == self.n_hops
    }

    /// The place value of a hop's digit.
    pub(crate) fn stride(&self, hop: usize) -> u32 {
        self.radices[..hop].iter().product()
    }

    /// The number of `at` with another digit; there may be no such rank.
    fn with_digit(&self, hop: usize, at: Rank, digit: u32) -> u32 {
        let stride = self.stride(hop);
        at.number() - self.lane(hop, at) * stride + digit * stride
    }

    /// The rank that passes on elements that `at` has in a lane of a hop before the last one.
    fn passing_on(&self, hop: usize, at: Rank, lane: u32) -> Rank {
        let number = self.with_digit(hop, at, lane);
        if number < self.n_ranks {
            return Rank::new(number);
        }
        // Only the highest digit's last value has gaps, and the last hop sets that digit.
        Rank::new(number - self.stride(self.n_hops - 1))
    }
}

fn cube_root(n: u32) -> u32 {
    let is_below = |root: &u32| u64::from(*root).pow(3) <= n.into();
    (1..).take_while(is_below).last().unwrap_or(1)
}

#[cfg(test)]
mod tests;
