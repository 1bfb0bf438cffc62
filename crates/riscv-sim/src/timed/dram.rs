//! DDR4 memory behind one channel: ranks of banks with an open row each.
//!
//! Reads are served in the order in which they arrive. Writes wait in a buffer, from which reads
//! are served too; they leave it when the bus has been idle for a while or, half of them at once,
//! when the buffer is full, so that the bus does not turn around for each. A request's commands are
//! placed as soon as the bank, the rank and the data bus allow, so a read's completion is known
//! when it arrives and no event is needed inside. A refresh closes all rows of its rank and keeps
//! it busy.

use std::collections::VecDeque;

use serde::Serialize;

use super::cache::Line;
use super::config::DramConfig;
use super::time::{Clock, Time};

/// What the memory counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DramStats {
    /// Lines read.
    pub reads: u64,
    /// Lines written.
    pub writes: u64,
    /// Reads served from the buffer of writes.
    pub forwarded: u64,
    /// Requests that found their row open.
    pub row_hits: u64,
    /// Requests that found no row open.
    pub row_misses: u64,
    /// Requests that found another row open.
    pub row_conflicts: u64,
    /// Requests that had to wait for a refresh.
    pub refresh_waits: u64,
    /// Picoseconds in which data was on the bus.
    pub bus_ps: u64,
}

/// When the commands of one request are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    /// Counted over all ranks.
    bank: usize,
    precharge: Option<Time>,
    activate: Option<Time>,
    /// The read or write command.
    column: Time,
    /// The first data on the bus.
    data: Time,
    /// After the last data.
    done: Time,
}

/// The parameters as times.
#[derive(Debug)]
struct Timing {
    read: Time,
    write: Time,
    activate: Time,
    precharge: Time,
    row_open: Time,
    activate_gap: Time,
    column_gap: Time,
    burst: Time,
    write_recovery: Time,
    read_to_precharge: Time,
    write_to_read: Time,
    refresh_interval: Time,
    refresh: Time,
}

#[derive(Clone, Debug, Default)]
struct Bank {
    rank: usize,
    row: Option<u64>,
    /// The earliest next column command.
    column_from: Time,
    /// The earliest next precharge.
    precharge_from: Time,
    /// The earliest next activation.
    activate_from: Time,
    /// When the last refresh of the rank that this bank has seen began, in picoseconds counted from
    /// the rank's first turn.
    refreshed: u64,
}

#[derive(Clone, Debug, Default)]
struct Rank {
    activate_from: Time,
    read_from: Time,
    /// When its turn to be refreshed comes first, in picoseconds.
    refresh_offset: u64,
}

/// The memory of one node.
#[derive(Debug)]
pub struct Dram {
    timing: Timing,
    banks: Vec<Bank>,
    ranks: Vec<Rank>,
    /// A row has two to the power of this many lines.
    row_shift: u32,
    /// The last request's arrival.
    arrived: Time,
    bus_from: Time,
    column_from: Time,
    /// Lines to write, with their arrival.
    writes: VecDeque<(Time, Line)>,
    n_writes_most: usize,
    write_idle: Time,
    /// What it counted.
    pub stats: DramStats,
}

impl Dram {
    /// Memory with all rows closed.
    #[must_use]
    pub fn new(config: &DramConfig, line_bytes: u64) -> Self {
        let clock = Clock::from_mhz(config.clock_mhz);
        let timing = Timing {
            read: clock.cycles(config.read_cycles),
            write: clock.cycles(config.write_cycles),
            activate: clock.cycles(config.activate_cycles),
            precharge: clock.cycles(config.precharge_cycles),
            row_open: clock.cycles(config.row_open_cycles),
            activate_gap: clock.cycles(config.activate_gap_cycles),
            column_gap: clock.cycles(config.column_gap_cycles),
            burst: clock.cycles(config.burst_cycles),
            write_recovery: clock.cycles(config.write_recovery_cycles),
            read_to_precharge: clock.cycles(config.read_to_precharge_cycles),
            write_to_read: clock.cycles(config.write_to_read_cycles),
            refresh_interval: Time::from_ns(u64::from(config.refresh_interval_ns)),
            refresh: Time::from_ns(u64::from(config.refresh_ns)),
        };
        let n_ranks = super::index(u64::from(config.ranks));
        let banks_per_rank = super::index(u64::from(config.banks));
        let banks = (0..n_ranks * banks_per_rank).map(|bank| Bank {
            rank: bank / banks_per_rank,
            ..Bank::default()
        });
        let interval = timing.refresh_interval.ps();
        let ranks = (0..u64::from(config.ranks)).map(|rank| Rank {
            refresh_offset: interval * rank / u64::from(config.ranks),
            ..Rank::default()
        });
        Self {
            timing,
            banks: banks.collect(),
            ranks: ranks.collect(),
            row_shift: (config.row_bytes / line_bytes).trailing_zeros(),
            arrived: Time::ZERO,
            bus_from: Time::ZERO,
            column_from: Time::ZERO,
            writes: VecDeque::new(),
            n_writes_most: super::index(u64::from(config.write_buffer_lines)),
            write_idle: clock.cycles(config.write_idle_cycles),
            stats: DramStats::default(),
        }
    }

    /// Reads one line with a request that arrives at `at`, or behind the last request if that
    /// arrives later; gives when the data is there.
    pub fn read(&mut self, at: Time, line: Line) -> Time {
        let at = self.arrive(at);
        self.stats.reads += 1;
        self.write_while_idle(at);
        if self.writes.iter().any(|&(_, waiting)| waiting == line) {
            self.stats.forwarded += 1;
            return at + self.timing.burst;
        }
        self.issue(at, line, false).done
    }

    /// Takes one line to be written, with a request that arrives at `at`, or behind the last
    /// request if that arrives later.
    pub fn write(&mut self, at: Time, line: Line) {
        let at = self.arrive(at);
        self.stats.writes += 1;
        self.write_while_idle(at);
        self.writes.push_back((at, line));
        if self.writes.len() >= self.n_writes_most {
            for _ in 0..self.n_writes_most.div_ceil(2) {
                if let Some((_, line)) = self.writes.pop_front() {
                    self.issue(at, line, true);
                }
            }
        }
    }

    /// Requests are taken in the order in which they are made.
    fn arrive(&mut self, at: Time) -> Time {
        self.arrived = self.arrived.max(at);
        self.arrived
    }

    /// Does the writes that began before `at` because the bus had nothing else to do.
    fn write_while_idle(&mut self, at: Time) {
        while let Some(&(arrived, line)) = self.writes.front() {
            let start = arrived.max(self.bus_from) + self.write_idle;
            if start > at {
                return;
            }
            self.writes.pop_front();
            self.issue(start, line, true);
        }
    }

    /// Places the commands that read or write one line from `at` on.
    fn issue(&mut self, at: Time, line: Line, write: bool) -> Access {
        let row = line >> self.row_shift;
        let n_banks = self.banks.len() as u64;
        let bank = super::index(row % n_banks);
        let rank = self.banks[bank].rank;
        let row = row / n_banks;
        self.refresh(at, bank, rank);
        let (precharge, activate) = self.open(at, bank, rank, row);
        let access = self.transfer(at, bank, rank, write);
        self.stats.bus_ps += self.timing.burst.ps();
        Access {
            precharge,
            activate,
            ..access
        }
    }

    /// Refreshes what is due before a request that arrives at `at`. Ranks are refreshed in turn; a
    /// refresh waits for nothing, and what has begun before it ends as if it were not there.
    fn refresh(&mut self, at: Time, bank: usize, rank: usize) {
        let interval = self.timing.refresh_interval.ps();
        if interval == 0 {
            return;
        }
        let offset = self.ranks[rank].refresh_offset;
        let state = &mut self.banks[bank];
        // What queues behind earlier requests may reach the bank only after the next refresh.
        let start = at.max(match state.row {
            Some(_) => state.column_from,
            None => state.activate_from,
        });
        let since = start.ps().saturating_sub(offset);
        if since.wrapping_sub(state.refreshed) < interval {
            return;
        }
        let n_refreshes = since / interval;
        if n_refreshes * interval == state.refreshed {
            return;
        }
        state.refreshed = n_refreshes * interval;
        state.row = None;
        let end = Time::from_ps(offset + n_refreshes * interval) + self.timing.refresh;
        state.activate_from = state.activate_from.max(end);
        self.stats.refresh_waits += u64::from(end > at);
    }

    /// Has the row open; gives the times of the commands that this took.
    fn open(
        &mut self,
        at: Time,
        bank: usize,
        rank: usize,
        row: u64,
    ) -> (Option<Time>, Option<Time>) {
        let timing = &self.timing;
        let bank = &mut self.banks[bank];
        let rank = &mut self.ranks[rank];
        if bank.row == Some(row) {
            self.stats.row_hits += 1;
            return (None, None);
        }
        let precharge = if bank.row.is_some() {
            self.stats.row_conflicts += 1;
            let precharge = at.max(bank.precharge_from);
            bank.activate_from = precharge + timing.precharge;
            Some(precharge)
        } else {
            self.stats.row_misses += 1;
            None
        };
        let activate = at.max(bank.activate_from).max(rank.activate_from);
        rank.activate_from = activate + timing.activate_gap;
        bank.row = Some(row);
        bank.column_from = activate + timing.activate;
        bank.precharge_from = activate + timing.row_open;
        (precharge, Some(activate))
    }

    /// The column command and the data of a request whose row is open.
    fn transfer(&mut self, at: Time, bank: usize, rank: usize, write: bool) -> Access {
        let timing = &self.timing;
        let state = &mut self.banks[bank];
        let latency = if write { timing.write } else { timing.read };
        let mut column = at.max(state.column_from).max(self.column_from);
        if !write {
            column = column.max(self.ranks[rank].read_from);
        }
        column = column.max(self.bus_from.since(latency));
        let data = column + latency;
        let done = data + timing.burst;
        self.bus_from = done;
        self.column_from = column + timing.column_gap;
        let precharge = if write {
            self.ranks[rank].read_from = done + timing.write_to_read;
            done + timing.write_recovery
        } else {
            column + timing.read_to_precharge
        };
        state.precharge_from = state.precharge_from.max(precharge);
        Access {
            bank,
            precharge: None,
            activate: None,
            column,
            data,
            done,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn without_refresh() -> DramConfig {
        DramConfig {
            refresh_interval_ns: 0,
            ..DramConfig::default()
        }
    }

    fn cycles(n: u32) -> Time {
        Clock::from_mhz(1200).cycles(n)
    }

    const LINES_PER_ROW: u64 = 128;
    const ALL_BANKS: u64 = 32;

    #[test]
    fn a_closed_row_an_open_row_and_another_row_cost_what_the_data_sheet_says() {
        let mut dram = Dram::new(&without_refresh(), 64);
        let start = Time::from_ns(1000);
        // RCD 15 + CL 15 + 4.
        let miss = dram.issue(start, 0, false);
        assert_eq!(miss.done - start, cycles(15) + cycles(15) + cycles(4));
        // CL 15 + 4.
        let start = Time::from_ns(2000);
        let hit = dram.issue(start, 1, false);
        assert_eq!(hit.done - start, cycles(15) + cycles(4));
        // RP 15 + RCD 15 + CL 15 + 4.
        let start = Time::from_ns(3000);
        let conflict = dram.issue(start, LINES_PER_ROW * ALL_BANKS, false);
        assert_eq!(
            conflict.done - start,
            cycles(15) + cycles(15) + cycles(15) + cycles(4)
        );
        assert_eq!(
            (
                dram.stats.row_misses,
                dram.stats.row_hits,
                dram.stats.row_conflicts
            ),
            (1, 1, 1)
        );
    }

    #[test]
    fn a_row_stays_open_for_ras_before_another_opens() {
        let mut dram = Dram::new(&without_refresh(), 64);
        let first = dram.issue(Time::ZERO, 0, false);
        let second = dram.issue(Time::ZERO, LINES_PER_ROW * ALL_BANKS, false);
        assert_eq!(first.activate, Some(Time::ZERO));
        assert_eq!(second.precharge, Some(cycles(39)));
    }

    #[test]
    fn a_stream_of_row_hits_keeps_the_bus_full() {
        let mut dram = Dram::new(&without_refresh(), 64);
        let mut last = dram.issue(Time::ZERO, 0, false);
        for line in 1..100 {
            let next = dram.issue(Time::ZERO, line, false);
            assert_eq!(next.data, last.done);
            last = next;
        }
    }

    #[test]
    fn a_refresh_closes_rows_and_holds_what_arrives_in_it() {
        let mut dram = Dram::new(&DramConfig::default(), 64);
        dram.issue(Time::from_ns(7000), 0, false);
        let inside = dram.issue(Time::from_ns(7900), 1, false);
        assert_eq!(inside.activate, Some(Time::from_ns(7800 + 350)));
        assert_eq!(dram.stats.refresh_waits, 1);
        // The other rank is refreshed half an interval later.
        let other_rank = dram.issue(Time::from_ns(7900), 16 * LINES_PER_ROW, false);
        assert_eq!(other_rank.activate, Some(Time::from_ns(7900)));
        let after = dram.issue(Time::from_ns(15_000), 2, false);
        assert_eq!(after.activate, None);
        let next = dram.issue(Time::from_ns(16_000), 3, false);
        assert_eq!(next.activate, Some(Time::from_ns(16_000)));
    }

    #[test]
    fn writes_wait_for_an_idle_bus_and_serve_reads_in_the_meantime() {
        let mut dram = Dram::new(&without_refresh(), 64);
        dram.write(Time::ZERO, 7);
        assert_eq!(dram.read(Time::from_ns(1), 7), Time::from_ns(1) + cycles(4));
        // 16 idle cycles later it has begun: RCD, CWL and burst, then WTR before the read, whose
        // row is open.
        let written = cycles(16) + cycles(15) + cycles(12) + cycles(4);
        let read = dram.read(Time::from_ns(20), 7);
        assert_eq!(read, written + cycles(9) + cycles(15) + cycles(4));
        assert_eq!(
            (dram.stats.reads, dram.stats.writes, dram.stats.forwarded),
            (2, 1, 1)
        );
    }

    proptest! {
        /// Every line that is written leaves the buffer once, in order, or is still in it; and
        /// reads see it there.
        #[test]
        fn no_write_is_lost_in_the_buffer(
            steps in proptest::collection::vec((0_u64..60, 0_u64..64, any::<bool>()), 1..300),
        ) {
            let mut dram = Dram::new(&without_refresh(), 64);
            let mut at = Time::ZERO;
            let mut n_reads = 0;
            for (gap, line, write) in steps {
                at += Time::from_ns(gap);
                if write {
                    dram.write(at, line);
                    prop_assert!(dram.writes.len() < 32);
                } else {
                    let done = dram.read(at, line);
                    prop_assert!(done >= at + cycles(4));
                    n_reads += 1;
                }
            }
            let left = dram.writes.len() as u64;
            // A read that the buffer serves needs no burst.
            let n_bursts = n_reads - dram.stats.forwarded + dram.stats.writes - left;
            prop_assert_eq!(dram.stats.bus_ps, n_bursts * cycles(4).ps());
            let stats = dram.stats;
            prop_assert_eq!(stats.row_hits + stats.row_misses + stats.row_conflicts, n_bursts);
            dram.write_while_idle(Time::from_ns(1_000_000));
            prop_assert!(dram.writes.is_empty());
        }

        /// The checker knows nothing of how commands are placed: it holds every pair of them
        /// against the data sheet.
        #[test]
        fn commands_keep_every_distance_of_the_data_sheet(
            steps in proptest::collection::vec((0_u64..60, 0_u64..3000, any::<bool>()), 2..60),
        ) {
            let mut dram = Dram::new(&without_refresh(), 64);
            let mut at = Time::ZERO;
            let mut log: Vec<(Time, u64, bool, Access)> = Vec::new();
            for (gap, place, write) in steps {
                at += Time::from_ns(gap);
                let line = place * 61;
                let access = dram.issue(at, line, write);
                let latency = cycles(if write { 12 } else { 15 });
                prop_assert_eq!(access.data, access.column + latency);
                prop_assert_eq!(access.done, access.data + cycles(4));
                prop_assert!(access.column >= at);
                if let Some(activate) = access.activate {
                    prop_assert!(access.column >= activate + cycles(15));
                    if let Some(precharge) = access.precharge {
                        prop_assert!(activate >= precharge + cycles(15));
                    }
                }
                let row = line / LINES_PER_ROW;
                let mut same_bank = true;
                for &(_, other_row, other_write, other) in log.iter().rev() {
                    prop_assert!(access.data >= other.done, "bursts overlap");
                    prop_assert!(access.column >= other.column + cycles(4));
                    if access.bank / 16 == other.bank / 16 {
                        if other_write && !write {
                            prop_assert!(access.column >= other.done + cycles(9));
                        }
                        if let (Some(one), Some(two)) = (other.activate, access.activate) {
                            prop_assert!(two >= one + cycles(6));
                        }
                    }
                    if access.bank == other.bank && same_bank {
                        // Only the newest request to the bank says which row is open.
                        same_bank = false;
                        prop_assert_eq!(access.activate.is_none(), row == other_row);
                    }
                    if let (Some(precharge), true) = (access.precharge, access.bank == other.bank) {
                        let recovery = if other_write {
                            other.done + cycles(18)
                        } else {
                            other.column + cycles(9)
                        };
                        prop_assert!(precharge >= recovery);
                        let open = other.activate.map_or(Time::ZERO, |open| open + cycles(39));
                        prop_assert!(precharge >= open);
                    }
                }
                if same_bank {
                    prop_assert!(access.activate.is_some() && access.precharge.is_none());
                }
                log.push((at, row, write, access));
            }
            let stats = dram.stats;
            prop_assert_eq!(
                stats.row_hits + stats.row_misses + stats.row_conflicts,
                log.len() as u64
            );
        }
    }
}
