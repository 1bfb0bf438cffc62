//! One node: cores and memory.

use super::idle::Idle;
use super::transfer::Reservation;
use super::{MachineConfig, NodeStats};
use crate::elf::Image;
use crate::error::{Error, Result};
use crate::hart::{Hart, HartConfig};
use crate::memory::Ram;

/// One node.
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) harts: Vec<Hart>,
    pub(super) ram: Ram,
    pub(super) exit_code: Option<u64>,
    /// Where each of its cores reserved a word through the network.
    pub(super) reservations: Vec<Option<Reservation>>,
    /// How long each of its cores has only waited.
    pub(super) idle: Vec<Idle>,
    pub(super) counts: NodeStats,
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
        let shared = config.shared.clone().unwrap_or(0..0);
        let mut extended = [0; 32];
        extended[10] = number as u64;
        extended[11] = config.n_nodes as u64;
        extended[12] = shared.end - shared.start;
        extended[13] = shared.start;
        let hart = |hart_id| {
            Hart::new(&HartConfig {
                profile: config.profile,
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
            idle: vec![Idle::default(); config.cores_per_node],
            counts: NodeStats::default(),
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
            instructions: self.n_instructions(),
            exit_code: self.exit_code,
            ..self.counts.clone()
        }
    }
}
