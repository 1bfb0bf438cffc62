//! DDR4 memory behind one channel: ranks of banks with an open row each, served in the order in which requests arrive.
//!
//! A request's commands are placed as soon as the bank, the rank and the data bus allow, so its completion is known when it
//! arrives and no event is needed inside. A refresh closes all rows of its rank and keeps it busy.

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

/// When the commands of one request were given, for whoever wants to check them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The bank, counted over all ranks.
    pub bank: usize,
    /// When the row that was open was closed.
    pub precharge: Option<Time>,
    /// When the row was opened.
    pub activate: Option<Time>,
    /// The read or write command.
    pub column: Time,
    /// The first data on the bus.
    pub data: Time,
    /// After the last data.
    pub done: Time,
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
    row: Option<u64>,
    /// The earliest next column command.
    column_from: Time,
    /// The earliest next precharge.
    precharge_from: Time,
    /// The earliest next activation.
    activate_from: Time,
    /// How many refreshes of the rank this bank has seen.
    refreshes: u64,
}

#[derive(Clone, Debug, Default)]
struct Rank {
    activate_from: Time,
    read_from: Time,
}

/// The memory of one node.
#[derive(Debug)]
pub struct Dram {
    timing: Timing,
    banks: Vec<Bank>,
    ranks: Vec<Rank>,
    banks_per_rank: usize,
    lines_per_row: u64,
    bus_from: Time,
    column_from: Time,
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
        Self {
            timing,
            banks: vec![Bank::default(); n_ranks * banks_per_rank],
            ranks: vec![Rank::default(); n_ranks],
            banks_per_rank,
            lines_per_row: config.row_bytes / line_bytes,
            bus_from: Time::ZERO,
            column_from: Time::ZERO,
            stats: DramStats::default(),
        }
    }

    /// Reads or writes one line with a request that arrives at `at`, which must not be before the last one's arrival.
    pub fn access(&mut self, at: Time, line: Line, write: bool) -> Access {
        let row = line / self.lines_per_row;
        let n_banks = self.banks.len() as u64;
        let bank = super::index(row % n_banks);
        let rank = bank / self.banks_per_rank;
        let row = row / n_banks;
        self.refresh(at, bank, rank);
        let (precharge, activate) = self.open(at, bank, rank, row);
        let access = self.transfer(at, bank, rank, write);
        self.count(write);
        Access {
            precharge,
            activate,
            ..access
        }
    }

    fn count(&mut self, write: bool) {
        if write {
            self.stats.writes += 1;
        } else {
            self.stats.reads += 1;
        }
        self.stats.bus_ps += self.timing.burst.ps();
    }

    /// Refreshes what is due before a request that arrives at `at`. Ranks are refreshed in turn; a refresh waits for nothing,
    /// and what has begun before it ends as if it were not there.
    fn refresh(&mut self, at: Time, bank: usize, rank: usize) {
        let interval = self.timing.refresh_interval.ps();
        if interval == 0 {
            return;
        }
        let offset = interval * rank as u64 / self.ranks.len() as u64;
        let state = &mut self.banks[bank];
        // What queues behind earlier requests may reach the bank only after the next refresh.
        let start = at.max(match state.row {
            Some(_) => state.column_from,
            None => state.activate_from,
        });
        let n_refreshes = start.ps().saturating_sub(offset) / interval;
        if n_refreshes == state.refreshes {
            return;
        }
        state.refreshes = n_refreshes;
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
        let miss = dram.access(start, 0, false);
        assert_eq!(miss.done - start, cycles(15) + cycles(15) + cycles(4));
        // CL 15 + 4.
        let start = Time::from_ns(2000);
        let hit = dram.access(start, 1, false);
        assert_eq!(hit.done - start, cycles(15) + cycles(4));
        // RP 15 + RCD 15 + CL 15 + 4.
        let start = Time::from_ns(3000);
        let conflict = dram.access(start, LINES_PER_ROW * ALL_BANKS, false);
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
        let first = dram.access(Time::ZERO, 0, false);
        let second = dram.access(Time::ZERO, LINES_PER_ROW * ALL_BANKS, false);
        assert_eq!(first.activate, Some(Time::ZERO));
        assert_eq!(second.precharge, Some(cycles(39)));
    }

    #[test]
    fn a_stream_of_row_hits_keeps_the_bus_full() {
        let mut dram = Dram::new(&without_refresh(), 64);
        let mut last = dram.access(Time::ZERO, 0, false);
        for line in 1..100 {
            let next = dram.access(Time::ZERO, line, false);
            assert_eq!(next.data, last.done);
            last = next;
        }
    }

    #[test]
    fn a_refresh_closes_rows_and_holds_what_arrives_in_it() {
        let mut dram = Dram::new(&DramConfig::default(), 64);
        dram.access(Time::from_ns(7000), 0, false);
        let inside = dram.access(Time::from_ns(7900), 1, false);
        assert_eq!(inside.activate, Some(Time::from_ns(7800 + 350)));
        assert_eq!(dram.stats.refresh_waits, 1);
        // The other rank is refreshed half an interval later.
        let other_rank = dram.access(Time::from_ns(7900), 16 * LINES_PER_ROW, false);
        assert_eq!(other_rank.activate, Some(Time::from_ns(7900)));
        let after = dram.access(Time::from_ns(15_000), 2, false);
        assert_eq!(after.activate, None);
        let next = dram.access(Time::from_ns(16_000), 3, false);
        assert_eq!(next.activate, Some(Time::from_ns(16_000)));
    }

    proptest! {
        /// The checker knows nothing of how commands are placed: it holds every pair of them against the data sheet.
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
                let access = dram.access(at, line, write);
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
            prop_assert_eq!(stats.reads + stats.writes, log.len() as u64);
            prop_assert_eq!(
                stats.row_hits + stats.row_misses + stats.row_conflicts,
                log.len() as u64
            );
        }
    }
}
