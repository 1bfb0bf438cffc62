//! Routes between any two ranks, for many numbers of ranks.

use std::collections::HashMap;

use super::*;

const SIZES: [u32; 18] = [
    1, 2, 3, 4, 5, 7, 8, 11, 16, 27, 31, 64, 97, 100, 127, 128, 251, 256,
];

/// All routes between `n_ranks` ranks, with several numbers of ranks per host.
fn routes(n_ranks: u32) -> impl Iterator<Item = Route> {
    let shapes = [1, 2, 3, 5, 8, 64]
        .into_iter()
        .filter(move |n| *n <= n_ranks);
    shapes.flat_map(move |per_host| Route::all(Shape { n_ranks, per_host }))
}

/// Elements between any two ranks arrive, through ranks that exist, and both ranks of each hop know
/// of it.
#[test]
fn every_element_comes_to_its_rank() {
    for n_ranks in SIZES {
        let ranks = || (0..n_ranks).map(Rank::new);
        for route in routes(n_ranks) {
            for (from, to) in ranks().flat_map(|from| ranks().map(move |to| (from, to))) {
                let mut at = from;
                for hop in 0..route.n_hops() {
                    let next = route.next(hop, at, to);
                    assert!(next.number() < n_ranks, "{route:?} {from} {to}");
                    assert_eq!(route.target(hop, at, route.lane(hop, to)), Some(next));
                    at = next;
                }
                assert_eq!(at, to, "{route:?} from {from}");
            }
        }
    }
}

#[test]
fn a_rank_knows_how_many_send_to_it() {
    for n_ranks in SIZES {
        for route in routes(n_ranks) {
            for hop in 0..route.n_hops() {
                let mut sources: HashMap<Rank, u32> = HashMap::new();
                for from in (0..n_ranks).map(Rank::new) {
                    let lanes = 0..route.n_lanes_of(hop);
                    for to in lanes.filter_map(|lane| route.target(hop, from, lane)) {
                        *sources.entry(to).or_default() += 1;
                    }
                }
                for at in (0..n_ranks).map(Rank::new) {
                    let n = sources.get(&at).copied().unwrap_or(0);
                    assert_eq!(route.n_sources(hop, at), n, "{route:?} hop {hop} at {at}");
                }
            }
        }
    }
}

/// No two lanes of a rank go to the same rank.
#[test]
fn each_lane_has_its_own_rank() {
    for n_ranks in SIZES {
        for route in routes(n_ranks) {
            for (hop, at) in
                (0..route.n_hops()).flat_map(|hop| (0..n_ranks).map(move |at| (hop, at)))
            {
                let lanes = 0..route.n_lanes_of(hop);
                let targets = lanes.filter_map(|lane| route.target(hop, Rank::new(at), lane));
                let mut targets: Vec<Rank> = targets.collect();
                let n = targets.len();
                targets.sort_unstable();
                targets.dedup();
                assert_eq!(targets.len(), n, "{route:?} hop {hop} at {at}");
            }
        }
    }
}

#[test]
fn lanes_grow_with_the_root_of_the_number_of_ranks() {
    let lanes = |n_ranks, routing| {
        let route = Route::of(Shape::one_rank_a_host(n_ranks), routing);
        assert_eq!(route.routing(), routing);
        route.n_lanes()
    };
    assert_eq!(lanes(65_536, Routing::Direct), 65_536);
    assert_eq!(lanes(65_536, Routing::Grid), 512);
    assert_eq!(lanes(65_536, Routing::Cube), 121);
    for n_ranks in [100, 1000, 12_345, 65_521, 1 << 20] {
        let root = |power: f64| f64::from(n_ranks).powf(1.0 / power);
        #[expect(clippy::cast_precision_loss, reason = "thousands of lanes")]
        let lanes = |routing| lanes(n_ranks, routing) as f64;
        assert!(lanes(Routing::Grid) <= 2.0 * root(2.0) + 2.0);
        assert!(lanes(Routing::Cube) <= 3.0 * root(3.0) + 6.0);
    }
}

#[test]
fn where_there_are_few_ranks_routes_are_shorter() {
    let routing = |n_ranks, routing| Route::of(Shape::one_rank_a_host(n_ranks), routing).routing();
    assert_eq!(routing(3, Routing::Grid), Routing::Direct);
    assert_eq!(routing(4, Routing::Grid), Routing::Grid);
    assert_eq!(routing(7, Routing::Cube), Routing::Grid);
    assert_eq!(routing(8, Routing::Cube), Routing::Cube);
}

/// Nobody divides by the number of ranks of a host.
#[test]
fn a_shape_without_ranks_on_a_host_has_one_on_each() {
    let (n_ranks, per_host) = (100, 0);
    let shape = Shape { n_ranks, per_host };
    let alone = Shape::one_rank_a_host(n_ranks);
    assert_eq!(shape.n_hosts(), alone.n_hosts());
    assert!(Route::all(shape).eq(Route::all(alone)));
    for route in Route::all(shape) {
        let predict = |shape| Model::shipped().predict(&route, shape, 4096).time_ns;
        assert!(predict(shape) == predict(alone), "{route:?}");
    }
}

/// The first hop stays on the host, and all elements of a host for one rank of another host leave
/// by one rank.
#[test]
fn what_a_host_sends_is_put_together_on_it() {
    let shape = Shape {
        n_ranks: 96,
        per_host: 8,
    };
    let host = |rank: Rank| rank.number() / 8;
    let is_by_host = |route: &Route| route.n_lanes_of(0) == 8;
    let by_host: Vec<Route> = Route::all(shape).filter(is_by_host).collect();
    assert_eq!(by_host.len(), 2);
    for route in by_host {
        for to in (0..96).map(Rank::new) {
            for from in (0..96).map(Rank::new) {
                let via = route.next(0, from, to);
                assert_eq!((host(via), via.number() % 8), (host(from), to.number() % 8));
            }
        }
    }
}

#[test]
fn a_shape_is_what_all_ranks_have_seen() {
    let agreed = |seen: &[[u64; 2]]| {
        let least = seen.iter().map(|[least, _]| *least).min().unwrap();
        let most = seen.iter().map(|[_, most]| *most).max().unwrap();
        Shape::agreed(10, [least, most]).per_host
    };
    assert_eq!(agreed(&[[4, 4], [4, 4], [u64::MAX, 2]]), 4);
    assert_eq!(agreed(&[[4, 4], [1, 3], [u64::MAX, 3]]), 1);
    assert_eq!(agreed(&[[4, 4], [u64::MAX, 6]]), 1);
    assert_eq!(agreed(&[[10, 10]]), 10);
}

#[test]
fn ranks_that_share_memory_are_one_host() {
    let shapes = pgas_smp::threads(5, |world| {
        let [least, most] = Shape::seen_by(&world.team());
        Shape::agreed(world.n_ranks(), [least, most])
    });
    let [n_ranks, per_host] = [5; 2];
    assert_eq!(shapes.unwrap(), [Shape { n_ranks, per_host }; 5]);
}
