//! The system calls: which number is which, and those that need few words.

use super::errno::Errno;
use super::files::Stream;
use super::guest::{self, bytes_mut, only, put_if_asked};
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
    /// What else the process waits for.
    pub(crate) event: Event,
}

/// What a waiting process waits for, apart from its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Nothing else.
    None,
    /// A write to the node's memory through the network, which wakes the process.
    Write,
    /// Another process's release of a file's lock, which is looked for at the wake time.
    Unlock,
}

impl Wake {
    /// Whether its time never comes: 146 years from the start, which no run lasts.
    pub(crate) const fn is_never(&self) -> bool {
        self.at_ns >= 1 << 62
    }
}

/// The results of calls become answers.
impl From<Result<u64, Errno>> for Answer {
    fn from(result: Result<u64, Errno>) -> Self {
        Self::Value(result.unwrap_or_else(Errno::to_register))
    }
}

/// What a shell says of a process that a signal ended.
const SIGNALLED: u64 = 128;

const LAST_SIGNAL: u32 = 64;

impl Process {
    /// Answers a call, and keeps how long the process waits in it.
    pub(crate) fn call(
        &mut self,
        number: u64,
        arguments: [u64; 6],
        ram: &mut Ram,
        host: &mut Host<'_>,
    ) -> Answer {
        let answer = self.answer(number, arguments, ram, host);
        if let Answer::Waits(_) = answer {
            self.waits.since_ns.get_or_insert(host.now_ns);
        } else {
            self.deadline = None;
            let since = self.waits.since_ns.take().unwrap_or(host.now_ns);
            self.waits.before_ns += host.now_ns - since;
        }
        answer
    }

    fn answer(
        &mut self,
        number: u64,
        arguments: [u64; 6],
        ram: &mut Ram,
        host: &mut Host<'_>,
    ) -> Answer {
        let [a, b, c, ..] = arguments;
        match number {
            93 | 94 => Answer::Ends(a & 0xff),
            // kill, tkill, tgkill.
            129 if !self.is_own_group(a) => Err(Errno::SRCH).into(),
            130 if !self.is_own(a) => Err(Errno::SRCH).into(),
            131 if !(self.is_own(a) && self.is_own(b)) => Err(Errno::SRCH).into(),
            129 | 130 => self.signal(b, host),
            131 => self.signal(c, host),
            17 | 23..=25 | 29 | 48..=50 | 56 | 57 | 61..=70 | 78..=83 | 223 | 291 | 439 => {
                self.file_call(number, arguments, ram, host).into()
            }
            34..=37 | 45..=47 | 52 | 53 | 88 | 276 => {
                self.change_call(number, arguments, ram).into()
            }
            32 => self.lock(a, b, host),
            214..=216 | 222 | 226..=231 | 233 | 284 => {
                self.memory_call(number, arguments, ram).into()
            }
            73 | 98 | 101 | 113..=115 | 124 | 169 => {
                self.waiting_call(number, arguments, ram, host)
            }
            // clone and clone3, whose absence makes the C library ask for clone.
            220 => self.refuse_threads(host).into(),
            435 => Err(Errno::NOSYS).into(),
            // set_robust_list, rseq, riscv_hwprobe, membarrier: the C library does without.
            // sendfile, splice, copy_file_range: who wants a copy reads and writes then.
            // renameat: Linux on this architecture is without it as well.
            99 | 293 | 258 | 283 | 71 | 76 | 285 | 38 => Err(Errno::NOSYS).into(),
            96
            | 122
            | 123
            | 148
            | 150
            | 153
            | 155
            | 156
            | 158
            | 160
            | 165
            | 168
            | 172..=179
            | 261 => self.facts_call(number, arguments, ram, host.now_ns).into(),
            // wait4: there are no children.
            260 => Err(Errno::CHILD).into(),
            // prctl: names of threads and the like.
            167 => Answer::Value(0),
            166 => Answer::Value(self.files.set_mask(a)),
            259 => Answer::NewCode,
            132 => put_if_asked(ram, b, &no_signal_stack()).map(|()| 0).into(),
            134 | 135 => handling(number, arguments, ram).map(|()| 0).into(),
            278 => self.random_bytes(a, b, c, ram).into(),
            super::AWAIT_WRITES => self.await_writes(a, b, host),
            _ => Answer::Unknown(name_of(number)),
        }
    }

    /// Whether this is the process's number. There is no other process on its node, and those of
    /// other nodes are not reached.
    pub(super) const fn is_own(&self, process: u64) -> bool {
        process as u32 as u64 == self.number()
    }

    /// Whether the process is one of those that `kill` means.
    const fn is_own_group(&self, process: u64) -> bool {
        let process = (process as u32).cast_signed();
        matches!(process, 0 | -1) || process.unsigned_abs() as u64 == self.number()
    }

    fn signal(&self, signal: u64, host: &mut Host<'_>) -> Answer {
        let signal = signal as u32;
        match signal {
            0 => return Answer::Value(0),
            1..=LAST_SIGNAL => {}
            _ => return Err(Errno::INVAL).into(),
        }
        let text = format!(
            "rae: signal {signal} ends the process of node {}\n",
            self.node
        );
        (host.console)(Stream::Errors, text.as_bytes());
        Answer::Ends(SIGNALLED + u64::from(signal))
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

    fn random_bytes(
        &mut self,
        to: u64,
        n_bytes: u64,
        flags: u64,
        ram: &mut Ram,
    ) -> Result<u64, Errno> {
        /// Without waiting; from the better source; from whichever there is.
        const FLAGS: u64 = 1 | GOOD | ANY;
        const GOOD: u64 = 2;
        const ANY: u64 = 4;
        only(flags, FLAGS)?;
        if flags & GOOD != 0 && flags & ANY != 0 {
            return Err(Errno::INVAL);
        }
        let place = bytes_mut(ram, to, n_bytes)?;
        self.random.fill(place);
        Ok(n_bytes)
    }
}

/// `rt_sigaction` and `rt_sigprocmask`, which change nothing, for no signal is delivered: what was
/// set before is nothing.
fn handling(number: u64, [a, new, old, size, ..]: [u64; 6], ram: &mut Ram) -> Result<(), Errno> {
    /// What no process handles.
    const KILL: u32 = 9;
    const STOP: u32 = 19;
    const SET_BYTES: u64 = 8;
    /// To block, to unblock, to set.
    const LAST_WAY: u32 = 2;
    let a = a as u32;
    let is_action = number == 134;
    let may_be = match is_action {
        true => (1..=LAST_SIGNAL).contains(&a) && (new == 0 || !matches!(a, KILL | STOP)),
        false => new == 0 || a <= LAST_WAY,
    };
    if size != SET_BYTES || !may_be {
        return Err(Errno::INVAL);
    }
    // An action is an address, flags and a set.
    let bytes = &[0; 24][..if is_action { 24 } else { 8 }];
    if new != 0 {
        guest::bytes(ram, new, bytes.len() as u64)?;
    }
    put_if_asked(ram, old, bytes)
}

/// What `sigaltstack` says where there is none.
fn no_signal_stack() -> [u8; 24] {
    const DISABLED: u8 = 2;
    let mut stack = [0; 24];
    stack[8] = DISABLED;
    stack
}
