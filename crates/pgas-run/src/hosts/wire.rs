//! The messages between the launcher and the hosts, as bytes.
//!
//! ```text
//! | "pgas-run" | token: 16 bytes | host: u32 |        host to launcher, once
//! | verdict: u8 | the launcher's token: 16 bytes |     launcher to host, once; zeros for a wrong token
//! | kind: u8 | length: u32 | fields |                 any number of times, both ways
//! ```
//!
//! A field is its length, as `u32`, and its bytes. All numbers are little-endian.

use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use pgas_smp::launcher;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

pub(crate) type Token = [u8; 16];

pub(crate) const MAGIC: [u8; 8] = *b"pgas-run";
pub(crate) const HELLO_BYTES: usize = MAGIC.len() + 16 + 4;
pub(crate) const VERDICT_BYTES: usize = 1 + 16;
/// The longest frame: enough for what the ranks of a host put in a job of many thousands.
const MAX_FRAME: usize = 256 << 20;
/// Bytes before the fields.
const HEAD: usize = 5;

/// The time limit of a write, while the other side does not read.
pub(crate) const WRITING: Duration = Duration::from_secs(10);

/// The launcher's verdicts on a connection.
pub(crate) const WELCOME: u8 = b'W';
pub(crate) const WRONG_TOKEN: u8 = b'T';
pub(crate) const HOST_TAKEN: u8 = b'D';

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To a host: the job to start.
    Job,
    /// From a host: a rank that waits for the others at the start.
    Came,
    /// From a host: the pairs that its ranks have put, when all of them are in the barrier. To a
    /// host: those of all ranks.
    Fence,
    /// To a host: a signal for its ranks.
    Signal,
    /// From a host: a rank has failed, which ends the job; the exit code, and the sentence to be
    /// printed, if there is one. Behind it the [first failure](Frame::first_failure), if that is
    /// another one.
    Failed,
    /// From a host: its ranks have ended; as for a failure.
    Ended,
    /// From a host: the present state of its ranks.
    Look,
    /// From a host: a sign of life.
    Alive,
    /// From a host: what one of its ranks has counted.
    Figures,
}

const KINDS: [Kind; 9] = [
    Kind::Job,
    Kind::Came,
    Kind::Fence,
    Kind::Signal,
    Kind::Failed,
    Kind::Ended,
    Kind::Look,
    Kind::Alive,
    Kind::Figures,
];

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) fields: Vec<Vec<u8>>,
}

impl Frame {
    pub(crate) fn new<T: AsRef<[u8]>>(kind: Kind, fields: impl IntoIterator<Item = T>) -> Self {
        let fields = fields.into_iter().map(|field| field.as_ref().to_vec());
        let fields = fields.collect();
        Self { kind, fields }
    }

    /// A message of a number and a text.
    pub(crate) fn of_code(kind: Kind, code: i32, text: &str) -> Self {
        Self::new(kind, [code.to_string().as_str(), text])
    }

    /// The number and the text of such a message.
    pub(crate) fn code(&self) -> (i32, String) {
        let mut texts = self
            .fields
            .iter()
            .map(|field| String::from_utf8_lossy(field));
        let code = texts.next().and_then(|code| code.parse().ok());
        (
            code.unwrap_or(1),
            texts.next().unwrap_or_default().into_owned(),
        )
    }

    /// As [`of_code`](Self::of_code), of a rank that has failed because of another one, if `first`
    /// says so.
    pub(crate) fn of_failure(kind: Kind, code: i32, text: &str, first: Option<&str>) -> Self {
        let mut frame = Self::of_code(kind, code, text);
        frame
            .fields
            .extend(first.map(|text| text.as_bytes().to_vec()));
        frame
    }

    /// What the memory of a host's ranks says of the first failure, if that is another one.
    pub(crate) fn first_failure(&self) -> Option<String> {
        let text = self.fields.get(2)?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// Sends it, or ends the connection: what follows a part of a message could not be read.
    pub(crate) fn send(&self, to: &TcpStream) -> io::Result<()> {
        let sent = self.write(to);
        if sent.is_err() {
            to.shutdown(Shutdown::Both).ok();
        }
        sent
    }

    fn write(&self, to: &TcpStream) -> io::Result<()> {
        let fields = self.fields.iter().flat_map(|field| {
            let len = u32::try_from(field.len()).unwrap_or(u32::MAX);
            [&len.to_le_bytes()[..], field].concat()
        });
        let fields: Vec<u8> = fields.collect();
        let len = u32::try_from(fields.len()).map_err(|_| too_long())?;
        let mut bytes = vec![self.kind as u8];
        bytes.extend(len.to_le_bytes());
        bytes.extend(fields);
        send_all(to, &bytes)
    }
}

/// Sends `bytes`; [`ErrorKind::WouldBlock`] once the other side has read none for the stream's time
/// limit of a write. The system's own limit is one of each call, and a call that has sent a part
/// before has succeeded.
fn send_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    let limit = to.write_timeout()?;
    let mut moved = Instant::now();
    while !bytes.is_empty() {
        match send(to, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(n_bytes) => {
                bytes = &bytes[n_bytes..];
                moved = Instant::now();
            }
            Err(Errno::AGAIN) => {
                let left = limit.map(|limit| limit.saturating_sub(moved.elapsed()));
                let n_ready = launcher::poll(&mut [PollFd::new(to, PollFlags::OUT)], left)?;
                // Another call may move some bytes, to a buffer here that the system has enlarged.
                if n_ready == 0 && limit.is_some_and(|limit| moved.elapsed() >= limit) {
                    return Err(ErrorKind::WouldBlock.into());
                }
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The received bytes that were not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is open.
    Open,
    /// It has ended.
    Over,
}

impl Inbox {
    /// Reads some bytes; waits if there are none.
    pub(crate) fn fill(&mut self, mut from: &TcpStream) -> io::Result<Found> {
        let mut chunk = [0; 64 << 10];
        match from.read(&mut chunk) {
            Ok(0) => return Ok(Found::Over),
            Ok(n) => self.bytes.extend_from_slice(&chunk[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(Found::Open)
    }

    /// Takes exactly `n_bytes`, once they have arrived.
    pub(crate) fn take(&mut self, n_bytes: usize) -> Option<Vec<u8>> {
        (self.bytes.len() >= n_bytes).then(|| self.bytes.drain(..n_bytes).collect())
    }

    /// The next message, once it has arrived whole.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        let Some([kind, a, b, c, d]) = self.bytes.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let kind = KINDS.iter().find(|known| **known as u8 == *kind);
        let kind = *kind.ok_or_else(garbled)?;
        let len = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        if len > MAX_FRAME {
            return Err(too_long());
        }
        let Some(bytes) = self.bytes.get(HEAD..HEAD + len) else {
            return Ok(None);
        };
        let fields = fields_of(bytes).ok_or_else(garbled)?;
        self.bytes.drain(..HEAD + len);
        Ok(Some(Frame { kind, fields }))
    }
}

fn fields_of(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut fields = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let (field, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        fields.push(field.to_vec());
        bytes = rest;
    }
    bytes.is_empty().then_some(fields)
}

fn garbled() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "a garbled message")
}

fn too_long() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "a message that is too long")
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let mut sent: Vec<Frame> = KINDS
            .iter()
            .map(|kind| Frame::new(*kind, [&b""[..], &[7; 300], b"x"]))
            .collect();
        sent.push(Frame::of_failure(
            Kind::Failed,
            1,
            "a victim",
            Some("rank 7 was killed"),
        ));
        sent.push(Frame::of_code(Kind::Ended, -3, "why"));
        for frame in &sent {
            frame.send(&sender).unwrap();
        }
        drop(sender);
        let mut inbox = Inbox::default();
        while inbox.fill(&receiver).unwrap() == Found::Open {}
        for frame in &sent {
            assert_eq!(inbox.next().unwrap().as_ref(), Some(frame));
        }
        let [.., victim, last] = &sent[..] else {
            panic!("there are several");
        };
        assert_eq!(last.code(), (-3, "why".to_owned()));
        assert_eq!(last.first_failure(), None);
        assert_eq!(victim.code(), (1, "a victim".to_owned()));
        assert_eq!(victim.first_failure().unwrap(), "rank 7 was killed");
        assert!(inbox.next().unwrap().is_none());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let inbox = |bytes: &[u8]| Inbox {
            bytes: bytes.to_vec(),
        };
        for bytes in [
            &[9, 0, 0, 0, 0][..],
            &[0, 255, 255, 255, 255],
            &[0, 4, 0, 0, 0, 1, 0, 0, 0],
            &[0, 2, 0, 0, 0, 1, 0],
        ] {
            assert!(inbox(bytes).next().is_err(), "{bytes:?}");
        }
        assert!(inbox(&[0, 1, 0, 0, 0]).next().unwrap().is_none());
    }

    #[test]
    fn a_receiver_that_reads_slowly_gets_everything() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let limit = Duration::from_millis(300);
        sender.set_write_timeout(Some(limit)).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let long = Frame::new(Kind::Look, [vec![7; 32 << 20]]);
        let wanted = long.clone();
        let reader = std::thread::spawn(move || {
            let mut inbox = Inbox::default();
            let began = Instant::now();
            while inbox.fill(&receiver).unwrap() == Found::Open {
                // Longer than the limit in all, shorter for each part.
                if began.elapsed() < 3 * limit {
                    std::thread::sleep(limit / 100);
                }
            }
            assert_eq!(inbox.next().unwrap(), Some(wanted));
        });
        long.send(&sender).unwrap();
        drop(sender);
        reader.join().unwrap();
    }

    #[test]
    fn after_a_part_of_a_message_the_connection_ends() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        sender
            .set_write_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let (receiver, _) = listener.accept().unwrap();
        // More than the system keeps for a receiver that does not read.
        let long = Frame::new(Kind::Look, [vec![7; 64 << 20]]);
        let began = Instant::now();
        let error = long.send(&sender).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(began.elapsed() >= Duration::from_millis(50));
        Frame::new(Kind::Alive, [""]).send(&sender).unwrap_err();
        let mut inbox = Inbox::default();
        while inbox.fill(&receiver).unwrap() == Found::Open {}
        assert!(inbox.next().unwrap().is_none());
    }
}
