//! One node: cores and memory.

use super::bulk::Progress;
use super::idle::Idle;
use super::sleep::Sleep;
use super::transfer::Reservation;
use super::{MachineConfig, NodeStats, Region};
use crate::elf::Image;
use crate::error::{Error, Result};
use crate::hart::{Hart, HartConfig};
use crate::memory::Ram;

/// Instructions that all cores together keep decoded, of 24 bytes each, and those that one core may
/// have in any case, and at most.
const ALL_DECODED: usize = 1 << 25;
const LEAST_DECODED: usize = 1 << 12;
const MOST_DECODED: usize = 1 << 18;

/// One node.
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) harts: Vec<Hart>,
    pub(super) ram: Ram,
    pub(super) exit_code: Option<u64>,
    /// Where each of its cores reserved a word through the network.
    pub(super) reservations: Vec<Option<Reservation>>,
    /// How far each of its cores has come with a bulk transfer.
    pub(super) progress: Vec<Option<Progress>>,
    /// How long each of its cores has only waited.
    pub(super) idle: Vec<Idle>,
    /// Its process sleeps.
    pub(super) sleep: Option<Sleep>,
    /// How often something was written to its memory through the network.
    pub(super) n_written: u64,
    pub(super) counts: NodeStats,
    /// What had been counted when the node came into the region of interest, and the cycles of the
    /// core that did.
    entered: Option<(NodeStats, Option<u64>)>,
    /// What was counted in it before.
    region: Option<Region>,
    /// The end of what the guest got by `brk`.
    pub(super) heap_end: u64,
}

impl Node {
    pub(super) fn new(number: usize, config: &MachineConfig, image: &Image) -> Result<Self> {
        let mut ram = Ram::starting_at(config.ram().start, config.ram_bytes);
        for segment in &image.segments {
            let place = ram.slice_mut(segment.address, segment.n_bytes);
            let Some(place) = place.and_then(|place| place.get_mut(..segment.bytes.len())) else {
                return Err(Error::OutsideMemory {
                    address: segment.address,
                    end: segment.address.saturating_add(segment.n_bytes),
                    ram: Box::new(config.ram()),
                });
            };
            place.copy_from_slice(&segment.bytes);
        }
        let shared = config.shared().unwrap_or(0..0);
        let mut extended = [0; 32];
        extended[10] = number as u64;
        extended[11] = config.n_nodes as u64;
        extended[12] = shared.end - shared.start;
        extended[13] = shared.start;
        let n_cores = config.n_nodes.saturating_mul(config.cores_per_node);
        let decoded = (ALL_DECODED / n_cores.max(1)).clamp(LEAST_DECODED, MOST_DECODED);
        let hart = |hart_id| {
            Hart::new(&HartConfig {
                profile: config.profile,
                decoded,
                compare_swap: config.compare_swap,
                hart_id,
                extended,
                pc: image.entry,
                ram_start: config.ram().start,
                tohost: match config.linux {
                    None => image.address_of("tohost"),
                    Some(_) => None,
                },
            })
        };
        Ok(Self {
            harts: (0..config.cores_per_node as u64).map(hart).collect(),
            ram,
            exit_code: None,
            reservations: vec![None; config.cores_per_node],
            progress: vec![None; config.cores_per_node],
            idle: vec![Idle::default(); config.cores_per_node],
            sleep: None,
            n_written: 0,
            counts: NodeStats::default(),
            entered: None,
            region: None,
            heap_end: 0,
        })
    }

    /// Its first core.
    #[must_use]
    pub fn hart(&self) -> &Hart {
        &self.harts[0]
    }

    /// All of its cores.
    #[must_use]
    pub fn harts(&self) -> &[Hart] {
        &self.harts
    }

    /// Its first core, to be changed.
    pub fn hart_mut(&mut self) -> &mut Hart {
        &mut self.harts[0]
    }

    /// How many cores it has.
    #[must_use]
    pub fn n_cores(&self) -> usize {
        self.harts.len()
    }

    /// Its memory.
    #[must_use]
    pub const fn ram(&self) -> &Ram {
        &self.ram
    }

    /// Its memory, to be changed.
    pub const fn ram_mut(&mut self) -> &mut Ram {
        &mut self.ram
    }

    /// The code with which its guest ended, if it did: 0 is success.
    #[must_use]
    pub const fn exit_code(&self) -> Option<u64> {
        self.exit_code
    }

    /// Instructions that its cores completed.
    #[must_use]
    pub fn n_instructions(&self) -> u64 {
        self.harts.iter().map(Hart::instret).sum()
    }

    /// What was counted.
    #[must_use]
    pub fn stats(&self) -> NodeStats {
        NodeStats {
            exit_code: self.exit_code,
            region: self.region(),
            ..self.so_far()
        }
    }

    fn so_far(&self) -> NodeStats {
        NodeStats {
            instructions: self.n_instructions(),
            local_atomics: self.harts.iter().map(Hart::n_atomics).sum(),
            ..self.counts.clone()
        }
    }

    /// A core came into the region of interest or left it, which the node is in while any of its
    /// cores is.
    pub(crate) fn mark(&mut self, core: usize) {
        let cycles = self.harts[core].cycles();
        let is_inside = self.harts.iter().any(Hart::is_in_region);
        match (self.entered.take(), is_inside) {
            (None, true) => self.entered = Some((self.so_far(), cycles)),
            (Some((then, at)), false) => {
                let spent = cycles.zip(at).map(|(now, then)| now - then);
                let so_far = self.so_far();
                let region = self.region.get_or_insert_default();
                region.add(&then, &so_far);
                region.cycles = spent.map(|spent| region.cycles.unwrap_or(0) + spent);
            }
            (entered, _) => self.entered = entered,
        }
    }

    /// What was counted in the region; if the run is in it, up to now, but for the cycles.
    fn region(&self) -> Option<Region> {
        let mut region = self.region.clone();
        if let Some((then, _)) = &self.entered {
            region.get_or_insert_default().add(then, &self.so_far());
        }
        region
    }
}
