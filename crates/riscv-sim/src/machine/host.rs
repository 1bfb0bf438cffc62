//! What guests ask of the host: by a word in `tohost`, or by `ecall` with the numbers of Linux, as
//! newlib does.

use super::Machine;
use crate::error::{Error, Result};

const LSEEK: u64 = 62;
const READ: u64 = 63;
const WRITE: u64 = 64;
const CLOSE: u64 = 57;
const FSTAT: u64 = 80;
const EXIT: u64 = 93;
const EXIT_GROUP: u64 = 94;
const BRK: u64 = 214;

/// "Bad file", as a result.
const EBADF: u64 = (-9_i64).cast_unsigned();
/// "Bad address", as a result.
const EFAULT: u64 = (-14_i64).cast_unsigned();

impl Machine {
    /// The guest wrote to `tohost`.
    pub(crate) fn host_call(&mut self, node: usize) -> Result<()> {
        let Some(tohost) = self.tohost else {
            return Ok(());
        };
        let word = self.nodes[node].ram.read(tohost, 8).unwrap_or(0);
        let (device, command) = (word >> 56, (word >> 48) & 0xff);
        let payload = word & 0xffff_ffff_ffff;
        match (device, command) {
            _ if word == 0 => return Ok(()),
            _ if word & 1 != 0 && device == 0 => self.nodes[node].exit_code = Some(payload >> 1),
            (1, 1) => (self.console)(node, &[payload as u8]),
            (0, 0) => self.request_block(node, payload)?,
            _ => {
                return Err(Error::Config(format!(
                    "node {node} asked device {device} for command {command}, which the host does not have"
                )));
            }
        }
        let cleared = self.nodes[node].ram.write(tohost, 8, 0);
        debug_assert!(cleared, "the word was read from there");
        if let Some(fromhost) = self.fromhost
            && device == 0
        {
            let _outside = self.nodes[node].ram.write(fromhost, 8, 1);
        }
        Ok(())
    }

    /// A system call whose number and arguments lie in memory, where its result goes as well.
    fn request_block(&mut self, node: usize, address: u64) -> Result<()> {
        let ram = &self.nodes[node].ram;
        let word = |k: u64| ram.read(address + 8 * k, 8);
        let (Some(number), Some(a), Some(b), Some(c)) = (word(0), word(1), word(2), word(3)) else {
            return Err(Error::Config(format!(
                "node {node} passed a request at {address:#x}, where there is no memory"
            )));
        };
        let result = self.system_call(node, number, [a, b, c]);
        let stored = self.nodes[node]
            .ram
            .write(address, 8, result.unwrap_or(EBADF));
        debug_assert!(stored, "the request was read from there");
        Ok(())
    }

    /// An `ecall` of a guest without a trap handler. False if there is no such call.
    pub(super) fn environment_call(&mut self, node: usize, core: usize) -> bool {
        let hart = &self.nodes[node].harts[core];
        let (number, arguments) = (hart.x(17), [hart.x(10), hart.x(11), hart.x(12)]);
        let Some(result) = self.system_call(node, number, arguments) else {
            return false;
        };
        let hart = &mut self.nodes[node].harts[core];
        hart.set_x(10, result);
        hart.skip(4);
        true
    }

    fn system_call(&mut self, node: usize, number: u64, [a, b, c]: [u64; 3]) -> Option<u64> {
        Some(match number {
            EXIT | EXIT_GROUP => {
                self.nodes[node].exit_code = Some(a);
                0
            }
            WRITE if (a == 1 || a == 2) && c == 0 => 0,
            WRITE if a == 1 || a == 2 => match self.nodes[node].ram.slice(b, c) {
                Some(bytes) => {
                    (self.console)(node, bytes);
                    c
                }
                None => EFAULT,
            },
            WRITE | LSEEK => EBADF,
            READ | CLOSE | FSTAT => 0,
            BRK => {
                let start = self.heap_start;
                let node = &mut self.nodes[node];
                if (start..node.ram.end()).contains(&a) {
                    node.heap_end = a;
                }
                node.heap_end.max(start)
            }
            _ => return None,
        })
    }
}
