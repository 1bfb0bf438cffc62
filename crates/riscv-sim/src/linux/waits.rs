//! System calls about time: clocks, sleep, futex, poll.

use super::calls::{Answer, Event, Host, Wake};
use super::errno::Errno;
use super::guest::{put, put_if_asked, word};
use super::process::Process;
use crate::memory::Ram;

const NS: u64 = 1_000_000_000;

/// The time of day at the start of every run: the first of January 2020, so that nothing depends on
/// the day.
const START_OF_DAY: u64 = 1_577_836_800 * NS;

const REALTIME: u64 = 0;
/// The time that the process did not wait.
const PROCESS_TIME: u64 = 2;
const THREAD_TIME: u64 = 3;
const RAW: u64 = 4;
const REALTIME_COARSE: u64 = 5;
const MONOTONIC_COARSE: u64 = 6;
const LAST_CLOCK: u64 = 7;
/// A time to sleep until, not a span.
const ABSOLUTE: u64 = 1;

const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAKE_BITSET: u64 = 10;
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_REALTIME: u64 = 0x100;

/// What a file is ready for: all that is asked of reading and of writing.
const POLL_READY: u16 = 1 | 4 | 0x40 | 0x100;
const POLL_INVALID: u16 = 32;

impl Process {
    pub(super) fn waiting_call(
        &mut self,
        number: u64,
        [a, b, c, d, ..]: [u64; 6],
        ram: &mut Ram,
        host: &Host<'_>,
    ) -> Answer {
        let now = host.now_ns;
        match number {
            73 => self.poll(a, b, c, ram, now),
            98 => self.futex((a, b, c, d), ram, now),
            101 => self.sleep(read_time(ram, a).map(|span| now.saturating_add(span)), now),
            113 => put_time(ram, b, of_clock(a, now, self.core_time(now))).into(),
            // The clocks tell single ns.
            114 => match of_clock(a, 0, 0) {
                Ok(_) if b != 0 => put_time(ram, b, Ok(1)).into(),
                known => known.map(|_| 0).into(),
            },
            115 => self.sleep_by_clock(a, b, read_time(ram, c), now),
            124 => Answer::Yields,
            // gettimeofday
            _ => {
                let now = START_OF_DAY + now;
                let words = [now / NS, now % NS / 1000].map(u64::to_le_bytes).concat();
                put_if_asked(ram, a, &words).map(|()| 0).into()
            }
        }
    }

    /// Waits for a time, which is looked at when the call is made first.
    fn sleep(&mut self, until: Result<u64, Errno>, now: u64) -> Answer {
        match self.waits_until(until, now) {
            Ok(Some(at_ns)) => Answer::Waits(Wake {
                at_ns,
                event: Event::None,
            }),
            Ok(None) => Answer::Value(0),
            Err(why) => Err(why).into(),
        }
    }

    /// Waits until something is written by another node, unless that happened since the process was
    /// told `count`.
    pub(super) fn await_writes(&mut self, count: u64, span: u64, host: &Host<'_>) -> Answer {
        let now = host.now_ns;
        match self.waits_until(Ok(now.saturating_add(span)), now) {
            Ok(Some(at_ns)) if host.n_written == count => Answer::Waits(Wake {
                at_ns,
                event: Event::Write,
            }),
            _ => Answer::Value(host.n_written),
        }
    }

    /// Until when the process has to wait, if it has to.
    fn waits_until(&mut self, until: Result<u64, Errno>, now: u64) -> Result<Option<u64>, Errno> {
        let deadline = match self.deadline {
            Some(deadline) => deadline,
            None => until?,
        };
        self.deadline = (now < deadline).then_some(deadline);
        Ok(self.deadline)
    }

    fn sleep_by_clock(
        &mut self,
        clock: u64,
        flags: u64,
        time: Result<u64, Errno>,
        now: u64,
    ) -> Answer {
        let start = match of_clock(clock, 0, 0) {
            Ok(start) => start,
            Err(why) => return Err(why).into(),
        };
        match clock {
            THREAD_TIME => return Err(Errno::INVAL).into(),
            RAW | REALTIME_COARSE | MONOTONIC_COARSE => return Err(Errno::OPNOTSUPP).into(),
            // It has its own time only while it runs.
            PROCESS_TIME => {
                let own = if flags & ABSOLUTE == 0 {
                    0
                } else {
                    self.core_time(now)
                };
                return match time {
                    Ok(time) if time > own => {
                        Answer::Stuck("sleeps until it has run for longer, which it does not then")
                    }
                    time => time.map(|_| 0).into(),
                };
            }
            _ => {}
        }
        let until = time.map(|time| match flags & ABSOLUTE {
            0 => now.saturating_add(time),
            _ => time.saturating_sub(start),
        });
        self.sleep(until, now)
    }

    /// With one thread nobody wakes: a wait is over at once, at its time, or never.
    fn futex(
        &mut self,
        (address, operation, expected, time): (u64, u64, u64, u64),
        ram: &Ram,
        now: u64,
    ) -> Answer {
        let command = operation & FUTEX_COMMAND;
        match command {
            FUTEX_WAIT | FUTEX_WAKE | FUTEX_WAIT_BITSET | FUTEX_WAKE_BITSET
                if !address.is_multiple_of(4) =>
            {
                return Err(Errno::INVAL).into();
            }
            FUTEX_WAKE | FUTEX_WAKE_BITSET => return Answer::Value(0),
            FUTEX_WAIT | FUTEX_WAIT_BITSET => {}
            _ => return Err(Errno::NOSYS).into(),
        }
        match word(ram, address, 4) {
            Err(why) => return Err(why).into(),
            Ok(value) if value != expected & 0xffff_ffff => return Err(Errno::AGAIN).into(),
            Ok(_) => {}
        }
        if time == 0 {
            return Answer::Stuck("waits for another thread to wake it, and there is none");
        }
        let until = read_time(ram, time).map(|time| match command {
            FUTEX_WAIT => now.saturating_add(time),
            _ if operation & FUTEX_REALTIME != 0 => time.saturating_sub(START_OF_DAY),
            _ => time,
        });
        match self.waits_until(until, now) {
            Ok(Some(at_ns)) => Answer::Waits(Wake {
                at_ns,
                event: Event::None,
            }),
            Ok(None) => Err(Errno::TIMEDOUT).into(),
            Err(why) => Err(why).into(),
        }
    }

    /// Files are always ready.
    fn poll(&mut self, files: u64, n_files: u64, time: u64, ram: &mut Ram, now: u64) -> Answer {
        let span = match time {
            0 => None,
            at => match read_time(ram, at) {
                Ok(span) => Some(span),
                Err(why) => return Err(why).into(),
            },
        };
        let ready = match self.ready(files, n_files, ram) {
            Ok(n_ready) => n_ready,
            Err(why) => return Err(why).into(),
        };
        if ready > 0 {
            return Answer::Value(ready);
        }
        match span {
            Some(span) => self.sleep(Ok(now.saturating_add(span)), now),
            None => Answer::Stuck("polls without an end, and nothing will come"),
        }
    }

    fn ready(&self, files: u64, n_files: u64, ram: &mut Ram) -> Result<u64, Errno> {
        if n_files > super::files::MOST_FILES {
            return Err(Errno::INVAL);
        }
        let mut n_ready = 0;
        for k in 0..n_files {
            let at = files.checked_add(8 * k).ok_or(Errno::FAULT)?;
            let file = word(ram, at, 4)?;
            let wanted = word(ram, at + 4, 2)? as u16;
            let found = match self.files.is_open(file) {
                // That is how an entry is left out.
                _ if (file as u32).cast_signed() < 0 => 0,
                true => wanted & POLL_READY,
                false => POLL_INVALID,
            };
            put(ram, at + 6, &found.to_le_bytes())?;
            n_ready += u64::from(found != 0);
        }
        Ok(n_ready)
    }
}

/// What a clock shows.
fn of_clock(clock: u64, now: u64, core_time: u64) -> Result<u64, Errno> {
    match clock {
        PROCESS_TIME | THREAD_TIME => Ok(core_time),
        REALTIME | REALTIME_COARSE => Ok(START_OF_DAY + now),
        0..=LAST_CLOCK => Ok(now),
        _ => Err(Errno::INVAL),
    }
}

fn put_time(ram: &mut Ram, to: u64, time: Result<u64, Errno>) -> Result<u64, Errno> {
    let time = time?;
    let words = [time / NS, time % NS].map(u64::to_le_bytes).concat();
    put(ram, to, &words).map(|()| 0)
}

/// Seconds and ns, as ns.
fn read_time(ram: &Ram, at: u64) -> Result<u64, Errno> {
    let (seconds, ns) = (word(ram, at, 8)?, word(ram, at + 8, 8)?);
    if ns >= NS || seconds.cast_signed() < 0 {
        return Err(Errno::INVAL);
    }
    Ok(seconds.saturating_mul(NS).saturating_add(ns))
}
