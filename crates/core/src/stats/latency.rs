//! The times of operations and waits, with `PGAS_STATS=latency`.
//!
//! Each kind has a histogram on the board: four buckets for each doubling, so that a bucket's ends
//! are a fifth apart.

use std::time::Duration;

use super::board::{LATENCIES, LATENCY_WORDS, N_TIMED};
use super::counting::{Counting, nanos};
use super::report::{Report, count, time};

/// The kinds of operations that have a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timed {
    /// A blocking get by the transport, of contiguous elements, fragments or a box, from call to
    /// return.
    Get,
    /// A blocking put by the transport, likewise; on return its source may be reused.
    Put,
    /// A blocking fetching atomic by the transport, likewise.
    Atomic,
    /// A non-blocking get by the transport, from its beginning until the rank learns of its
    /// completion.
    GetNb,
    /// A non-blocking put, likewise; it is then complete at the target.
    PutNb,
    /// A non-blocking fetching atomic, likewise.
    AtomicNb,
    /// A remote call, until its answer arrives.
    Call,
    /// A wait of more than about a microsecond.
    Wait,
}

/// All of them with their names, in the order of their histograms.
const NAMES: [(Timed, &str); N_TIMED] = [
    (Timed::Get, "gets"),
    (Timed::Put, "puts"),
    (Timed::Atomic, "atomics"),
    (Timed::GetNb, "non-blocking gets"),
    (Timed::PutNb, "non-blocking puts"),
    (Timed::AtomicNb, "non-blocking atomics"),
    (Timed::Call, "remote calls"),
    (Timed::Wait, "waits"),
];

impl Counting {
    /// Counts an operation with its time, if there are histograms.
    pub(crate) fn record(&self, kind: Timed, took: Duration) {
        if self.is_timing() {
            let at = LATENCIES + kind as usize * LATENCY_WORDS + bucket_of(nanos(took));
            self.board().add(at, 1);
        }
    }
}

/// The number of a duration's bucket.
fn bucket_of(nanos: u64) -> usize {
    let bucket = match nanos.checked_ilog2() {
        None | Some(0..2) => nanos,
        Some(power) => u64::from(power - 1) * 4 + (nanos >> (power - 2)) % 4,
    };
    usize::try_from(bucket).map_or(LATENCY_WORDS - 1, |bucket| bucket.min(LATENCY_WORDS - 1))
}

/// The shortest duration in a bucket.
fn start_of(bucket: usize) -> u64 {
    match bucket {
        0..4 => bucket as u64,
        _ => (4 + bucket as u64 % 4) << (bucket / 4 - 1),
    }
}

/// The histogram of a kind of operations: the shortest duration of each bucket that is not empty,
/// in nanoseconds, and the number of operations in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Latency {
    name: &'static str,
    buckets: Vec<(u64, u64)>,
}

impl Latency {
    fn n(&self) -> u64 {
        self.buckets.iter().map(|(_, n)| n).sum()
    }

    /// An upper bound of the time within which that many of a thousand operations end.
    fn within(&self, permille: u64) -> u64 {
        let wanted = self.n().saturating_mul(permille).div_ceil(1000);
        let mut n_seen = 0;
        let bucket = self.buckets.iter().find(|(_, n)| {
            n_seen += n;
            n_seen >= wanted
        });
        bucket.map_or(0, |(start, _)| start_of(bucket_of(*start) + 1))
    }
}

impl Report {
    /// The summed histograms of all ranks, of the kinds that were timed.
    fn latencies(&self) -> Vec<Latency> {
        let of_kind = |i: usize| {
            let n = |bucket: usize| -> u64 {
                let counts = self.ranks.iter().map(|rank| rank.latencies[i][bucket]);
                counts.fold(0, u64::saturating_add)
            };
            let buckets = (0..LATENCY_WORDS).map(|bucket| (start_of(bucket), n(bucket)));
            Latency {
                name: NAMES[i].1,
                buckets: buckets.filter(|(_, n)| *n > 0).collect(),
            }
        };
        let all = (0..N_TIMED).map(of_kind);
        all.filter(|latency| !latency.buckets.is_empty()).collect()
    }

    pub(super) fn write_latencies(&self, text: &mut String) -> std::fmt::Result {
        use std::fmt::Write as _;
        for latency in self.latencies() {
            let [half, most, all] = [500, 990, 1000].map(|part| time(latency.within(part)));
            let n = count(latency.n());
            let name = latency.name;
            writeln!(
                text,
                "  {n} {name}: half took {half}, 99 % {most}, all {all} at most"
            )?;
        }
        Ok(())
    }

    /// The histograms as a list of JSON.
    pub(super) fn json_of_latencies(&self) -> String {
        let of = |latency: &Latency| {
            let pair = |(start, n): &(u64, u64)| format!("[{start},{n}]");
            let buckets: Vec<String> = latency.buckets.iter().map(pair).collect();
            let (name, buckets) = (latency.name, buckets.join(","));
            format!("{{\"operations\":\"{name}\",\"ns_and_number\":[{buckets}]}}")
        };
        let all: Vec<String> = self.latencies().iter().map(of).collect();
        format!("[{}]", all.join(",\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_a_fifth_apart_and_leave_no_gap() {
        for bucket in 0..LATENCY_WORDS {
            let (start, next) = (start_of(bucket), start_of(bucket + 1));
            assert_eq!(bucket_of(start), bucket);
            assert_eq!(bucket_of(next - 1), bucket, "{start} to {next}");
            assert!(next <= start + (start / 4).max(1), "{start} to {next}");
        }
        assert!(start_of(LATENCY_WORDS - 1) > 1_000_000_000_000);
        assert_eq!(bucket_of(u64::MAX), LATENCY_WORDS - 1);
    }

    #[test]
    fn each_kind_has_the_histogram_of_its_name() {
        for (i, (kind, _)) in NAMES.into_iter().enumerate() {
            assert_eq!(kind as usize, i);
        }
    }

    #[test]
    fn quantiles_are_the_ends_of_their_buckets() {
        let latency = Latency {
            name: "gets",
            buckets: vec![(1, 500), (1024, 490), (1 << 20, 10)],
        };
        let within = [500, 501, 990, 991, 1000].map(|part| latency.within(part));
        assert_eq!(within, [2, 1280, 1280, 1_310_720, 1_310_720]);
    }
}
