//! All runs that the report is made of, and what they counted.

use std::sync::{Arc, LazyLock};

use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::workload::{Failure, Measured, Variant, Workload};
use serde::Serialize;

/// A workload of several runs, made for the first of them, and gone after the last.
pub(super) type Shared = Arc<LazyLock<Workload, Box<dyn FnOnce() -> Workload + Send>>>;

/// A workload that is made when it is run.
pub(super) fn shared(make: impl FnOnce() -> Workload + Send + 'static) -> Shared {
    Arc::new(LazyLock::new(Box::new(make)))
}

/// One run: a workload, how its operations are done, and the machine's parameters.
pub(super) struct Job {
    pub(super) workload: Shared,
    pub(super) variant: Variant,
    pub(super) config: Option<TimedConfig>,
}

impl Job {
    /// Does it.
    pub(super) fn run(self) -> Result<Row, Box<Failure>> {
        let measured = self.workload.run(self.variant, self.config.as_ref())?;
        Ok(Row::new(&self, &measured))
    }
}

/// What a run counted, as the JSON has it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) workload: String,
    pub(super) variant: &'static str,
    /// Nodes.
    pub(super) nodes: usize,
    pub(super) instructions: u64,
    pub(super) cycles: u64,
    /// Instructions of the initiator's path.
    pub(super) path: u64,
    pub(super) remote_operations: u64,
    pub(super) remote_stores: u64,
    pub(super) atomics: u64,
    /// Loads, stores and atomics, with a clock; those outside of the kernel among them.
    pub(super) memory_accesses: u64,
    pub(super) packets: u64,
    pub(super) nic_requests: u64,
    pub(super) nic_misses: u64,
    pub(super) nic_merged: u64,
    /// Mean time of a remote operation in ns.
    pub(super) latency_ns: f64,
}

/// What a variant is called.
pub(super) const fn name(variant: Variant) -> &'static str {
    match variant {
        Variant::Hardware => "hardware",
        Variant::Call { path: 102 } => "hardware in a call of 102",
        Variant::Call { path: 126 } => "hardware in a call of 126",
        Variant::Call { path: 282 } => "hardware in a call of 282",
        Variant::Call { .. } => "hardware in a call",
        Variant::Nic { path: None } => "software, NIC",
        Variant::Nic { path: Some(218) } => "software, NIC, padded to 218",
        Variant::Nic { path: Some(354) } => "software, NIC, padded to 354",
        Variant::Nic { path: Some(1000) } => "software, NIC, padded to 1,000",
        Variant::Nic { path: Some(2803) } => "software, NIC, padded to 2,803",
        Variant::Nic { path: Some(_) } => "software, NIC, padded",
        Variant::Host { path: None } => "software, host core",
        Variant::Host { path: Some(_) } => "software, host core, padded",
    }
}

impl Row {
    fn new(job: &Job, measured: &Measured) -> Self {
        let (nic_misses, nic_requests) = measured.nic_misses();
        let timed = measured.timed.as_ref();
        let nodes = || timed.iter().flat_map(|it| &it.machine.nodes);
        let cores = || nodes().map(|node| node.core);
        Self {
            workload: job.workload.name().to_owned(),
            variant: name(job.variant),
            nodes: job.workload.n_nodes(),
            instructions: measured.instructions,
            cycles: measured.cycles,
            path: measured.path,
            remote_operations: measured.remote_operations(),
            remote_stores: measured.remote_stores(),
            atomics: measured.atomics(),
            memory_accesses: cores()
                .map(|it| it.local_accesses + it.remote_operations)
                .sum(),
            packets: timed.map_or(0, |it| it.machine.mesh.packets),
            nic_requests,
            nic_misses,
            nic_merged: nodes().map(|node| node.nic.merged).sum(),
            latency_ns: measured.mean_latency_ns(),
        }
    }

    /// The share of NIC requests, in per cent, that had a line fetched.
    pub(super) fn miss_percent(&self) -> f64 {
        percent(self.nic_misses, self.nic_requests)
    }
}

/// `100 a / b`, and 0 of nothing.
#[expect(
    clippy::cast_precision_loss,
    reason = "a share for people; counts are far below 2^53"
)]
pub(super) fn percent(a: u64, b: u64) -> f64 {
    if b == 0 {
        0.0
    } else {
        100.0 * a as f64 / b as f64
    }
}
