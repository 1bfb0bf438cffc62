//! Bringing together the processes that a foreign launcher started on this host.
//!
//! Rank 0 creates the job's memory and listens on a local socket in the kernel's abstract name
//! space, which leaves no file behind. The name is made of the user and of the launcher's name for
//! the job. The others connect, and each gets the memory as an open descriptor. Both sides ask the
//! kernel for the other's user, so that no other user can take part.
//!
//! ```text
//! rank k                                     rank 0
//!   "pgasmeet", k, number of ranks, job  ->
//!                                        <-  welcome, and the memory
//!   thanks                               ->
//! ```

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use pgas_core::config::launch::Launcher;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::{Memory, later, pmi, sys};

/// The default time that the ranks wait for each other.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The first bytes of a connection.
const MAGIC: [u8; 8] = *b"pgasmeet";

/// The magic bytes, the rank, the number of ranks and the length of the key.
const HEADER_BYTES: usize = 20;

/// Rank 0's answers, and the answer to a welcome.
const WELCOME: u8 = b'w';
const ANOTHER_JOB: u8 = b'j';
const RANK_TAKEN: u8 = b't';
const THANKS: u8 = b'k';

/// The time that a connected process may take for its part of the exchange.
const REPLY_PATIENCE: Duration = Duration::from_secs(5);

/// The first and the longest pause between attempts of other ranks.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The room for the key in an abstract socket's name.
const KEY_BYTES: usize = 80;

/// The reason why the ranks of a foreign launcher did not come together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeetError {
    /// The launcher has put ranks on other hosts.
    #[error(
        "the job has {n_ranks} ranks, of which {n_local_ranks} are on this host; \
         ranks on several hosts need another backend than shared memory"
    )]
    SeveralHosts {
        /// The number of ranks.
        n_ranks: u32,
        /// The number of ranks on this host.
        n_local_ranks: u32,
    },
    /// Rank 0 is not on this host, or has not come.
    #[error(
        "rank {rank} waited {seconds} s for rank 0 on this host (job {job:?}); \
         are all ranks on one host, and do all of them use pgas?"
    )]
    NoRankZero {
        /// The rank that waited.
        rank: u32,
        /// For how long.
        seconds: u32,
        /// The launcher's name for the job.
        job: Box<str>,
    },
    /// Some ranks are not on this host, or have not come.
    #[error(
        "rank 0 waited {seconds} s on this host for rank {ranks} of {n_ranks}; \
         are all ranks on one host, and do all of them use pgas?"
    )]
    RanksMissing {
        /// The ranks that rank 0 waited for.
        ranks: Box<str>,
        /// The number of ranks.
        n_ranks: u32,
        /// For how long rank 0 waited.
        seconds: u32,
    },
    /// The process that holds the job's meeting point is another user's.
    #[error("the meeting point of this job is held by process {pid} of user {uid}")]
    Stranger {
        /// The process.
        pid: i32,
        /// The user.
        uid: u32,
    },
    /// Rank 0 did not let this process in.
    #[error("rank 0 refused rank {rank}: {reason}")]
    Refused {
        /// The rank of this process.
        rank: u32,
        /// Why.
        reason: &'static str,
    },
    /// The launcher was not one that brings processes together in this way.
    #[error("the ranks of this job need no meeting: they were not started by a foreign launcher")]
    NotForeign,
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The failed step.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

const _: () = assert!(size_of::<MeetError>() <= 32);

/// Gives all ranks that a foreign launcher started on this host the same memory.
///
/// Rank 0 calls `create` with the number of ranks; the others receive what it creates. Rank 0
/// returns when all have it.
///
/// # Cost
///
/// A connection of each rank to rank 0, which takes less than a millisecond once both have started.
/// Collective over the job.
///
/// # Errors
///
/// The error of `create`; a [`MeetError`] if ranks are on other hosts, do not arrive within
/// `patience`, or belong to another user.
pub fn meet<M: Memory, E: From<MeetError>>(
    launcher: &Launcher,
    patience: Duration,
    create: impl FnOnce(u32) -> Result<M, E>,
) -> Result<M, E> {
    let (place, key) = match launcher {
        Launcher::OpenMpi { place, job_key } | Launcher::Slurm { place, job_key } => {
            (place, job_key.clone())
        }
        Launcher::Pmi { place, pmi_fd } => {
            let doing = "cannot tell the job from PMI_FD";
            (
                place,
                pmi::job_key(*pmi_fd).map_err(|source| MeetError::System { doing, source })?,
            )
        }
        _ => return Err(MeetError::NotForeign.into()),
    };
    if let Some(n_local_ranks) = place.n_local_ranks.filter(|_| place.spans_hosts()) {
        let n_ranks = place.n_ranks;
        return Err(MeetError::SeveralHosts {
            n_ranks,
            n_local_ranks,
        }
        .into());
    }
    let seat = Seat {
        rank: place.rank,
        n_ranks: place.n_ranks,
    };
    Meeting::new(seat, key, patience)?.hold(create)
}

/// As [`meet`], for `n_ranks` processes of this host that have come together by other means, and
/// have agreed on a `key` that no other job of the host has.
///
/// # Cost
///
/// As [`meet`].
///
/// # Errors
///
/// As [`meet`].
pub fn share<M: Memory, E: From<MeetError>>(
    rank: u32,
    n_ranks: u32,
    key: String,
    create: impl FnOnce(u32) -> Result<M, E>,
) -> Result<M, E> {
    Meeting::new(Seat { rank, n_ranks }, key, PATIENCE)?.hold(create)
}

/// The place of a process among those that meet.
#[derive(Clone, Copy)]
struct Seat {
    rank: u32,
    n_ranks: u32,
}

/// A rendezvous, as seen by one rank.
struct Meeting {
    place: Seat,
    key: String,
    address: SocketAddr,
    patience: Duration,
    deadline: Instant,
    uid: u32,
}

impl Meeting {
    fn new(place: Seat, key: String, patience: Duration) -> Result<Self, MeetError> {
        let uid = rustix::process::geteuid().as_raw();
        let tail = &key.as_bytes()[key.len().saturating_sub(KEY_BYTES)..];
        let name = [format!("pgas/{uid}/").as_bytes(), tail].concat();
        let address = SocketAddr::from_abstract_name(name)
            .map_err(failed("cannot name the meeting point"))?;
        Ok(Self {
            place,
            key,
            address,
            patience,
            deadline: later(Instant::now(), patience),
            uid,
        })
    }

    /// Rank 0 creates the memory, and all have it.
    fn hold<M: Memory, E: From<MeetError>>(
        &self,
        create: impl FnOnce(u32) -> Result<M, E>,
    ) -> Result<M, E> {
        if self.place.rank > 0 {
            return Ok(M::received(self.join()?));
        }
        let memory = create(self.place.n_ranks)?;
        self.host(memory.descriptor())?;
        Ok(memory)
    }

    /// Rank 0: hands `memory` to all others.
    fn host(&self, memory: BorrowedFd<'_>) -> Result<(), MeetError> {
        let listener = UnixListener::bind_addr(&self.address)
            .map_err(failed("cannot open the meeting point of this job"))?;
        let mut missing: Vec<u32> = (1..self.place.n_ranks).collect();
        while !missing.is_empty() {
            let Some(left) = self.time_left() else {
                return Err(self.ranks_missing(&missing));
            };
            let mut fds = [PollFd::new(&listener, PollFlags::IN)];
            super::poll(&mut fds, Some(left)).map_err(failed("cannot wait for the other ranks"))?;
            if fds[0].revents().is_empty() {
                continue;
            }
            let (stream, _) = listener
                .accept()
                .map_err(failed("cannot accept the other ranks"))?;
            // A rank whose connection broke tries again, or is missing at the end.
            if let Ok(Some(rank)) = self.welcome(stream, memory, &missing) {
                missing.retain(|&other| other != rank);
            }
        }
        Ok(())
    }

    /// Hands `memory` to the process behind `stream`, if it is one of the `missing` ranks.
    fn welcome(
        &self,
        mut stream: UnixStream,
        memory: BorrowedFd<'_>,
        missing: &[u32],
    ) -> io::Result<Option<u32>> {
        if sys::peer(&stream)?.uid != self.uid {
            return Ok(None);
        }
        stream.set_read_timeout(Some(REPLY_PATIENCE))?;
        stream.set_write_timeout(Some(REPLY_PATIENCE))?;
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header)?;
        let [_, _, _, _, _, _, _, _, a, b, c, d, ..] = header;
        let rank = u32::from_ne_bytes([a, b, c, d]);
        // The key's length is part of the header, so what follows is as long as our own key.
        let mut key = vec![0; self.key.len()];
        if header != self.header(rank)
            || stream.read_exact(&mut key).is_err()
            || key != self.key.as_bytes()
        {
            stream.write_all(&[ANOTHER_JOB])?;
            return Ok(None);
        }
        if !missing.contains(&rank) {
            stream.write_all(&[RANK_TAKEN])?;
            return Ok(None);
        }
        send_descriptor(&stream, WELCOME, memory)?;
        let mut thanks = [0];
        stream.read_exact(&mut thanks)?;
        Ok((thanks == [THANKS]).then_some(rank))
    }

    /// Any rank but 0: receives the memory from rank 0.
    fn join(&self) -> Result<OwnedFd, MeetError> {
        let mut pause = FIRST_PAUSE;
        loop {
            match UnixStream::connect_addr(&self.address) {
                Ok(stream) => {
                    if let Some(memory) = self.ask(stream)? {
                        return Ok(memory);
                    }
                }
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(failed("cannot connect to rank 0")(error)),
            }
            let Some(left) = self.time_left() else {
                return Err(self.no_rank_zero());
            };
            thread::sleep(pause.min(left));
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Asks the process behind `stream` for the memory; `None` if it broke off.
    fn ask(&self, mut stream: UnixStream) -> Result<Option<OwnedFd>, MeetError> {
        let peer = sys::peer(&stream).map_err(failed("cannot tell who rank 0 is"))?;
        if peer.uid != self.uid {
            return Err(MeetError::Stranger {
                pid: peer.pid,
                uid: peer.uid,
            });
        }
        let reply = self.exchange(&mut stream);
        let reason = match reply {
            Ok((WELCOME, Some(memory))) => return Ok(Some(memory)),
            Ok((ANOTHER_JOB, _)) => "it belongs to another job, or counts its ranks differently",
            Ok((RANK_TAKEN, _)) => "another process has already come as this rank",
            Ok(_) | Err(_) => return Ok(None),
        };
        Err(MeetError::Refused {
            rank: self.place.rank,
            reason,
        })
    }

    fn exchange(&self, stream: &mut UnixStream) -> io::Result<(u8, Option<OwnedFd>)> {
        // Rank 0 serves one after another, so the reply may take as long as the whole meeting.
        let left = self.time_left().unwrap_or(FIRST_PAUSE).max(FIRST_PAUSE);
        stream.set_read_timeout(Some(left))?;
        stream.set_write_timeout(Some(left))?;
        stream.write_all(&self.header(self.place.rank))?;
        stream.write_all(self.key.as_bytes())?;
        let reply = receive_descriptor(stream)?;
        if reply.1.is_some() {
            stream.write_all(&[THANKS])?;
        }
        Ok(reply)
    }

    /// The header that `rank` sends first; the job's key follows.
    fn header(&self, rank: u32) -> [u8; HEADER_BYTES] {
        let key_bytes = u32::try_from(self.key.len()).unwrap_or(u32::MAX);
        let words = [rank, self.place.n_ranks, key_bytes];
        let mut header = [0; HEADER_BYTES];
        let (magic, numbers) = header.split_at_mut(MAGIC.len());
        magic.copy_from_slice(&MAGIC);
        for (number, word) in numbers.chunks_exact_mut(4).zip(words) {
            number.copy_from_slice(&word.to_ne_bytes());
        }
        header
    }

    fn time_left(&self) -> Option<Duration> {
        self.deadline
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
    }

    fn seconds(&self) -> u32 {
        u32::try_from(self.patience.as_secs()).unwrap_or(u32::MAX)
    }

    fn no_rank_zero(&self) -> MeetError {
        let job = self.key.as_str().into();
        MeetError::NoRankZero {
            rank: self.place.rank,
            seconds: self.seconds(),
            job,
        }
    }

    fn ranks_missing(&self, missing: &[u32]) -> MeetError {
        const SHOWN: usize = 8;
        let mut ranks: Vec<String> = missing.iter().take(SHOWN).map(u32::to_string).collect();
        if missing.len() > SHOWN {
            ranks.push(format!("and {} more", missing.len() - SHOWN));
        }
        let ranks = ranks.join(", ").into();
        MeetError::RanksMissing {
            ranks,
            n_ranks: self.place.n_ranks,
            seconds: self.seconds(),
        }
    }
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> MeetError {
    move |source| MeetError::System { doing, source }
}

fn send_descriptor(stream: &UnixStream, byte: u8, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    // There is room for exactly this one.
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let flags = SendFlags::NOSIGNAL;
    rustix::net::sendmsg(stream, &[IoSlice::new(&[byte])], &mut control, flags)?;
    Ok(())
}

/// Receives one byte and the descriptor that came with it, if any.
fn receive_descriptor(stream: &UnixStream) -> io::Result<(u8, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut buffer = [IoSliceMut::new(&mut byte)];
    let received =
        rustix::net::recvmsg(stream, &mut buffer, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((byte[0], descriptor))
}

#[cfg(test)]
mod tests;
