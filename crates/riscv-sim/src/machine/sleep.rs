//! Processes that sleep: they cost the host nothing until their time has come or something is
//! written that they wait for, and where all sleep, time jumps. This is for machines without a
//! clock; on the timed one a core that waits asks again and again.

use std::collections::BTreeSet;

use super::Machine;
use crate::error::{Error, Result};
use crate::linux::{Event, Wake};

/// How long all nodes may only wait for one another, in simulated ns, before the run is stuck. Who
/// watches over waits, as a library does, has its turn before that.
const LONGEST_SILENCE_NS: u64 = 100_000_000_000;

/// Where all nodes wait for one another for long, each jump of time is as long as this part of the
/// silence so far, at least: nobody can bring what they wait for but who looks at a clock.
const JUMPS_PER_SILENCE: u64 = 64;

/// Nodes that do more instructions than this, on average, between two moments in which all sleep,
/// do not only wait.
const BUSY: u64 = 10_000;

/// A process that sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    /// Since when, by the machine's time.
    since_ns: u64,
    /// `u64::MAX` if for ever.
    until_ns: u64,
    event: Event,
}

impl Sleep {
    /// Whether the process goes on by itself when its time has come.
    fn is_by_clock(&self) -> bool {
        self.event == Event::None && self.until_ns != u64::MAX
    }
}

/// The time of a machine without a clock, as it passes for those who sleep.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    now_ns: u64,
    /// When each wakes that does by itself and has not, and which node.
    times: BTreeSet<(u64, usize)>,
    n_asleep: usize,
    /// How many of them wait for their time alone, and not for other processes.
    n_by_clock: usize,
    /// When nodes began to only wait.
    silent_since_ns: u64,
    /// What had been written and executed when all were asleep last.
    n_written: u64,
    n_executed: u64,
}

impl Sleepers {
    pub(super) const fn are_none(&self) -> bool {
        self.n_asleep == 0
    }
}

impl Machine {
    /// How long a process has been asleep, in ns.
    pub(super) fn asleep_ns(&self, node: usize) -> u64 {
        let sleep = self.nodes[node].sleep;
        sleep.map_or(0, |sleep| self.sleepers.now_ns - sleep.since_ns)
    }

    /// Puts a process to sleep, or lets it sleep on.
    pub(super) fn fall_asleep(&mut self, node: usize, now_ns: u64, wake: Wake) {
        let at = self.sleepers.now_ns;
        let since_ns = self.nodes[node].sleep.map_or(at, |sleep| sleep.since_ns);
        self.count_out(node);
        let until_ns = match wake.is_never() {
            true => u64::MAX,
            false => at.saturating_add(wake.at_ns.saturating_sub(now_ns)),
        };
        let sleep = Sleep {
            since_ns,
            until_ns,
            event: wake.event,
        };
        self.nodes[node].sleep = Some(sleep);
        let sleepers = &mut self.sleepers;
        sleepers.n_asleep += 1;
        sleepers.n_by_clock += usize::from(sleep.is_by_clock());
        if !wake.is_never() {
            sleepers.times.insert((until_ns, node));
        }
        self.awake.remove(node);
    }

    fn count_out(&mut self, node: usize) {
        if let Some(sleep) = self.nodes[node].sleep.take() {
            self.sleepers.n_asleep -= 1;
            self.sleepers.n_by_clock -= usize::from(sleep.is_by_clock());
            self.sleepers.times.remove(&(sleep.until_ns, node));
        }
    }

    /// A process's call is over: the time that it slept in it has passed for it.
    pub(super) fn end_sleep(&mut self, node: usize) {
        let slept = self.asleep_ns(node);
        self.count_out(node);
        self.processes[node].skip(slept);
    }

    /// Something was written to a node's memory through the network.
    pub(crate) fn was_written(&mut self, node: usize) {
        self.n_written += 1;
        self.nodes[node].n_written += 1;
        let sleep = self.nodes[node].sleep;
        if sleep.is_some_and(|sleep| sleep.event == Event::Write) {
            self.awake.insert(node);
        }
    }

    /// Whether a node has nothing to do in its turn.
    pub(super) fn is_asleep(&self, node: usize) -> bool {
        self.awake.next(node) != Some(node)
    }

    /// All nodes have had their turns, and `ran` says whether one of them used it: time passes for
    /// those that sleep.
    ///
    /// # Errors
    /// [`Error::AllWait`] if all that have not ended only wait for one another.
    pub(super) fn end_of_round(&mut self, ran: bool) -> Result<()> {
        if self.sleepers.are_none() {
            return Ok(());
        }
        if ran {
            self.sleepers.now_ns += self.ns_of(self.quantum).max(1);
        } else {
            self.jump()?;
        }
        let now_ns = self.sleepers.now_ns;
        while let Some((until_ns, node)) = self.sleepers.times.first().copied()
            && until_ns <= now_ns
        {
            self.sleepers.times.pop_first();
            self.awake.insert(node);
        }
        Ok(())
    }

    /// All sleep: it is the time now when the first one wakes.
    fn jump(&mut self) -> Result<()> {
        let Some((next_ns, _)) = self.sleepers.times.first().copied() else {
            return Err(Error::AllWait);
        };
        let n_nodes = self.nodes.len() as u64;
        let (n_written, n_executed) = (self.n_written, self.n_executed);
        let sleepers = &mut self.sleepers;
        let only_wait = sleepers.n_by_clock == 0
            && sleepers.n_written == n_written
            && n_executed - sleepers.n_executed <= BUSY * n_nodes;
        (sleepers.n_written, sleepers.n_executed) = (n_written, n_executed);
        // Who waits for another program of the host is not found to wait for ever, nor to have
        // waited for long.
        if !only_wait || self.wait_for_host() {
            self.sleepers.silent_since_ns = self.sleepers.now_ns;
        }
        let sleepers = &mut self.sleepers;
        let silence = sleepers.now_ns - sleepers.silent_since_ns;
        if silence > LONGEST_SILENCE_NS {
            return Err(Error::AllWait);
        }
        sleepers.now_ns = next_ns.max(sleepers.now_ns + silence / JUMPS_PER_SILENCE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::Image;
    use crate::machine::MachineConfig;

    #[test]
    fn a_sleeper_that_is_woken_before_its_time_leaves_nothing_behind() {
        let config = MachineConfig {
            n_nodes: 2,
            ram_bytes: 1 << 16,
            ..MachineConfig::default()
        };
        let mut machine = Machine::new(&config, &Image::default()).unwrap();
        for n_wakes in 1..1000 {
            for node in 0..2 {
                let wake = Wake {
                    at_ns: (1 << 40) + n_wakes,
                    event: Event::Write,
                };
                machine.fall_asleep(node, 0, wake);
                machine.was_written(node);
            }
            assert_eq!(machine.sleepers.times.len(), 2);
        }
    }
}
