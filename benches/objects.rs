//! The cost of containers of any type. For byte-copyable elements it is compared with the bare
//! transfer, and should be nothing. For others: the time of an overwrite, and constant memory over
//! ten million overwrites.

mod support;

use std::hint::black_box;
use std::time::Instant;

use pgas::{Array, Rank, World};

fn main() {
    support::two_ranks(|world, _| measure(world), serve);
}

const N: usize = 1 << 12;

/// The collectives in which rank 1 takes part.
fn serve(world: &World) {
    drop(numbers(world));
    drop(texts(world));
}

fn numbers(world: &World) -> Array<[u64; 4]> {
    Array::new(world, Rank::new(1), N, &[0; 4]).expect("memory")
}

fn texts(world: &World) -> Array<String> {
    Array::new(world, Rank::new(1), N, &String::new()).expect("memory")
}

fn measure(world: &World) {
    let ours = numbers(world);
    let bare = ours.ptr(0);
    support::paired(
        "put of a byte-copyable element beside a bare put",
        N,
        || (0..N).for_each(|i| bare.add(i).put(world, [i as u64; 4]).expect("direct")),
        || (0..N).for_each(|i| ours.put(i, &[i as u64; 4]).expect("direct")),
    );
    let sum = |sum: u64, element: [u64; 4]| sum.wrapping_add(element[3]);
    support::paired(
        "get of a byte-copyable element beside a bare get",
        N,
        || {
            let elements = (0..N).map(|i| bare.add(i).get(world).expect("direct"));
            black_box(elements.fold(0, sum));
        },
        || {
            let elements = (0..N).map(|i| ours.get(i).expect("direct"));
            black_box(elements.fold(0, sum));
        },
    );
    overwrites(world);
}

/// Strings, of which half are too long for their slots.
fn overwrites(world: &World) {
    let n: usize = if support::is_smoke_test() {
        10_000
    } else {
        10_000_000
    };
    let array = texts(world);
    let values: Vec<String> = (0..61).map(|i| "text".repeat(i / 2)).collect();
    let mut local = vec![String::new(); N];
    let (mut floor, mut ours) = (0.0, 0.0);
    let mut after_a_tenth = 0;
    for tenth in 0..10 {
        let some = tenth * n / 10..(tenth + 1) * n / 10;
        let start = Instant::now();
        for i in some.clone() {
            local[i % N].clone_from(&values[i % values.len()]);
        }
        floor += start.elapsed().as_secs_f64();
        let start = Instant::now();
        for i in some {
            array.put(i % N, &values[i % values.len()]).expect("direct");
        }
        ours += start.elapsed().as_secs_f64();
        let used = world.local_heap_use().used;
        if tenth == 0 {
            after_a_tenth = used;
        }
        // In a smoke test there are too few overwrites for every slot to have had every length.
        assert!(
            support::is_smoke_test() || used <= after_a_tenth,
            "{after_a_tenth} bytes grow to {used}"
        );
    }
    black_box(local);
    #[expect(clippy::cast_precision_loss, reason = "a count of elements")]
    let nanoseconds = |seconds: f64| seconds * 1e9 / n as f64;
    let (floor, ours) = (nanoseconds(floor), nanoseconds(ours));
    support::report(
        "overwrite of a string beside one in private memory",
        floor,
        ours,
        ours / floor,
    );
}
