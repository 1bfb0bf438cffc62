//! The parts of a node and of the network, with their defaults.

use serde::{Deserialize, Deserializer, Serialize};

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
    /// Cycles until the result of a floating-point addition, multiplication, conversion or
    /// comparison can be used.
    pub float_cycles: u32,
    /// Cycles that a floating-point division or square root keeps the core busy.
    pub float_divide_cycles: u32,
    /// Cycles lost behind a jump or a taken branch.
    pub taken_branch_penalty: u32,
    /// Remote operations in flight at once. With 1 the core waits at each for its reply; with more
    /// it goes on until it needs a result, runs out of these, or meets a fence.
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
    /// Core cycles from the lookup until a hit's data can be used; for the second level, behind the
    /// miss in the first.
    pub hit_cycles: u32,
}

impl CacheConfig {
    pub(super) const FIRST: Self = Self {
        bytes: 16 << 10,
        ways: 8,
        hit_cycles: 4,
    };
    pub(super) const SECOND: Self = Self {
        bytes: 8 << 20,
        ways: 8,
        hit_cycles: 8,
    };
}

/// A first level of instructions, which come without a delay from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InstructionCacheConfig {
    /// Its capacity.
    pub bytes: u64,
    /// Its associativity.
    pub ways: u32,
}

impl Default for InstructionCacheConfig {
    fn default() -> Self {
        Self {
            bytes: 16 << 10,
            ways: 8,
        }
    }
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

pub(super) fn first_level<'de, D: Deserializer<'de>>(text: D) -> Result<CacheConfig, D::Error> {
    CacheTable::deserialize(text).map(|table| table.over(&CacheConfig::FIRST))
}

pub(super) fn second_level<'de, D: Deserializer<'de>>(text: D) -> Result<CacheConfig, D::Error> {
    CacheTable::deserialize(text).map(|table| table.over(&CacheConfig::SECOND))
}

/// The directory that stands between a node's core and its NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DirectoryConfig {
    /// Core cycles for one request.
    pub cycles: u32,
    /// Core cycles to invalidate or fetch a copy over the coherence bus, there and back.
    pub bus_cycles: u32,
    /// Core cycles for which a request keeps the next one waiting; 0 if the directory takes any
    /// number at once.
    pub busy_cycles: u32,
}

impl Default for DirectoryConfig {
    fn default() -> Self {
        Self {
            cycles: 2,
            bus_cycles: 8,
            busy_cycles: 0,
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
    /// Keeps it until another line or the core wants its place, which alone explains the paper's
    /// miss rates.
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
    /// Core cycles for which a packet that is made or taken apart keeps the next one of its kind
    /// waiting; 0 if the packetizer takes any number at once. The kinds are requests and replies.
    pub packet_cycles: u32,
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
            packet_cycles: 0,
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
