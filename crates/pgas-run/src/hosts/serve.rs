//! A host's side of a job: `pgas-run --serve-host`, which an agent starts.

use std::env;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pgas_core::config::launch::JOB_ID_VARIABLE;
use pgas_network::addresses::check_target;
use pgas_network::lifeline::set_limits;
use pgas_smp::launcher::{self, Outcome, Output, Part, SuperviseOptions};

use super::invitation::{Invitation, Tokens, is_same};
use super::job::Job;
use super::pmi::Space;
use super::ranks::{Local, Shared};
use super::wire::{
    Found, Frame, HOST_TAKEN, Inbox, Kind, MAGIC, VERDICT_BYTES, WELCOME, WRITING, WRONG_TOKEN,
};
use crate::code::code_of;

/// The time limit of one attempt to connect to an address of the launcher.
const ATTEMPT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// Joins the job of the launcher that standard input names, and stays until its ranks have ended.
pub(crate) fn serve() -> Result<ExitCode, Box<dyn Error>> {
    let invitation = Invitation::read(&mut io::stdin().lock())?;
    let link = connect(&invitation)?;
    let (job, inbox) = receive_job(&link, invitation.patience)?;
    let space = Space::new(job.name.clone(), job.n_ranks, job.n_here as usize);
    let shared = Shared::new(link, space);
    // Not beside a message of the thread that answers the ranks, which goes on. If the launcher is
    // gone, that has been reported already.
    let tell = |kind, code: u8, text: &str, first: Option<&str>| {
        drop(shared.send(&Frame::of_failure(kind, i32::from(code), text, first)));
    };
    match run(job, invitation.silence, &shared, inbox) {
        Ok((outcome, first)) => {
            shared.send_figures();
            tell(
                Kind::Ended,
                outcome.code(),
                &outcome.to_string(),
                first.as_deref(),
            );
            Ok(outcome.exit_code())
        }
        Err(error) => {
            let code = code_of(&*error);
            tell(Kind::Failed, code, &error.to_string(), None);
            tell(Kind::Ended, code, "", None);
            Ok(ExitCode::from(code))
        }
    }
}

/// Connects to the launcher at one of its addresses.
fn connect(invitation: &Invitation) -> Result<TcpStream, Box<dyn Error>> {
    let deadline = Instant::now() + invitation.patience;
    let mut last = None;
    loop {
        for (address, tokens) in &invitation.places {
            match introduce(invitation, *address, tokens) {
                Ok(link) => return Ok(link),
                Err(Refusal::Final(text)) => return Err(text.into()),
                Err(Refusal::Elsewhere(error)) => last = Some((address, error)),
            }
        }
        if Instant::now() >= deadline {
            break;
        }
        thread::sleep(PAUSE);
    }
    let seconds = invitation.patience.as_secs_f64();
    Err(match last {
        Some((address, error)) => {
            format!("cannot reach the launcher within {seconds} s, last at {address}: {error}")
        }
        None => "the launcher has told no address".to_owned(),
    }
    .into())
}

/// The reason why a connection is not one to the launcher.
enum Refusal {
    Final(String),
    /// Another address, or a later attempt, may succeed.
    Elsewhere(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Elsewhere(error)
    }
}

fn introduce(
    invitation: &Invitation,
    address: SocketAddr,
    tokens: &Tokens,
) -> Result<TcpStream, Refusal> {
    let mut link = TcpStream::connect_timeout(&address, ATTEMPT)?;
    check_target(&link, invitation.network)?;
    link.set_read_timeout(Some(WRITING))?;
    link.set_write_timeout(Some(WRITING))?;
    link.set_nodelay(true)?;
    if let Some(silence) = invitation.silence {
        set_limits(&link, silence)?;
    }
    let hello = [&MAGIC[..], &tokens.host, &invitation.host.to_le_bytes()];
    link.write_all(&hello.concat())?;
    let mut verdict = [0; VERDICT_BYTES];
    link.read_exact(&mut verdict)?;
    let [verdict, answer @ ..] = verdict;
    let is_launcher = is_same(&answer, &tokens.launcher);
    match verdict {
        WELCOME if is_launcher => Ok(link),
        HOST_TAKEN if is_launcher => Err(Refusal::Final(format!(
            "the launcher refuses this host: another agent has come as host {} before",
            invitation.host
        ))),
        // It may be a launcher, but is not known to be the one of this job.
        WRONG_TOKEN => Err(Refusal::Elsewhere(io::Error::other(
            "it has another token for this host",
        ))),
        _ => Err(Refusal::Elsewhere(io::Error::other(
            "it is not the launcher",
        ))),
    }
}

/// Receives the job, the launcher's first message, and the bytes that have arrived behind it.
fn receive_job(link: &TcpStream, patience: Duration) -> Result<(Job, Inbox), Box<dyn Error>> {
    link.set_read_timeout(Some(patience.max(ATTEMPT)))?;
    let mut inbox = Inbox::default();
    let frame = loop {
        if let Some(frame) = inbox.next()? {
            break frame;
        }
        if inbox.fill(link)? == Found::Over {
            return Err("the launcher has ended the connection".into());
        }
    };
    link.set_read_timeout(None)?;
    let job = Job::of_frame(frame).filter(|job| job.n_here > 0);
    Ok((job.ok_or("the launcher has told no job")?, inbox))
}

/// Starts the ranks, and stays with them. Behind the outcome: the first failure, if it was another
/// one.
fn run(
    job: Job,
    silence: Option<Duration>,
    shared: &Arc<Shared>,
    inbox: Inbox,
) -> Result<(Outcome, Option<String>), Box<dyn Error>> {
    env::set_current_dir(&job.folder)
        .map_err(|error| format!("cannot enter {}: {error}", job.folder.display()))?;
    let mut words = job.command.into_iter();
    let mut options = SuperviseOptions::new(words.next().unwrap_or_default(), job.n_here);
    options.args = words.collect();
    options.env = job.env;
    // It tells ranks that the launcher reports their figures if the job fails.
    options.env.push((JOB_ID_VARIABLE.into(), job.name.into()));
    options.output = Output::Forward { prefix: job.prefix };
    let ranks = job.first_rank..job.first_rank.saturating_add(job.n_here);
    let mut hooks = Local {
        shared: Arc::clone(shared),
        ranks,
        inbox: Some(inbox),
        silence,
        watch: job.watch,
        regular: Vec::new(),
    };
    let part = Part {
        first_rank: job.first_rank,
        n_ranks: job.n_ranks,
    };
    let outcome = launcher::supervise_part(&options, part, &mut hooks)?;
    Ok(match outcome {
        Outcome::Failed(failure) => {
            let first = hooks.first_failure_beside(failure.rank);
            (hooks.in_the_job(failure), first)
        }
        other => (other, None),
    })
}
