//! Which values a machine can be built of, and whether the host has memory for it.

use super::{ConfigError, TimedConfig};

/// The largest cache: its tags are the simulator's own memory, on every core.
const MOST_CACHE_BYTES: u64 = 1 << 30;

/// The largest number of cycles or nanoseconds that a part may take: sums of some of them fit 32
/// bits.
const MOST_CYCLES: u32 = 1 << 20;

impl TimedConfig {
    /// Checks that a machine can be built of these values.
    ///
    /// # Errors
    /// [`ConfigError::Value`] for the first value that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        power_of_two("line_bytes", self.line_bytes, 8, 4096)?;
        self.check_cache("l1", self.l1.bytes, self.l1.ways)?;
        if let Some(l1i) = &self.l1i {
            self.check_cache("l1i", l1i.bytes, l1i.ways)?;
        }
        self.check_cache("l2", self.l2.bytes, self.l2.ways)?;
        power_of_two(
            "nic.cache_bytes",
            self.nic.cache_bytes,
            self.line_bytes,
            1 << 30,
        )?;
        self.check_small()?;
        self.check_times()?;
        within(
            "mesh.flit_bits",
            u64::from(self.mesh.flit_bits),
            8,
            512,
            "8 to 512",
        )?;
        power_of_two(
            "dram.row_bytes",
            self.dram.row_bytes,
            self.line_bytes,
            1 << 30,
        )?;
        self.check_refresh()
    }

    fn check_cache(&self, field: &'static str, bytes: u64, ways: u32) -> Result<(), ConfigError> {
        within(field, u64::from(ways), 1, 64, "of 1 to 64 ways")?;
        within(field, bytes, 1, MOST_CACHE_BYTES, "of 1 byte to 1 GiB")?;
        let set_bytes = self.line_bytes * u64::from(ways);
        let n_sets = bytes / set_bytes;
        if n_sets * set_bytes != bytes || !n_sets.is_power_of_two() {
            return Err(ConfigError::value(field, bytes, "a power of two of sets"));
        }
        Ok(())
    }

    /// Whether the host has memory for the tags and queues of one more node: what cannot be had
    /// would else end the process.
    pub(in crate::timed) fn check_memory(
        &self,
        node: u16,
        n_cores: u16,
    ) -> Result<(), ConfigError> {
        let words = |bytes: u64| bytes / self.line_bytes;
        let cores = u64::from(n_cores);
        let l1i_bytes = self.l1i.as_ref().map_or(0, |l1i| l1i.bytes);
        let nic = &self.nic;
        let waiting = u64::from(nic.mshr_entries) * u64::from(nic.mshr_subentries);
        let parts = [
            ("l1.bytes", self.l1.bytes, words(self.l1.bytes) * cores),
            ("l1i.bytes", l1i_bytes, words(l1i_bytes) * cores),
            ("l2.bytes", self.l2.bytes, words(self.l2.bytes)),
            (
                "nic.cache_bytes",
                nic.cache_bytes,
                3 * words(nic.cache_bytes),
            ),
            ("nic.mshr_subentries", nic.mshr_subentries.into(), waiting),
        ];
        // A place of the NIC's cache takes three words, and all else of a node little beside this.
        let rest = 1 << 18;
        let n_words = parts.iter().map(|(_, _, n_words)| n_words).sum::<u64>() + rest;
        let has =
            usize::try_from(n_words).is_ok_and(|n| Vec::<u64>::new().try_reserve_exact(n).is_ok());
        if has {
            return Ok(());
        }
        let largest = parts.into_iter().max_by_key(|(_, _, n_words)| *n_words);
        let (field, value, _) = largest.unwrap_or(("l2.bytes", self.l2.bytes, 0));
        let bounds =
            format!("smaller: this host has no memory for node {node} with {n_cores} cores");
        Err(ConfigError::value(field, value, &bounds))
    }

    fn check_small(&self) -> Result<(), ConfigError> {
        let small = [
            ("core.clock_mhz", self.core.clock_mhz, 100_000),
            ("core.outstanding_remote", self.core.outstanding_remote, 64),
            ("nic.send_cycles", self.nic.send_cycles, 1 << 20),
            ("nic.operation_cycles", self.nic.operation_cycles, 1 << 20),
            ("nic.mshr_entries", self.nic.mshr_entries, 254),
            ("nic.mshr_subentries", self.nic.mshr_subentries, 1 << 16),
            ("nic.input_packets", self.nic.input_packets, 1 << 16),
            ("mesh.clock_mhz", self.mesh.clock_mhz, 100_000),
            ("mesh.link_cycles", self.mesh.link_cycles, 1 << 20),
            ("mesh.buffer_packets", self.mesh.buffer_packets, 255),
            ("dram.clock_mhz", self.dram.clock_mhz, 100_000),
            ("dram.ranks", self.dram.ranks, 64),
            ("dram.banks", self.dram.banks, 1024),
            (
                "dram.write_buffer_lines",
                self.dram.write_buffer_lines,
                4096,
            ),
            ("dram.burst_cycles", self.dram.burst_cycles, 1 << 20),
        ];
        small.into_iter().try_for_each(|(field, value, most)| {
            within(
                field,
                u64::from(value),
                1,
                most,
                "at least 1 and not absurdly large",
            )
        })
    }

    /// Times that may be zero; sums of them must not wrap.
    fn check_times(&self) -> Result<(), ConfigError> {
        let (core, nic, dram) = (&self.core, &self.nic, &self.dram);
        let times = [
            ("core.multiply_cycles", core.multiply_cycles),
            ("core.divide_cycles", core.divide_cycles),
            ("core.float_cycles", core.float_cycles),
            ("core.float_divide_cycles", core.float_divide_cycles),
            ("core.taken_branch_penalty", core.taken_branch_penalty),
            ("core.lookup_cycles", core.lookup_cycles),
            ("l1.hit_cycles", self.l1.hit_cycles),
            ("l2.hit_cycles", self.l2.hit_cycles),
            ("directory.cycles", self.directory.cycles),
            ("directory.bus_cycles", self.directory.bus_cycles),
            ("directory.busy_cycles", self.directory.busy_cycles),
            ("nic.receive_cycles", nic.receive_cycles),
            ("nic.packet_cycles", nic.packet_cycles),
            ("nic.mapping_cycles", nic.mapping_cycles),
            ("nic.hit_cycles", nic.hit_cycles),
            ("mesh.columns", self.mesh.columns),
            ("mesh.router_cycles", self.mesh.router_cycles),
            ("dram.read_cycles", dram.read_cycles),
            ("dram.write_cycles", dram.write_cycles),
            ("dram.activate_cycles", dram.activate_cycles),
            ("dram.precharge_cycles", dram.precharge_cycles),
            ("dram.row_open_cycles", dram.row_open_cycles),
            ("dram.activate_gap_cycles", dram.activate_gap_cycles),
            ("dram.column_gap_cycles", dram.column_gap_cycles),
            ("dram.write_recovery_cycles", dram.write_recovery_cycles),
            (
                "dram.read_to_precharge_cycles",
                dram.read_to_precharge_cycles,
            ),
            ("dram.write_to_read_cycles", dram.write_to_read_cycles),
            ("dram.write_idle_cycles", dram.write_idle_cycles),
            ("dram.refresh_interval_ns", dram.refresh_interval_ns),
            ("dram.refresh_ns", dram.refresh_ns),
        ];
        times.into_iter().try_for_each(|(field, value)| {
            let most = u64::from(MOST_CYCLES);
            within(field, u64::from(value), 0, most, "at most 1048576")
        })
    }

    fn check_refresh(&self) -> Result<(), ConfigError> {
        let interval = self.dram.refresh_interval_ns;
        if interval > 0 && self.dram.refresh_ns >= interval {
            return Err(ConfigError::value(
                "dram.refresh_ns",
                u64::from(self.dram.refresh_ns),
                "less than refresh_interval_ns",
            ));
        }
        Ok(())
    }
}

fn within(
    field: &'static str,
    value: u64,
    least: u64,
    most: u64,
    bounds: &'static str,
) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::value(field, value, bounds))
}

fn power_of_two(field: &'static str, value: u64, least: u64, most: u64) -> Result<(), ConfigError> {
    let bounds = "a power of two, at least one line and at most 1 GiB";
    within(field, value, least, most, bounds)?;
    if value.is_power_of_two() {
        return Ok(());
    }
    Err(ConfigError::value(field, value, bounds))
}
