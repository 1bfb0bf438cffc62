//! A machine one of whose nodes is run by a debugger: step by step, or up to a breakpoint, while
//! the others take their turns.

use std::collections::BTreeSet;

use super::{Fault, Machine};
use crate::error::{Error, Result};
use crate::hart::Observer;
use crate::isa::Decoded;

/// Why a node that is being debugged stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Its turn is over.
    Turn,
    /// It is at a breakpoint.
    Breakpoint,
    /// Its instruction could not be carried out; it still stands there.
    Fault(Box<Fault>),
    /// This node, maybe another one, ended with this code, and there is nothing to go on with.
    Ended {
        /// Which one.
        node: usize,
        /// Its code.
        code: u64,
    },
}

/// Stops before breakpoints, and after a number of instructions.
struct Breaker<'a> {
    breakpoints: &'a BTreeSet<u64>,
    left: u64,
    is_first: bool,
    hit: bool,
}

impl Observer for Breaker<'_> {
    const LISTENS: bool = true;

    fn before(&mut self, pc: u64, _insn: &Decoded) -> bool {
        // Where it stands is where it stopped before.
        self.hit = !self.is_first && self.breakpoints.contains(&pc);
        if self.left == 0 || self.hit {
            return false;
        }
        self.left -= 1;
        self.is_first = false;
        true
    }

    fn access(&mut self, _address: u64, _n_bytes: u64, _writes: bool) {}
}

impl Machine {
    /// Runs `node` for a turn, or for one instruction, or up to a breakpoint, and then gives the
    /// others their turns.
    ///
    /// # Errors
    /// As [`run`](Self::run), but a fault of `node` itself is no error.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn debug(&mut self, node: usize, one: bool, breakpoints: &BTreeSet<u64>) -> Result<Halt> {
        let mut breaker = Breaker {
            breakpoints,
            left: if one { 1 } else { self.quantum },
            is_first: true,
            hit: false,
        };
        match self.watched_turn(node, 0, &mut breaker) {
            Ok(_) => {}
            Err(Error::Fault(fault)) => return Ok(Halt::Fault(fault)),
            Err(why) => return Err(why),
        }
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            for core in 0..self.nodes[other].harts.len() {
                if self.nodes[other].exit_code().is_none() && !self.is_asleep(other) {
                    self.turn(other, core)?;
                }
            }
        }
        self.end_of_round(true)?;
        let failed = |code: &u64| *code != 0;
        let mut codes = self.nodes.iter().map(super::Node::exit_code).enumerate();
        let failure = codes.find_map(|(node, code)| Some((node, code.filter(failed)?)));
        let own = self.nodes[node].exit_code().map(|code| (node, code));
        Ok(match failure.or(own) {
            Some((node, code)) => Halt::Ended { node, code },
            None if breaker.hit => Halt::Breakpoint,
            None => Halt::Turn,
        })
    }
}
