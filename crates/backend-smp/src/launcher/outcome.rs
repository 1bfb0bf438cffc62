//! The outcome of a job, in words and as an exit code.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use super::signals;

/// The exit code of a job that ran out of time, as of `timeout(1)`.
const TIMED_OUT_CODE: u8 = 124;

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every rank ended well.
    Finished,
    /// A rank failed, which ended the job.
    Failed(Failure),
    /// A signal to the launcher ended the job, from the keyboard for example.
    Interrupted {
        /// The signal's number.
        signal: i32,
        /// The time that the job had run.
        after: Duration,
    },
    /// The job exceeded its time limit.
    TimedOut {
        /// The limit.
        limit: Duration,
    },
}

/// The first failure of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The rank that failed.
    pub rank: u32,
    /// Its process id.
    pub pid: u32,
    /// What happened to it.
    pub cause: Cause,
    /// The time that the job had run.
    pub after: Duration,
}

/// The cause of a rank's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It exited with a code other than 0; a panic is code 101.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// A signal killed it.
    Killed {
        /// The signal's number.
        signal: i32,
        /// Whether the kernel wrote a core file.
        core_dumped: bool,
        /// A description of the host's memory, if the system has killed processes for lack of it
        /// while the job ran.
        out_of_memory: Option<Box<str>>,
    },
    /// It exited with code 0 while it was still a member of the job.
    LeftEarly,
    /// Its process went on, or ended with code 0, but the other ranks have reported its failure.
    Reported {
        /// Their report.
        text: Box<str>,
    },
}

impl Outcome {
    /// The exit code of the whole job: 0, the first failing rank's code, or 128 and the signal's
    /// number; 124 if the job ran out of time.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Finished => 0,
            Self::Failed(failure) => failure.cause.code(),
            Self::Interrupted { signal, .. } => signal_code(*signal),
            Self::TimedOut { .. } => TIMED_OUT_CODE,
        }
    }

    /// [`code`](Self::code) as `main` returns it.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("all ranks have ended well"),
            Self::Failed(Failure {
                rank,
                pid,
                cause,
                after,
            }) => {
                write!(
                    f,
                    "rank {rank} (pid {pid}) {cause} after {:.2} s",
                    after.as_secs_f64()
                )
            }
            Self::Interrupted { signal, after } => {
                write!(
                    f,
                    "{} ended the job after {:.2} s",
                    signals::name(*signal),
                    after.as_secs_f64()
                )
            }
            Self::TimedOut { limit } => {
                write!(f, "the job did not end within {} s", limit.as_secs_f64())
            }
        }
    }
}

impl Cause {
    /// What ended a process, if it did not end well.
    pub(super) fn of(status: ExitStatus) -> Option<Self> {
        match (status.code(), status.signal()) {
            (Some(0), _) => None,
            (_, Some(signal)) => Some(Self::Killed {
                signal,
                core_dumped: status.core_dumped(),
                out_of_memory: None,
            }),
            (code, None) => Some(Self::Exited {
                code: code.unwrap_or(1),
            }),
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Exited { code } => u8::try_from(*code).unwrap_or(1),
            Self::Killed { signal, .. } => signal_code(*signal),
            Self::LeftEarly | Self::Reported { .. } => 1,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exited with code {code}"),
            Self::Killed {
                signal,
                core_dumped,
                out_of_memory,
            } => {
                let core = if *core_dumped { ", core dumped" } else { "" };
                let name = signals::name(*signal);
                write!(f, "was killed by signal {signal} ({name}{core})")?;
                match out_of_memory {
                    Some(text) => write!(f, ", perhaps since {text},"),
                    None => Ok(()),
                }
            }
            Self::LeftEarly => f.write_str("exited with code 0 without leaving the job"),
            Self::Reported { text } => f.write_str(text),
        }
    }
}

fn signal_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Cause, Failure, Outcome};
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    fn failed(cause: Cause) -> Outcome {
        let after = Duration::from_millis(1234);
        Outcome::Failed(Failure {
            rank: 2,
            pid: 4711,
            cause,
            after,
        })
    }

    #[test]
    fn a_killed_rank_is_named_with_its_signal_and_time() {
        let outcome = failed(Cause::Killed {
            signal: 9,
            core_dumped: false,
            out_of_memory: None,
        });
        let expected = "rank 2 (pid 4711) was killed by signal 9 (SIGKILL) after 1.23 s";
        assert_eq!(outcome.to_string(), expected);
        assert_eq!(outcome.code(), 137);
    }

    #[test]
    fn a_core_file_is_mentioned() {
        let outcome = failed(Cause::Killed {
            signal: 11,
            core_dumped: true,
            out_of_memory: None,
        });
        let expected =
            "rank 2 (pid 4711) was killed by signal 11 (SIGSEGV, core dumped) after 1.23 s";
        assert_eq!(outcome.to_string(), expected);
    }

    #[test]
    fn a_shortage_of_memory_is_told_as_a_likely_reason() {
        let outcome = failed(Cause::Killed {
            signal: 9,
            core_dumped: false,
            out_of_memory: Some("the system ran out of memory".into()),
        });
        let expected = "rank 2 (pid 4711) was killed by signal 9 (SIGKILL), perhaps since the system ran out \
                        of memory, after 1.23 s";
        assert_eq!(outcome.to_string(), expected);
    }

    #[test]
    fn an_exit_code_becomes_that_of_the_job() {
        let outcome = failed(Cause::Exited { code: 3 });
        assert_eq!(
            outcome.to_string(),
            "rank 2 (pid 4711) exited with code 3 after 1.23 s"
        );
        assert_eq!(outcome.code(), 3);
    }

    #[test]
    fn leaving_early_fails_the_job_although_the_code_was_zero() {
        assert_eq!(failed(Cause::LeftEarly).code(), 1);
    }

    #[test]
    fn what_the_others_found_is_told_in_their_words() {
        let text = "has been stopped for 1s (PGAS_STALL)".into();
        let outcome = failed(Cause::Reported { text });
        let expected = "rank 2 (pid 4711) has been stopped for 1s (PGAS_STALL) after 1.23 s";
        assert_eq!(outcome.to_string(), expected);
        assert_eq!(outcome.code(), 1);
    }

    #[test]
    fn a_status_is_read_as_the_kernel_encodes_it() {
        assert_eq!(Cause::of(ExitStatus::from_raw(0)), None);
        assert_eq!(
            Cause::of(ExitStatus::from_raw(3 << 8)),
            Some(Cause::Exited { code: 3 })
        );
        let killed = Cause::Killed {
            signal: 6,
            core_dumped: true,
            out_of_memory: None,
        };
        assert_eq!(Cause::of(ExitStatus::from_raw(6 | 0x80)), Some(killed));
    }
}
