//! The NIC alone: how requests for a line gather, and the miss rates that its cache has by itself.

use super::*;
use crate::timed::config::NicConfig;

fn nic(policy: LinePolicy, mshr_entries: u32, mshr_subentries: u32) -> Nic {
    let nic = NicConfig {
        policy,
        mshr_entries,
        mshr_subentries,
        ..NicConfig::default()
    };
    Nic::new(&TimedConfig {
        nic,
        ..TimedConfig::default()
    })
}

fn request(packet: u32) -> Subentry {
    Subentry { code: 15, packet }
}

fn cycles(n: u64) -> Time {
    Time::from_ps(n * 500)
}

#[test]
fn requests_for_a_line_on_its_way_merge_and_are_executed_one_a_cycle() {
    let mut nic = nic(LinePolicy::InvalidateWhenIdle, 64, 64);
    assert_eq!(
        nic.accept(cycles(0), 5, request(0), false),
        Accepted::Fetch(0, None)
    );
    assert_eq!(nic.want(0), Right::Shared);
    for packet in 1..4 {
        assert_eq!(
            nic.accept(cycles(1), 5, request(packet), true),
            Accepted::Waits
        );
    }
    // The W bit: one of them writes.
    assert_eq!(nic.want(0), Right::Exclusive);
    assert!(nic.filled(0, Right::Exclusive));
    for packet in 0..4 {
        let (pending, done) = nic.next_pending(cycles(100), 0).unwrap();
        assert_eq!(pending, request(packet));
        assert_eq!(done, cycles(100 + u64::from(packet) + 2));
    }
    assert_eq!(nic.next_pending(cycles(100), 0), None);
    assert_eq!(nic.close_at(0), Some(cycles(105)));
    assert_eq!(nic.close_at(0), None);
    // One more comes before the line is idle.
    assert_eq!(
        nic.accept(cycles(104), 5, request(9), true),
        Accepted::Run(cycles(106))
    );
    assert_eq!(nic.close(cycles(105), 0), Idle::BusyUntil(cycles(106)));
    let released = Released {
        line: 5,
        dirty: true,
    };
    assert_eq!(
        nic.close(cycles(106), 0),
        Idle::Released {
            released,
            recalled: false,
            again: false
        }
    );
    assert_eq!(nic.mshrs().n_used(), 0);
    assert_eq!(
        (nic.stats.misses, nic.stats.merged, nic.stats.hits),
        (1, 3, 1)
    );
}

#[test]
fn a_full_entry_and_a_lack_of_entries_hold_the_input_back() {
    let mut nic = nic(LinePolicy::InvalidateWhenIdle, 2, 2);
    assert_eq!(
        nic.accept(cycles(0), 1, request(0), true),
        Accepted::Fetch(0, None)
    );
    assert_eq!(nic.accept(cycles(0), 1, request(1), true), Accepted::Waits);
    assert_eq!(nic.accept(cycles(0), 1, request(2), true), Accepted::Full);
    assert_eq!(
        nic.accept(cycles(0), 2, request(3), true),
        Accepted::Fetch(1, None)
    );
    assert_eq!(nic.accept(cycles(0), 3, request(4), true), Accepted::Full);
    assert_eq!(nic.stats.stalls, 2);
    assert_eq!(nic.stats.requests, 3);
}

#[test]
fn a_line_whose_place_is_in_use_waits_for_it() {
    let mut nic = nic(LinePolicy::InvalidateWhenIdle, 64, 64);
    assert_eq!(
        nic.accept(cycles(0), 7, request(0), true),
        Accepted::Fetch(0, None)
    );
    let other = 7 + 1024;
    assert_eq!(
        nic.accept(cycles(1), other, request(1), true),
        Accepted::Waits
    );
    assert_eq!(
        nic.accept(cycles(2), other, request(2), false),
        Accepted::Waits
    );
    assert_eq!(nic.next_displaced(7), None);
    assert!(nic.filled(0, Right::Exclusive));
    while nic.next_pending(cycles(50), 0).is_some() {}
    assert!(matches!(
        nic.close(cycles(60), 0),
        Idle::Released { again: false, .. }
    ));
    assert_eq!(nic.next_displaced(7), Some((1, None)));
    assert!(nic.filled(1, Right::Exclusive));
    let mut packets = std::iter::from_fn(|| nic.next_pending(cycles(99), 1));
    assert_eq!(packets.next().map(|(sub, _)| sub.packet), Some(1));
    assert_eq!(packets.next().map(|(sub, _)| sub.packet), Some(2));
    assert!(packets.next().is_none());
}

#[test]
fn a_recalled_line_goes_before_requests_that_came_after_the_recall() {
    let mut nic = nic(LinePolicy::InvalidateWhenIdle, 64, 64);
    nic.accept(cycles(0), 7, request(0), true);
    assert!(nic.filled(0, Right::Exclusive));
    while nic.next_pending(cycles(10), 0).is_some() {}
    assert_eq!(nic.recall(7), None);
    assert_eq!(nic.accept(cycles(11), 7, request(1), true), Accepted::Waits);
    let idle = nic.close(cycles(12), 0);
    assert!(
        matches!(idle, Idle::Released { again: true, .. }),
        "{idle:?}"
    );
    assert_eq!(nic.right(7), None);
    assert_eq!(nic.mshrs().entry(0).phase, Phase::Fetching);
}

/// Misses per hundred of an address stream whose every request is over before the next one comes.
fn miss_rate(policy: LinePolicy, addresses: impl Iterator<Item = u64>) -> f64 {
    let mut nic = nic(policy, 64, 64);
    let mut now = Time::ZERO;
    for address in addresses {
        now += cycles(1000);
        if let Accepted::Fetch(entry, _) = nic.accept(now, address / 64, request(0), true) {
            assert!(nic.filled(entry, Right::Exclusive));
            while nic.next_pending(now, entry).is_some() {}
            nic.close(now + cycles(10), entry);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let rate = nic.stats.misses as f64 / nic.stats.requests as f64;
    100.0 * rate
}

#[test]
fn regular_streams_miss_as_the_measured_model_of_retained_lines_says() {
    // 32 KiB walked 100 times: 512 misses in 409,600 accesses.
    let walk = (0..100).flat_map(|_| (0..32 << 10).step_by(8));
    let rate = miss_rate(LinePolicy::Retain, walk);
    assert!((rate - 0.125).abs() < 1e-9, "{rate}");
    // One pass over a long array: one miss in eight.
    let rate = miss_rate(LinePolicy::Retain, (0..1 << 20).step_by(8));
    assert!((rate - 12.5).abs() < 1e-9, "{rate}");
    // Lines that are invalidated when idle never serve a request that comes alone.
    let rate = miss_rate(LinePolicy::InvalidateWhenIdle, (0..1 << 16).step_by(8));
    assert!((rate - 100.0).abs() < 1e-9, "{rate}");
}

#[test]
fn irregular_streams_miss_as_the_measured_model_of_retained_lines_says() {
    // RAND of CircusTent: a sequential read of IDX, then an atomic on a random word of ARRAY.
    for (array_bytes, expected) in [(256 << 10, 76.2), (512 << 10, 87.8), (1 << 20, 94.1)] {
        let mut random = fastrand::Rng::with_seed(7);
        let atomics = (0..400_000_u64).map(|_| random.u64(0..array_bytes / 8) * 8);
        let rate = miss_rate(LinePolicy::Retain, atomics);
        // Random atomics alone: 1 - 64 KiB / array; what IDX adds is the rest of the measured
        // figure.
        let alone = 100.0 * (1.0 - 65_536.0 / f64::from(u32::try_from(array_bytes).unwrap()));
        assert!(
            (rate - alone).abs() < 0.7,
            "{array_bytes}: {rate} instead of {alone}"
        );
        assert!(
            (rate - expected).abs() < 1.5,
            "{array_bytes}: {rate} instead of {expected}"
        );
    }
}
