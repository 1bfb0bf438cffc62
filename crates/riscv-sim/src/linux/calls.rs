//! The system calls: which number is which, and those that need few words.

use super::errno::Errno;
use super::files::{MOST_FILES, Stream};
use super::guest::{bytes_mut, put, put_if_asked};
use super::names::name_of;
use super::process::Process;
use crate::memory::Ram;

/// What the simulator lends a process for a call.
pub(crate) struct Host<'a> {
    /// The simulated time, in ns.
    pub(crate) now_ns: u64,
    /// How often something was written to the node's memory through the network.
    pub(crate) n_written: u64,
    /// Takes what is written.
    pub(crate) console: &'a mut dyn FnMut(Stream, &[u8]),
}

/// What comes of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// This goes into the register of results.
    Value(u64),
    /// As 0, and the process may have written instructions.
    NewCode,
    /// As 0, and others may go on.
    Yields,
    /// The process waits: the call is made again then.
    Waits(Wake),
    /// The process has ended with this code.
    Ends(u64),
    /// There is no such call here.
    Unknown(&'static str),
    /// The process can never go on, for this reason.
    Stuck(&'static str),
}

/// When a process that waits makes its call again, at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    /// The simulated time, in ns.
    pub(crate) at_ns: u64,
    /// When something is written to the node's memory through the network.
    pub(crate) at_writes: bool,
}

/// The results of calls become answers.
impl From<Result<u64, Errno>> for Answer {
    fn from(result: Result<u64, Errno>) -> Self {
        Self::Value(result.unwrap_or_else(Errno::to_register))
    }
}

/// What a shell says of a process that a signal ended.
const SIGNALLED: u64 = 128;

/// The highest number of resources that a process may be limited in.
const LAST_RESOURCE: u64 = 15;
const STACK_RESOURCE: u64 = 3;
const FILES_RESOURCE: u64 = 7;

impl Process {
    /// Answers a call.
    pub(crate) fn call(
        &mut self,
        number: u64,
        arguments: [u64; 6],
        ram: &mut Ram,
        host: &mut Host<'_>,
    ) -> Answer {
        let [a, b, c, d, ..] = arguments;
        match number {
            93 | 94 => Answer::Ends(a & 0xff),
            // kill, tkill, tgkill: nobody else is there.
            129 | 130 => self.signal(b, host),
            131 => self.signal(c, host),
            17
            | 23..=25
            | 29
            | 34
            | 35
            | 38
            | 46
            | 48
            | 56
            | 57
            | 61..=68
            | 78..=80
            | 82
            | 83
            | 276
            | 291 => self.file_call(number, arguments, ram, host).into(),
            214..=216 | 222 | 226 | 233 => self.memory_call(number, arguments, ram).into(),
            73 | 98 | 101 | 113..=115 | 124 | 169 => {
                self.waiting_call(number, arguments, ram, host)
            }
            // clone and clone3, whose absence makes the C library ask for clone.
            220 => self.refuse_threads(host).into(),
            435 => Err(Errno::NOSYS).into(),
            // set_robust_list, rseq, riscv_hwprobe, membarrier: the C library does without.
            99 | 293 | 258 | 283 => Err(Errno::NOSYS).into(),
            // set_tid_address, gettid, getpid; getppid.
            96 | 172 | 178 => Answer::Value(self.node + 1),
            173 => Answer::Value(0),
            // getuid, geteuid, getgid, getegid.
            174..=177 => Answer::Value(0),
            // prctl: names of threads and the like.
            167 => Answer::Value(0),
            259 => Answer::NewCode,
            123 => affinity(c, b, ram).into(),
            132 => put_if_asked(ram, b, &no_signal_stack()).map(|()| 0).into(),
            134 => put_if_asked(ram, c, &[0; 24]).map(|()| 0).into(),
            135 => put_if_asked(ram, c, &[0; 8]).map(|()| 0).into(),
            160 => self.system_name(a, ram).into(),
            261 => self.limits(b, d, ram).into(),
            278 => self.random_bytes(a, b, ram).into(),
            super::AWAIT_WRITES => self.await_writes(a, b, host),
            _ => Answer::Unknown(name_of(number)),
        }
    }

    fn signal(&self, signal: u64, host: &mut Host<'_>) -> Answer {
        if signal == 0 {
            return Answer::Value(0);
        }
        let text = format!(
            "rae: signal {signal} ends the process of node {}\n",
            self.node
        );
        (host.console)(Stream::Errors, text.as_bytes());
        Answer::Ends((SIGNALLED + signal) & 0xff)
    }

    /// There is one thread, and no other process.
    fn refuse_threads(&mut self, host: &mut Host<'_>) -> Result<u64, Errno> {
        if !self.knows_of_threads {
            self.knows_of_threads = true;
            let text = format!(
                "rae: node {} asked for a thread or process (clone): a simulated node runs one\n",
                self.node
            );
            (host.console)(Stream::Errors, text.as_bytes());
        }
        Err(Errno::AGAIN)
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

    fn random_bytes(&mut self, to: u64, n_bytes: u64, ram: &mut Ram) -> Result<u64, Errno> {
        let place = bytes_mut(ram, to, n_bytes)?;
        self.random.fill(place);
        Ok(n_bytes)
    }
}

/// The process may run on its one core.
fn affinity(to: u64, n_bytes: u64, ram: &mut Ram) -> Result<u64, Errno> {
    if n_bytes < 8 {
        return Err(Errno::INVAL);
    }
    put(ram, to, &1_u64.to_le_bytes()).map(|()| 8)
}

/// What `sigaltstack` says where there is none.
fn no_signal_stack() -> [u8; 24] {
    const DISABLED: u8 = 2;
    let mut stack = [0; 24];
    stack[8] = DISABLED;
    stack
}
