//! System calls by which a process asks about itself and its node.

use super::errno::Errno;
use super::files::MOST_FILES;
use super::guest::{put, put_if_asked};
use super::process::Process;
use crate::memory::Ram;

/// The highest number of resources that a process may be limited in.
const LAST_RESOURCE: u64 = 15;
const STACK_RESOURCE: u64 = 3;
const FILES_RESOURCE: u64 = 7;

impl Process {
    pub(super) fn facts_call(
        &self,
        number: u64,
        [a, b, c, d, ..]: [u64; 6],
        ram: &mut Ram,
        now_ns: u64,
    ) -> Result<u64, Errno> {
        match number {
            122 | 123 | 155 | 156 | 261 if a as u32 != 0 && !self.is_own(a) => Err(Errno::SRCH),
            // set_tid_address, gettid, getpid, getpgid, getsid.
            96 | 172 | 178 | 155 | 156 => Ok(self.number()),
            123 => affinity(c, b, ram),
            // getresuid, getresgid: all are the first user's.
            148 | 150 => {
                for to in [a, b, c] {
                    put(ram, to, &[0; 4])?;
                }
                Ok(0)
            }
            153 => times(now_ns, self.core_time(now_ns), a, ram),
            160 => self.system_name(a, ram),
            165 => put(ram, b, &usage(self.core_time(now_ns))).map(|()| 0),
            // getcpu
            168 => {
                put_if_asked(ram, a, &[0; 4])?;
                put_if_asked(ram, b, &[0; 4]).map(|()| 0)
            }
            179 => {
                let free_bytes = self.space.free_bytes();
                let facts = system_facts(now_ns, ram.n_bytes() as u64, free_bytes);
                put(ram, a, &facts).map(|()| 0)
            }
            261 => self.limits(b, d, ram),
            // sched_setaffinity; getgroups, getppid, getuid, geteuid, getgid, getegid.
            _ => Ok(0),
        }
    }

    fn system_name(&self, to: u64, ram: &mut Ram) -> Result<u64, Errno> {
        const FIELD: usize = 65;
        let node = format!("node{}", self.node);
        let fields = ["Linux", &node, "6.1.0", "simulated", "riscv64", ""];
        let mut bytes = [0; 6 * FIELD];
        for (place, field) in bytes.chunks_mut(FIELD).zip(fields) {
            place[..field.len()].copy_from_slice(field.as_bytes());
        }
        put(ram, to, &bytes).map(|()| 0)
    }

    fn limits(&self, resource: u64, to: u64, ram: &mut Ram) -> Result<u64, Errno> {
        let limit = match resource {
            STACK_RESOURCE => self.stack.end - self.stack.start,
            FILES_RESOURCE => MOST_FILES,
            0..=LAST_RESOURCE => u64::MAX,
            _ => return Err(Errno::INVAL),
        };
        let limit = limit.to_le_bytes();
        put_if_asked(ram, to, &[limit, limit].concat()).map(|()| 0)
    }
}

/// The process may run on its one core.
fn affinity(to: u64, n_bytes: u64, ram: &mut Ram) -> Result<u64, Errno> {
    if n_bytes < 8 {
        return Err(Errno::INVAL);
    }
    put(ram, to, &1_u64.to_le_bytes()).map(|()| 8)
}

const NS: u64 = 1_000_000_000;

/// `times`: the time of the process's core, all of it the process's own, and the time that it is,
/// in hundredths of a second.
fn times(now_ns: u64, core_ns: u64, to: u64, ram: &mut Ram) -> Result<u64, Errno> {
    const TICK: u64 = NS / 100;
    let words = [core_ns / TICK, 0, 0, 0].map(u64::to_le_bytes).concat();
    put_if_asked(ram, to, &words).map(|()| now_ns / TICK)
}

/// `struct rusage`: the time of the process's core, and nothing else that the host could tell.
fn usage(core_ns: u64) -> [u8; 144] {
    let mut usage = [0; 144];
    usage[..8].copy_from_slice(&(core_ns / NS).to_le_bytes());
    usage[8..16].copy_from_slice(&(core_ns % NS / 1000).to_le_bytes());
    usage
}

/// `struct sysinfo`: how long the node runs, its memory and what of it is free, in units of a byte.
fn system_facts(now_ns: u64, ram_bytes: u64, free_bytes: u64) -> [u8; 112] {
    let mut facts = [0; 112];
    facts[..8].copy_from_slice(&(now_ns / NS).to_le_bytes());
    facts[32..40].copy_from_slice(&ram_bytes.to_le_bytes());
    facts[40..48].copy_from_slice(&free_bytes.to_le_bytes());
    facts[80] = 1;
    facts[104] = 1;
    facts
}
