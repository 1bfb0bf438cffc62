//! What the report changes of the machine, each in one place: parameters, and parts that the model
//! has as options.

use pgas_riscv_sim::timed::config::{InstructionCacheConfig, LinePolicy, TimedConfig};

/// A change: what a row of a table calls it, and what it sets.
#[derive(Clone, Copy)]
pub(super) struct Change {
    pub(super) name: &'static str,
    set: fn(&mut TimedConfig),
}

const fn change(name: &'static str, set: fn(&mut TimedConfig)) -> Change {
    Change { name, set }
}

impl Change {
    /// Makes it.
    pub(super) fn make(self, config: &mut TimedConfig) {
        (self.set)(config);
    }
}

/// None: the paper's numbers and the assumptions.
pub(super) const NONE: Change = change("as in the paper's table", |_| {});

/// Other numbers than the paper's.
pub(super) const PARAMETERS: [Change; 11] = [
    change("link of 20 cycles", |it| it.mesh.link_cycles = 20),
    change("link of 200 cycles", |it| it.mesh.link_cycles = 200),
    change("1 MSHR entry", |it| it.nic.mshr_entries = 1),
    change("8 MSHR entries", |it| it.nic.mshr_entries = 8),
    change("1 MSHR subentry: nothing merges", |it| {
        it.nic.mshr_subentries = 1;
    }),
    change("NIC cache of 16 KiB", |it| it.nic.cache_bytes = 16 << 10),
    change("NIC cache of 1 MiB", |it| it.nic.cache_bytes = 1 << 20),
    change("NIC retains idle lines", |it| {
        it.nic.policy = LinePolicy::Retain;
    }),
    change("lines of 32 bytes", |it| it.line_bytes = 32),
    change("lines of 128 bytes", |it| it.line_bytes = 128),
    change("16 outstanding operations", |it| {
        it.core.outstanding_remote = 16;
    }),
];

/// Parts that the model leaves out unless it is told.
pub(super) const OPTIONS: [Change; 6] = [
    change("instructions through a cache of 16 KiB", |it| {
        it.l1i = Some(InstructionCacheConfig::default());
    }),
    // One line, which holds no kernel's loop.
    change("instructions through a cache of 64 bytes", |it| {
        it.l1i = Some(InstructionCacheConfig { bytes: 64, ways: 1 });
    }),
    change("directory busy 2 cycles with a request", |it| {
        it.directory.busy_cycles = 2;
    }),
    change("directory busy 16 cycles with a request", |it| {
        it.directory.busy_cycles = 16;
    }),
    change("packetizer busy 3 cycles with a packet", |it| {
        it.nic.packet_cycles = 3;
    }),
    change("packetizer busy 24 cycles with a packet", |it| {
        it.nic.packet_cycles = 24;
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_changes_something_else() {
        let mut seen = Vec::new();
        for change in [NONE].iter().chain(&PARAMETERS).chain(&OPTIONS) {
            let mut config = TimedConfig::default();
            change.make(&mut config);
            let config = serde_json::to_value(&config).unwrap();
            assert!(!seen.contains(&config), "{}", change.name);
            seen.push(config);
        }
    }
}
