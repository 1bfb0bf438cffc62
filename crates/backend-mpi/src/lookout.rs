//! The lookout: a thread that watches waits of this process that cannot be interrupted, because MPI
//! has the thread or a buffer, and watches the connections to other hosts.
//!
//! It reports a wait that is too long, and ends the process if the settings or a failure of the job
//! demand it: no other code of the process can.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pgas_core::backend::Backend;
use pgas_core::lookout::Watched;
use pgas_core::{Config, Error, Rank, notice};
use pgas_smp::Member;

use crate::sys;
use pgas_network::failure::Noted;
use pgas_network::host::Host;
use pgas_network::lifeline::{Failure, Lifeline};
use pgas_network::limits::{Due, Limits};

/// The time that a rank may stay inside of MPI after the job has failed, before it ends.
const GRACE: Duration = Duration::from_secs(1);
/// The longest and shortest interval between checks.
const SELDOM: Duration = Duration::from_secs(1);
const OFTEN: Duration = Duration::from_millis(20);
/// The longest interval while this rank waits: checks that lie further apart do not see that a rank
/// of this host has been stopped all the time.
const WHILE_WAITING: Duration = Duration::from_millis(500);

/// The lookout of this process.
pub(crate) struct Lookout {
    limits: Limits,
    silence: Option<Duration>,
    /// The rank by the launcher, until MPI has one.
    rank: OnceLock<u32>,
    pmi_fd: Option<i32>,
    lifeline: Mutex<Option<Lifeline>>,
    /// A failure reported by connections, before the job begins.
    heard: OnceLock<Failure>,
    job: OnceLock<Job>,
    state: Mutex<State>,
}

/// The state that is watched once there is a job.
struct Job {
    member: Arc<Member>,
    host: Host,
    noted: Noted,
}

#[derive(Debug)]
struct State {
    last: Instant,
    /// The pause that the last check asked for.
    pause: Duration,
    /// The stay inside of MPI that was seen last.
    stay: Option<Wait>,
    /// Waits outside of MPI, for buffers that MPI has.
    held: Vec<Wait>,
    next_id: u64,
}

/// A wait that only this thread can end.
#[derive(Debug)]
struct Wait {
    id: u64,
    what: &'static str,
    rank: Option<u32>,
    /// The time that the wait was observed, and the part of it after a failure of the job. Time in
    /// which this thread does not run does not count: the whole process may have been stopped.
    waited: Duration,
    failed: Duration,
    next_report: Option<Duration>,
}

impl Wait {
    fn new(id: u64, what: &'static str, rank: Option<u32>) -> Self {
        Self {
            id,
            what,
            rank,
            waited: Duration::ZERO,
            failed: Duration::ZERO,
            next_report: None,
        }
    }

    /// A description of the wait: what it waits for, for which rank, and for how long. It continues
    /// a text like "rank 0".
    fn text(&self) -> String {
        let waited = self.waited.as_secs_f64();
        let what = self.what;
        let of = self.rank.map(|rank| format!(", for rank {rank}"));
        format!(
            "has waited {waited:.1}s inside of {what}{}",
            of.unwrap_or_default()
        )
    }
}

/// A guard of a wait outside of MPI that may not be given up.
pub(crate) struct Held<'a> {
    lookout: &'a Lookout,
    id: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.lookout.state().held.retain(|wait| wait.id != self.id);
    }
}

impl fmt::Debug for Lookout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookout").finish_non_exhaustive()
    }
}

impl Lookout {
    /// Starts the lookout; `rank` is the launcher's name for this process, if known.
    pub(crate) fn begin(config: &Config, rank: Option<u32>, pmi_fd: Option<i32>) -> Arc<Self> {
        let lookout = Arc::new(Self {
            limits: Limits::new(config),
            silence: config.silence,
            rank: rank.map_or_else(OnceLock::new, OnceLock::from),
            pmi_fd,
            lifeline: Mutex::new(None),
            heard: OnceLock::new(),
            job: OnceLock::new(),
            state: Mutex::new(State {
                last: Instant::now(),
                pause: OFTEN,
                stay: None,
                held: Vec::new(),
                next_id: 0,
            }),
        });
        pgas_core::lookout::look_after(&lookout);
        lookout
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn silence(&self) -> Option<Duration> {
        self.silence
    }

    pub(crate) fn know_rank(&self, rank: u32) {
        self.rank.get_or_init(|| rank);
    }

    /// Makes the lookout watch the connections of this host.
    pub(crate) fn hold_lifeline(&self, lifeline: Lifeline) {
        *lock(&self.lifeline) = Some(lifeline);
    }

    /// Makes the lookout report failures to the ranks of this host, and learn of theirs.
    pub(crate) fn know_job(&self, member: &Arc<Member>, host: &Host, noted: &Noted) {
        self.job.get_or_init(|| Job {
            member: Arc::clone(member),
            host: host.clone(),
            noted: Arc::clone(noted),
        });
    }

    /// Announces that this process, and those connected to it, may end.
    pub(crate) fn take_leave(&self) {
        if let Some(lifeline) = &mut *lock(&self.lifeline) {
            lifeline.take_leave();
        }
    }

    /// Records a wait outside of MPI that may not be given up, since MPI has its buffers.
    pub(crate) fn hold(&self, what: &'static str, rank: Option<u32>) -> Held<'_> {
        let mut state = self.state();
        state.next_id += 1;
        let id = state.next_id;
        state.held.push(Wait::new(id, what, rank));
        Held { lookout: self, id }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The job's failure, as far as this process knows of it. Failures of other ranks of this host
    /// are checked only for a waiting rank: a stopped rank counts as failed only if it is waited
    /// for.
    fn failure(&self, is_waiting: bool) -> Option<Failure> {
        if let Some(job) = self.job.get() {
            if let Some((rank, cause)) = job.noted.get() {
                return Some((rank.number(), cause.clone()));
            }
            if !is_waiting {
                return self.heard.get().cloned();
            }
            job.member.check_other_ranks();
            if let Err(Error::RankFailed(failure)) = job.member.health() {
                let rank = job.host.failed_rank(failure.rank.number());
                return Some((rank, failure.cause.clone()));
            }
        }
        self.heard.get().cloned()
    }

    /// Reports a failure of another host to this process and this host.
    fn spread(&self, (rank, cause): Failure) {
        if let Some(job) = self.job.get() {
            let number = job.host.number_of_failed(rank);
            drop(job.member.blame(Rank::new(number), &cause));
            drop(job.noted.set((Rank::new(rank), cause.clone())));
        }
        drop(self.heard.set((rank, cause)));
    }

    /// Checks the connections. Returns the job's failure, if there is one, and whether
    /// introductions of neighbours are expected.
    fn look_around(&self, is_waiting: bool) -> (Option<Failure>, bool) {
        let known = self.failure(is_waiting);
        let mut lifeline = lock(&self.lifeline);
        let Some(lifeline) = &mut *lifeline else {
            return (known, false);
        };
        let found = lifeline.look(known.as_ref());
        if known.is_none()
            && let Some(found) = found
        {
            self.spread(found);
        }
        (
            known.or_else(|| self.failure(is_waiting)),
            lifeline.awaits_words(),
        )
    }

    /// Performs the action that is due for a wait.
    fn judge(&self, wait: &mut Wait, failure: Option<&Failure>) {
        if let Some((rank, cause)) = failure
            && wait.failed >= GRACE
        {
            let text = wait.text();
            self.end(&format!(
                "leaves a job that has failed: rank {rank} {cause}; it {text}"
            ));
        }
        let due = self.limits.due(wait.waited, &mut wait.next_report);
        if due == Due::Nothing {
            return;
        }
        let text = wait.text();
        let cause = match due {
            Due::Timeout => format!("{text} (PGAS_TIMEOUT)"),
            Due::EndOfStall => format!("{text} (PGAS_STALL_END)"),
            Due::Report | Due::Nothing => {
                let known = self
                    .rank
                    .get()
                    .map_or_else(String::new, |rank| format!(" {rank}"));
                notice::tell(&format_args!(
                    "rank{known} {text} (PGAS_STALL). It serves nobody meanwhile."
                ));
                return;
            }
        };
        if let Some(rank) = self.rank.get() {
            let failure = (*rank, cause.clone());
            self.spread(failure.clone());
            if let Some(lifeline) = &mut *lock(&self.lifeline) {
                drop(lifeline.look(Some(&failure)));
            }
        }
        self.end(&format!("{cause}, which nothing else can end"));
    }

    /// Ends this process, whose threads may be inside of MPI.
    fn end(&self, text: &str) -> ! {
        let known = self
            .rank
            .get()
            .map_or_else(String::new, |rank| format!(" {rank}"));
        notice::tell(&format_args!("rank{known} {text}"));
        sys::exit_now(self.pmi_fd)
    }
}

impl Watched for Lookout {
    fn look(&self) -> Duration {
        let stay = sys::stay();
        let is_waiting = {
            let state = self.state();
            let former = state.stay.as_ref().map(|wait| wait.id);
            !state.held.is_empty() || former.is_some() && former == stay.map(|stay| stay.number)
        };
        let (failure, is_expecting) = self.look_around(is_waiting);
        let mut state = self.state();
        let now = Instant::now();
        let step = now.duration_since(state.last).min(2 * state.pause);
        state.last = now;
        let former = state.stay.take();
        let mut waits: Vec<Wait> = Vec::new();
        if let Some(stay) = stay {
            let mut wait = match former {
                Some(mut former) if former.id == stay.number => {
                    former.waited += step;
                    former
                }
                _ => Wait::new(stay.number, "MPI", None),
            };
            wait.what = stay.call.unwrap_or("MPI");
            wait.rank = stay.rank;
            waits.push(wait);
        }
        waits.append(&mut state.held);
        let n_stays = usize::from(stay.is_some());
        for (i, wait) in waits.iter_mut().enumerate() {
            if i >= n_stays {
                wait.waited += step;
            }
            if failure.is_some() {
                wait.failed += step;
            }
            if !wait.waited.is_zero() {
                self.judge(wait, failure.as_ref());
            }
        }
        state.held = waits.split_off(n_stays);
        state.stay = waits.pop();
        let own = self.limits.pause();
        let silence = self.silence.map(|silence| silence / 8);
        let pause = own.into_iter().chain(silence).min().unwrap_or(SELDOM);
        let longest = match (is_expecting, is_waiting) {
            (true, _) => 2 * OFTEN,
            (false, true) => WHILE_WAITING,
            (false, false) => SELDOM,
        };
        state.pause = pause.clamp(OFTEN, longest);
        state.pause
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
