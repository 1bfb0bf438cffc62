//! The parameters of the timed machine as one TOML file, whose defaults are Table I of the RAE paper and, where that is
//! silent, the assumptions listed in this folder's README.

use serde::{Deserialize, Deserializer, Serialize};

/// The largest cache: its tags are the simulator's own memory, on every core.
const MOST_CACHE_BYTES: u64 = 1 << 30;

/// The largest number of cycles or nanoseconds that a part may take: sums of some of them fit 32 bits.
const MOST_CYCLES: u32 = 1 << 20;

/// What makes a configuration unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The text is no TOML, or has fields or values that the configuration lacks.
    #[error("the configuration cannot be read: {0}")]
    Syntax(#[from] Box<toml::de::Error>),
    /// A value is out of range.
    #[error("{field} is {reason}")]
    Value {
        /// The table and the key.
        field: &'static str,
        /// What it was, and what it may be.
        reason: Box<str>,
    },
}

impl ConfigError {
    fn value(field: &'static str, value: u64, bounds: &str) -> Self {
        Self::Value {
            field,
            reason: format!("{value}, and must be {bounds}").into(),
        }
    }
}

/// The in-order core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CoreConfig {
    /// The clock, in MHz.
    pub clock_mhz: u32,
    /// Cycles until the result of an integer multiplication can be used.
    pub multiply_cycles: u32,
    /// Cycles that an integer division or remainder keeps the core busy.
    pub divide_cycles: u32,
    /// Cycles until the result of a floating-point addition, multiplication, conversion or comparison can be used.
    pub float_cycles: u32,
    /// Cycles that a floating-point division or square root keeps the core busy.
    pub float_divide_cycles: u32,
    /// Cycles lost behind a jump or a taken branch.
    pub taken_branch_penalty: u32,
    /// Remote operations in flight at once. With 1 the core waits at each for its reply; with more it goes on until it needs
    /// a result, runs out of these, or meets a fence.
    pub outstanding_remote: u32,
    /// Cycles to look an object id up.
    pub lookup_cycles: u32,
}

impl Default for CoreConfig {
    fn default() -> Self {
        Self {
            clock_mhz: 2000,
            multiply_cycles: 3,
            divide_cycles: 20,
            float_cycles: 4,
            float_divide_cycles: 20,
            taken_branch_penalty: 0,
            outstanding_remote: 1,
            lookup_cycles: 1,
        }
    }
}

/// One level of the core's caches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CacheConfig {
    /// Its capacity.
    pub bytes: u64,
    /// Its associativity.
    pub ways: u32,
    /// Core cycles from the lookup until a hit's data can be used; for the second level, behind the miss in the first.
    pub hit_cycles: u32,
}

/// A cache as a configuration writes it: what it leaves out is as in the defaults of its level.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheTable {
    bytes: Option<u64>,
    ways: Option<u32>,
    hit_cycles: Option<u32>,
}

impl CacheTable {
    fn over(self, default: &CacheConfig) -> CacheConfig {
        CacheConfig {
            bytes: self.bytes.unwrap_or(default.bytes),
            ways: self.ways.unwrap_or(default.ways),
            hit_cycles: self.hit_cycles.unwrap_or(default.hit_cycles),
        }
    }
}

fn first_level<'de, D: Deserializer<'de>>(text: D) -> Result<CacheConfig, D::Error> {
    CacheTable::deserialize(text).map(|table| table.over(&TimedConfig::default().l1))
}

fn second_level<'de, D: Deserializer<'de>>(text: D) -> Result<CacheConfig, D::Error> {
    CacheTable::deserialize(text).map(|table| table.over(&TimedConfig::default().l2))
}

/// The directory that stands between a node's core and its NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DirectoryConfig {
    /// Core cycles for one request.
    pub cycles: u32,
    /// Core cycles to invalidate or fetch a copy over the coherence bus, there and back.
    pub bus_cycles: u32,
}

impl Default for DirectoryConfig {
    fn default() -> Self {
        Self {
            cycles: 2,
            bus_cycles: 8,
        }
    }
}

/// What the NIC does with a line when no request for it is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinePolicy {
    /// Writes it back, invalidates it, and frees its directory entry, as the paper's text says.
    #[default]
    InvalidateWhenIdle,
    /// Keeps it until another line or the core wants its place, which alone explains the paper's miss rates.
    Retain,
}

/// The NIC that executes remote operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NicConfig {
    /// Core cycles to make a packet and hand it to the router.
    pub send_cycles: u32,
    /// Core cycles to take a packet from the router and apart.
    pub receive_cycles: u32,
    /// Core cycles to look an operation up in the mapping table.
    pub mapping_cycles: u32,
    /// Core cycles from one executed operation to the next.
    pub operation_cycles: u32,
    /// Core cycles of an access to a line that is present.
    pub hit_cycles: u32,
    /// Capacity of its direct-mapped cache.
    pub cache_bytes: u64,
    /// Lines that may be fetched or worked on at once.
    pub mshr_entries: u32,
    /// Requests that may wait for one line.
    pub mshr_subentries: u32,
    /// Request packets that it can hold before the router has to wait.
    pub input_packets: u32,
    /// What happens to an idle line.
    pub policy: LinePolicy,
}

impl Default for NicConfig {
    fn default() -> Self {
        Self {
            send_cycles: 3,
            receive_cycles: 3,
            mapping_cycles: 1,
            operation_cycles: 1,
            hit_cycles: 2,
            cache_bytes: 64 << 10,
            mshr_entries: 64,
            mshr_subentries: 64,
            input_packets: 4,
            policy: LinePolicy::InvalidateWhenIdle,
        }
    }
}

/// The two-dimensional mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeshConfig {
    /// Routers in a row; 0 for the smallest number whose square holds all nodes.
    pub columns: u32,
    /// The clock, in MHz.
    pub clock_mhz: u32,
    /// Width of a link: what it moves in a cycle.
    pub flit_bits: u32,
    /// Cycles through a router.
    pub router_cycles: u32,
    /// Cycles along a link.
    pub link_cycles: u32,
    /// Packets that each input of a router can hold of requests, and as many of replies.
    pub buffer_packets: u32,
}

impl Default for MeshConfig {
    fn default() -> Self {
        Self {
            columns: 0,
            clock_mhz: 2000,
            flit_bits: 32,
            router_cycles: 2,
            link_cycles: 1,
            buffer_packets: 2,
        }
    }
}

/// The memory behind a node's directory; numbers of cycles are those of its command clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DramConfig {
    /// The command clock in MHz; data moves twice a cycle.
    pub clock_mhz: u32,
    /// Ranks that share the channel.
    pub ranks: u32,
    /// Banks of a rank.
    pub banks: u32,
    /// Bytes of a row over all chips of a rank.
    pub row_bytes: u64,
    /// CL: read command to data.
    pub read_cycles: u32,
    /// CWL: write command to data.
    pub write_cycles: u32,
    /// RCD: activation to read or write.
    pub activate_cycles: u32,
    /// RP: precharge to activation.
    pub precharge_cycles: u32,
    /// RAS: activation to precharge.
    pub row_open_cycles: u32,
    /// RRD: activation to activation of another bank of the rank.
    pub activate_gap_cycles: u32,
    /// CCD: column command to column command.
    pub column_gap_cycles: u32,
    /// Burst of one line on the data bus.
    pub burst_cycles: u32,
    /// WR: end of written data to precharge.
    pub write_recovery_cycles: u32,
    /// RTP: read to precharge.
    pub read_to_precharge_cycles: u32,
    /// WTR: end of written data to a read.
    pub write_to_read_cycles: u32,
    /// Lines that wait to be written at most.
    pub write_buffer_lines: u32,
    /// How long the bus has to be idle before a line is written.
    pub write_idle_cycles: u32,
    /// REFI: from one refresh of a rank to the next, in ns; 0 for memory that needs none.
    pub refresh_interval_ns: u32,
    /// RFC: how long a refresh occupies a rank, in ns.
    pub refresh_ns: u32,
}

impl Default for DramConfig {
    fn default() -> Self {
        Self {
            clock_mhz: 1200,
            ranks: 2,
            banks: 16,
            row_bytes: 8 << 10,
            read_cycles: 15,
            write_cycles: 12,
            activate_cycles: 15,
            precharge_cycles: 15,
            row_open_cycles: 39,
            activate_gap_cycles: 6,
            column_gap_cycles: 4,
            burst_cycles: 4,
            write_recovery_cycles: 18,
            read_to_precharge_cycles: 9,
            write_to_read_cycles: 9,
            write_buffer_lines: 32,
            write_idle_cycles: 16,
            refresh_interval_ns: 7800,
            refresh_ns: 350,
        }
    }
}

/// The parameters of every node and of the network.
///
/// # Examples
/// ```
/// use pgas_riscv_sim::timed::config::TimedConfig;
///
/// let config = TimedConfig::from_toml("[core]\noutstanding_remote = 16\n")?;
/// assert_eq!(config.core.outstanding_remote, 16);
/// assert_eq!(config.l2.bytes, 8 << 20);
/// # Ok::<(), pgas_riscv_sim::timed::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimedConfig {
    /// Bytes of a line in every cache.
    pub line_bytes: u64,
    /// The core.
    pub core: CoreConfig,
    /// The first level of its data caches.
    #[serde(deserialize_with = "first_level")]
    pub l1: CacheConfig,
    /// The second level, which holds all that the first does.
    #[serde(deserialize_with = "second_level")]
    pub l2: CacheConfig,
    /// The directory.
    pub directory: DirectoryConfig,
    /// The NIC.
    pub nic: NicConfig,
    /// The network.
    pub mesh: MeshConfig,
    /// The memory.
    pub dram: DramConfig,
}

impl Default for TimedConfig {
    fn default() -> Self {
        Self {
            line_bytes: 64,
            core: CoreConfig::default(),
            l1: CacheConfig {
                bytes: 16 << 10,
                ways: 8,
                hit_cycles: 4,
            },
            l2: CacheConfig {
                bytes: 8 << 20,
                ways: 8,
                hit_cycles: 8,
            },
            directory: DirectoryConfig::default(),
            nic: NicConfig::default(),
            mesh: MeshConfig::default(),
            dram: DramConfig::default(),
        }
    }
}

impl TimedConfig {
    /// Reads a configuration; what the text leaves out keeps its default.
    ///
    /// # Errors
    /// [`ConfigError`] if the text is no such configuration or a value is out of range.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(Box::new)?;
        config.validate()?;
        Ok(config)
    }

    /// Checks that a machine can be built of these values.
    ///
    /// # Errors
    /// [`ConfigError::Value`] for the first value that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        power_of_two("line_bytes", self.line_bytes, 8, 4096)?;
        for (field, cache) in [("l1", &self.l1), ("l2", &self.l2)] {
            within(field, u64::from(cache.ways), 1, 64, "of 1 to 64 ways")?;
            within(
                field,
                cache.bytes,
                1,
                MOST_CACHE_BYTES,
                "of 1 byte to 1 GiB",
            )?;
            let set_bytes = self.line_bytes * u64::from(cache.ways);
            let n_sets = cache.bytes / set_bytes;
            if n_sets * set_bytes != cache.bytes || !n_sets.is_power_of_two() {
                return Err(ConfigError::value(
                    field,
                    cache.bytes,
                    "a power of two of sets",
                ));
            }
        }
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

    /// Whether the host has memory for the tags and queues of one more node: what cannot be had would else end the process.
    pub(super) fn check_memory(&self, node: u16, n_cores: u16) -> Result<(), ConfigError> {
        let words = |bytes: u64| bytes / self.line_bytes;
        let cores = u64::from(n_cores);
        let nic = &self.nic;
        let waiting = u64::from(nic.mshr_entries) * u64::from(nic.mshr_subentries);
        let parts = [
            ("l1.bytes", self.l1.bytes, words(self.l1.bytes) * cores),
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
            ("nic.receive_cycles", nic.receive_cycles),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_table_one() {
        let config = TimedConfig::from_toml("").unwrap();
        assert_eq!(config, TimedConfig::default());
        assert_eq!(config.core.clock_mhz, 2000);
        assert_eq!((config.l1.bytes, config.l1.ways), (16 << 10, 8));
        assert_eq!((config.l2.bytes, config.l2.ways), (8 << 20, 8));
        assert_eq!(config.nic.cache_bytes / config.line_bytes, 1024);
        assert_eq!(
            (config.nic.mshr_entries, config.nic.mshr_subentries),
            (64, 64)
        );
        assert_eq!(config.mesh.flit_bits, 32);
    }

    #[test]
    fn a_table_that_leaves_something_out_keeps_the_default_of_it() {
        let text = "[l1]\nways = 4\n[l2]\nbytes = 1048576\n[nic]\nhit_cycles = 9\n";
        let config = TimedConfig::from_toml(text).unwrap();
        let default = TimedConfig::default();
        assert_eq!((config.l1.ways, config.l1.bytes), (4, default.l1.bytes));
        assert_eq!(
            (config.l2.bytes, config.l2.ways),
            (1 << 20, default.l2.ways)
        );
        assert_eq!(config.l2.hit_cycles, default.l2.hit_cycles);
        assert_eq!(config.nic.cache_bytes, default.nic.cache_bytes);
    }

    #[test]
    fn a_written_configuration_reads_back_as_it_was() {
        let mut config = TimedConfig::default();
        config.nic.policy = LinePolicy::Retain;
        config.dram.refresh_interval_ns = 0;
        let text = toml::to_string(&config).unwrap();
        assert!(text.contains("policy = \"retain\""), "{text}");
        assert_eq!(TimedConfig::from_toml(&text).unwrap(), config);
    }

    #[test]
    fn misspelt_fields_and_bad_values_are_refused_by_name() {
        for (text, named) in [
            ("[core]\nclock = 3\n", "clock"),
            ("line_bytes = 48\n", "line_bytes"),
            ("[l1]\nbytes = 3000\nways = 8\nhit_cycles = 1\n", "l1"),
            ("[l2]\nsize = 3000\n", "size"),
            ("[nic]\nmshr_entries = 0\n", "nic.mshr_entries"),
            ("[dram]\nrefresh_ns = 9000\n", "dram.refresh_ns"),
            ("[mesh]\nflit_bits = 0\n", "mesh.flit_bits"),
            ("[nic]\npolicy = \"keep\"\n", "keep"),
            (
                "[l2]\nbytes = 4611686018427387904\nways = 8\nhit_cycles = 8\n",
                "l2",
            ),
            ("[l1]\nbytes = 0\nways = 8\nhit_cycles = 1\n", "l1"),
            (
                "[l1]\nbytes = 16384\nways = 8\nhit_cycles = 4294967295\n",
                "l1.hit_cycles",
            ),
            ("[mesh]\nrouter_cycles = 4294967295\n", "mesh.router_cycles"),
            ("[mesh]\ncolumns = 4294967295\n", "mesh.columns"),
            ("[dram]\nread_cycles = 4294967295\n", "dram.read_cycles"),
            (
                "[dram]\nrefresh_interval_ns = 4294967295\n",
                "dram.refresh_interval_ns",
            ),
        ] {
            let message = TimedConfig::from_toml(text).unwrap_err().to_string();
            assert!(message.contains(named), "{text}: {message}");
        }
    }
}
