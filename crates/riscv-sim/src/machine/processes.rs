//! System calls of programs of Linux, as the machine has them answered.

use std::path::PathBuf;

use super::Machine;
use crate::error::{Error, Result};
use crate::linux::{Answer, Event, Host, Stream, Wake};

/// The registers of a call: its number, its arguments and its result.
const NUMBER: u8 = 17;
const ARGUMENTS: [u8; 6] = [10, 11, 12, 13, 14, 15];
const RESULT: u8 = 10;

/// The length of the instruction that makes a call.
const CALL_BYTES: u64 = 4;

impl Machine {
    /// The process of a node makes a call. Says whether it goes on at once.
    pub(super) fn process_call(&mut self, node: usize) -> Result<bool> {
        let now_ns = self.now_ns(node);
        let process = &mut self.processes[node];
        let hart = &self.nodes[node].harts[0];
        let number = hart.x(NUMBER);
        let arguments = ARGUMENTS.map(|register| hart.x(register));
        let mut console = |stream, bytes: &[u8]| match (&mut self.errors, stream) {
            (Some(errors), Stream::Errors) => errors(node, bytes),
            _ => (self.console)(node, bytes),
        };
        let mut host = Host {
            now_ns,
            n_written: self.nodes[node].n_written,
            console: &mut console,
        };
        let answer = process.call(number, arguments, &mut self.nodes[node].ram, &mut host);
        let value = match answer {
            Answer::Value(value) => value,
            Answer::NewCode | Answer::Yields => 0,
            Answer::Ends(code) => {
                process.end();
                self.nodes[node].exit_code = Some(code);
                0
            }
            Answer::Waits(wake) => {
                self.process_waits(node, now_ns, wake)?;
                return Ok(false);
            }
            Answer::Unknown(name) => {
                return Err(Error::SystemCall {
                    node: node as u32,
                    number: number as u32,
                    name,
                });
            }
            Answer::Stuck(why) => {
                return Err(Error::Process(format!("the process of node {node} {why}")));
            }
        };
        self.end_sleep(node);
        self.end_idleness(node, 0);
        self.lock_waits.end(node);
        let hart = &mut self.nodes[node].harts[0];
        hart.set_x(RESULT, value);
        hart.skip(CALL_BYTES);
        if answer == Answer::NewCode {
            hart.forget_code();
        }
        Ok(answer != Answer::Yields)
    }

    /// The process of a node waits. Each look whether it still has to is counted as a step, for it
    /// completes no instruction, and a run of looks alone has to come to its limit.
    fn process_waits(&mut self, node: usize, now_ns: u64, wake: Wake) -> Result<()> {
        self.n_asked += 1;
        self.n_executed += 1;
        if wake.event == Event::Unlock {
            self.lock_waits.begin(node);
        }
        // With a clock its time passes as the core's does.
        if self.nodes[node].harts[0].cycles().is_none() {
            self.fall_asleep(node, now_ns, wake);
        } else if wake.is_never() || wake.event == Event::Unlock {
            self.wait(node, 0)?;
        }
        Ok(())
    }

    /// The last path that the process of this node asked for and was refused, since no
    /// [folder](crate::linux::Folder) grants it; `None` for other guests.
    #[must_use]
    pub fn refused(&self, node: usize) -> Option<PathBuf> {
        self.processes.get(node)?.refused()
    }

    /// The simulated time of a node.
    fn now_ns(&self, node: usize) -> u64 {
        let hart = &self.nodes[node].harts[0];
        let cycles = hart.cycles().unwrap_or(hart.instret());
        self.ns_of(cycles) + self.processes[node].skipped_ns() + self.asleep_ns(node)
    }

    pub(super) fn ns_of(&self, cycles: u64) -> u64 {
        (u128::from(cycles) * u128::from(self.cycle.ps()) / 1000) as u64
    }
}
