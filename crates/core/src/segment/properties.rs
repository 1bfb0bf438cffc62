//! The heaps against a plain model, over random sequences of requests.

use std::ops::Range;

use proptest::prelude::*;

use super::heap::{Block, Heap};
use super::ledger::Ledgers;
use crate::{Error, Rank, TeamId};

const ALL: TeamId = TeamId::WORLD;
const START: u64 = 4096;
const END: u64 = 4096 + 64 * 512;

#[derive(Clone, Debug)]
enum Request {
    Take {
        bytes: u64,
        align: u64,
    },
    /// A piece from above, of which others say where it ends at the latest.
    TakeHighest {
        bytes: u64,
        align: u64,
        end: u64,
    },
    Free {
        which: usize,
    },
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        3 => (0_u64..4000, 0_u32..12)
            .prop_map(|(bytes, log)| Request::Take { bytes, align: 1 << log }),
        2 => (0_u64..4000, 0_u32..12, START..END + 4096)
            .prop_map(|(bytes, log, end)| Request::TakeHighest { bytes, align: 1 << log, end }),
        2 => any::<usize>().prop_map(|which| Request::Free { which }),
    ]
}

/// The largest multiple of a granule that fits between the live blocks.
fn largest_gap(live: &[Range<u64>]) -> u64 {
    let mut sorted = live.to_vec();
    sorted.sort_by_key(|range| range.start);
    sorted.push(END..END);
    let mut at = START;
    let mut largest = 0;
    for range in sorted {
        largest = largest.max(range.start - at);
        at = range.end;
    }
    largest
}

/// Checks a block that was taken, and notes it.
fn take(
    block: &Block,
    (bytes, align): (u64, u64),
    live: &mut Vec<Range<u64>>,
    used_before: &mut Vec<u64>,
) {
    let range = block.range.clone();
    assert!(range.start >= START && range.end <= END);
    assert!(range.end - range.start >= bytes.max(1));
    assert_eq!(range.start % align.max(64), 0);
    for other in &*live {
        assert!(range.end <= other.start || other.end <= range.start);
    }
    for granule in range.clone().step_by(64) {
        let dirty = used_before.contains(&granule);
        let is_stale = block.stale.iter().any(|stale| stale.contains(&granule));
        assert!(!dirty || is_stale, "{granule} is not zeroed");
        used_before.push(granule);
    }
    let is_within = |stale: &Range<u64>| stale.start >= range.start && stale.end <= range.end;
    assert!(block.stale.iter().all(is_within));
    live.push(range);
}

proptest! {
    #[test]
    fn blocks_are_aligned_apart_and_all_recovered(
        requests in prop::collection::vec(request(), 1..200),
    ) {
        let mut heap = Heap::new("local", START..END);
        let mut twin = Heap::new("local", START..END);
        let mut live: Vec<Range<u64>> = Vec::new();
        // The starts of those that were taken from above.
        let mut from_above = Vec::new();
        let mut used_before = Vec::new();
        for request in requests {
            match request {
                Request::Take { bytes, align } => {
                    let outcome = heap.allocate(Rank::ZERO, bytes, align);
                    let again = twin.allocate(Rank::ZERO, bytes, align);
                    let Ok(block) = outcome else {
                        prop_assert!(again.is_err());
                        let Err(Error::Exhausted(what)) = outcome else {
                            panic!("another error");
                        };
                        prop_assert_eq!(what.largest, largest_gap(&live));
                        // Alignments up to a granule cost nothing, so nothing fits.
                        prop_assert!(align > 64 || bytes.max(1) > largest_gap(&live));
                        continue;
                    };
                    prop_assert_eq!(&block, &again.unwrap(), "the same requests give the same offsets");
                    take(&block, (bytes, align), &mut live, &mut used_before);
                }
                Request::TakeHighest { bytes, align, end } => {
                    let block = heap.take_highest(bytes, align, end);
                    prop_assert_eq!(&block, &twin.take_highest(bytes, align, end));
                    // No higher place is free, and if there is none, none at all.
                    let first = block.as_ref().map_or(START, |block| block.range.start + 1);
                    let n = bytes.max(1).next_multiple_of(64);
                    for start in (first.next_multiple_of(align.max(64))..=end.min(END).saturating_sub(n))
                        .step_by(align.max(64).try_into().unwrap())
                    {
                        prop_assert!(live.iter().any(|range| range.start < start + n && start < range.end));
                    }
                    if let Some(block) = block {
                        prop_assert!(block.range.end <= end);
                        take(&block, (bytes, align), &mut live, &mut used_before);
                        from_above.push(block.range.start);
                    }
                }
                Request::Free { which } if !live.is_empty() => {
                    let range = live.swap_remove(which % live.len());
                    if let Some(i) = from_above.iter().position(|start| *start == range.start) {
                        from_above.swap_remove(i);
                        prop_assert_eq!(heap.free(range.start), None);
                        heap.give_back(range.clone());
                        twin.give_back(range);
                        continue;
                    }
                    prop_assert_eq!(heap.free(range.start), Some(range.clone()));
                    prop_assert_eq!(twin.free(range.start), Some(range.clone()));
                    prop_assert_eq!(heap.free(range.start), None);
                }
                Request::Free { which } => prop_assert_eq!(heap.free(START + which as u64 % 64), None),
            }
            let used: u64 = live.iter().map(|range| range.end - range.start).sum();
            prop_assert_eq!(heap.usage().used, used);
            prop_assert_eq!(heap.usage().largest, largest_gap(&live));
        }
        for range in live {
            if from_above.contains(&range.start) {
                heap.give_back(range);
            } else {
                prop_assert!(heap.free(range.start).is_some());
            }
        }
        let usage = heap.usage();
        prop_assert_eq!((usage.used, usage.free, usage.largest), (0, END - START, END - START));
    }

    /// Three ranks that allocate alike, drop their handles as they please, and agree on what is
    /// freed.
    #[test]
    fn symmetric_heaps_stay_alike_and_free_what_all_have_dropped(
        steps in prop::collection::vec((0_u64..3000, any::<[u8; 3]>(), 0_u8..4), 1..60),
    ) {
        let new = || (Heap::new("symmetric", START..END), Ledgers::default());
        let mut ranks = [new(), new(), new()];
        // The offset, and which ranks have dropped their handles.
        let mut live: Vec<(u64, [bool; 3])> = Vec::new();
        for (bytes, picks, action) in steps {
            if action == 0 {
                // Core combines the words of all ranks by an allreduce.
                let mut words = ranks[0].1.dropped(ALL);
                for (_, ledger) in &ranks[1..] {
                    for (word, other) in words.iter_mut().zip(ledger.dropped(ALL)) {
                        *word &= other;
                    }
                }
                let (gone, kept): (Vec<_>, Vec<_>) =
                    live.iter().copied().partition(|(_, dropped)| *dropped == [true; 3]);
                for (heap, ledger) in &mut ranks {
                    let freed: Vec<u64> = ledger.reclaim(ALL, &words).ranges.into_iter().map(|r| r.start).collect();
                    let expected: Vec<u64> = gone.iter().map(|(offset, _)| *offset).collect();
                    prop_assert_eq!(&freed, &expected);
                    freed.iter().for_each(|offset| assert!(heap.free(*offset).is_some()));
                }
                live = kept;
            } else if action == 1 {
                let blocks = ranks.each_mut().map(|(heap, ledger)| {
                    let block = heap.allocate(Rank::ZERO, bytes, 8).ok()?;
                    ledger.add(ALL, block.range.clone());
                    Some(block)
                });
                prop_assert_eq!(&blocks[0], &blocks[1]);
                prop_assert_eq!(&blocks[0], &blocks[2]);
                live.extend(blocks[0].clone().map(|block| (block.range.start, [false; 3])));
            } else if !live.is_empty() {
                for (rank, ((_, ledger), pick)) in ranks.iter_mut().zip(picks).enumerate() {
                    let which = usize::from(pick) % live.len();
                    ledger.drop_handle(ALL, live[which].0);
                    live[which].1[rank] = true;
                }
            }
            prop_assert_eq!(ranks[0].0.usage(), ranks[1].0.usage());
            prop_assert_eq!(ranks[0].0.usage(), ranks[2].0.usage());
        }
    }
}
