//! Ranks of several hosts meet through a launcher that speaks PMI-1: `pgas-run --hosts`, MPICH's
//! `mpiexec`, Intel MPI's, Slurm's with `--mpi=pmi2`.
//!
//! PMI-1 is a text protocol on the socket that the launcher left open, with a line for each
//! question and answer. Each rank puts its bytes under keys of its own, all ranks meet in the
//! launcher's barrier, and each gets the bytes of the others. From the first line on the launcher
//! expects this process to say good-bye ([`Pmi::finish`]), and ends the job if it ends without.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use pgas_core::config::launch::Place;
use pgas_core::{Config, Error, Rank, Result};
use pgas_network::limits::{Awaited, Limits, LongWait, Over};
use pgas_smp::launcher;

use super::Way;

/// Bytes of one value. Each takes two letters, and launchers accept 1,024 letters.
const VALUE_BYTES: usize = 400;
/// The interval at which a wait for the launcher checks its limits.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A rank's connection to its launcher.
#[derive(Debug)]
pub(crate) struct Pmi {
    answers: BufReader<UnixStream>,
    place: Place,
    limits: Limits,
    /// The launcher's name for the space of the job's keys.
    space: String,
    /// The number of completed exchanges.
    round: u32,
}

impl Pmi {
    /// Introduces this process to its launcher.
    pub(crate) fn connect(pmi_fd: i32, place: Place, config: &Config) -> Result<Self> {
        let socket = launcher::pmi_socket(pmi_fd).map_err(|error| Error::os("PMI_FD", error))?;
        Self::over(socket, place, config)
    }

    fn over(socket: UnixStream, place: Place, config: &Config) -> Result<Self> {
        let limited = socket.set_read_timeout(Some(CHECK_INTERVAL));
        limited.map_err(|error| Error::os("PMI", error))?;
        let mut this = Self {
            answers: BufReader::new(socket),
            place,
            limits: Limits::new(config),
            space: String::new(),
            round: 0,
        };
        this.ask(
            "cmd=init pmi_version=1 pmi_subversion=1",
            "response_to_init",
        )?;
        let answer = this.ask("cmd=get_my_kvsname", "my_kvsname")?;
        this.space = value_of(&answer, "kvsname").unwrap_or_default().to_owned();
        Ok(this)
    }

    /// Says good-bye, so that this process may end without the job.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.ask("cmd=finalize", "finalize_ack").map(drop)
    }

    /// Asks a question and returns the answer, which has to be of the expected kind.
    fn ask(&mut self, question: &str, expected: &str) -> Result<String> {
        let line = format!("{question}\n");
        let sent = self.answers.get_mut().write_all(line.as_bytes());
        sent.map_err(|error| Error::os("PMI", error))?;
        let answer = self.read_line()?;
        let is_expected = value_of(&answer, "cmd") == Some(expected);
        let rc = value_of(&answer, "rc").unwrap_or("0");
        if !is_expected || rc != "0" {
            let text = format!("the launcher answered {answer:?} to {question:?}");
            return Err(Error::backend("PMI", 0, text));
        }
        Ok(answer)
    }

    fn read_line(&mut self) -> Result<String> {
        let awaited = Awaited {
            what: "the launcher and the other ranks to meet",
            missing: &Vec::new,
        };
        let mut long = LongWait::new(self.limits, Rank::new(self.place.rank), awaited);
        let mut line = Vec::new();
        loop {
            match self.answers.read_until(b'\n', &mut line) {
                Ok(_) if line.last() == Some(&b'\n') => {
                    let text = String::from_utf8_lossy(&line);
                    return Ok(text.trim_end().to_owned());
                }
                Ok(_) => {
                    let error = io::Error::from(ErrorKind::UnexpectedEof);
                    return Err(Error::os("PMI", error));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    long.check().map_err(|over| match over {
                        Over::Timeout(error) => error,
                        Over::Stall(cause) => Error::rank_failed(Rank::new(self.place.rank), cause),
                    })?;
                }
                Err(error) => return Err(Error::os("PMI", error)),
            }
        }
    }

    fn key(&self, rank: u32, part: usize) -> String {
        format!(
            "kvsname={} key=pgas-{}-{rank}-{part}",
            self.space, self.round
        )
    }

    fn put(&mut self, own: &[u8]) -> Result<()> {
        for (part, bytes) in parts(own).enumerate() {
            let key = self.key(self.place.rank, part);
            self.ask(
                &format!("cmd=put {key} value={}", hex(&bytes)),
                "put_result",
            )?;
        }
        Ok(())
    }

    fn get(&mut self, rank: u32) -> Result<Vec<u8>> {
        let mut said = Vec::new();
        for part in 0.. {
            let key = self.key(rank, part);
            let answer = self.ask(&format!("cmd=get {key}"), "get_result")?;
            let value = value_of(&answer, "value").and_then(bytes_of);
            let Some((is_last, bytes)) = value.as_deref().and_then(<[u8]>::split_first) else {
                let text = format!("rank {rank} has left {answer:?} with the launcher");
                return Err(Error::backend("PMI", 0, text));
            };
            said.extend_from_slice(bytes);
            if *is_last == 1 {
                break;
            }
        }
        Ok(said)
    }
}

impl Way for Pmi {
    fn n_ranks(&self) -> u32 {
        self.place.n_ranks
    }

    fn exchange(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.put(own)?;
        self.ask("cmd=barrier_in", "barrier_out")?;
        let all = (0..self.place.n_ranks).map(|rank| {
            if rank == self.place.rank {
                return Ok(own.to_vec());
            }
            self.get(rank)
        });
        let all = all.collect();
        self.round += 1;
        all
    }
}

/// Cuts `bytes` into values. Each begins with a byte that tells whether it is the last one.
fn parts(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let n_parts = bytes.len().div_ceil(VALUE_BYTES).max(1);
    (0..n_parts).map(move |part| {
        let start = part * VALUE_BYTES;
        let end = bytes.len().min(start + VALUE_BYTES);
        [&[u8::from(part + 1 == n_parts)], &bytes[start..end]].concat()
    })
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("text grows");
    }
    text
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|letter| letter.to_digit(16)).collect();
    let pairs = digits?;
    let bytes = pairs.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(high << 4 | low).ok(),
        _ => None,
    });
    bytes.collect()
}

/// The word behind `name=` in an answer.
fn value_of<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::thread;

    use pgas_core::config::launch::Launcher;

    use super::*;

    /// A launcher for one rank of two; the other one has sent the same bytes.
    fn serve(socket: UnixStream) {
        let mut kept: HashMap<String, String> = HashMap::new();
        let mut answers = socket.try_clone().unwrap();
        for line in BufReader::new(socket).lines() {
            let line = line.unwrap();
            let key = value_of(&line, "key").map(|key| {
                let mut words: Vec<&str> = key.split('-').collect();
                words[2] = "0";
                words.join("-")
            });
            let answer = match value_of(&line, "cmd").unwrap() {
                "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
                "get_my_kvsname" => "cmd=my_kvsname kvsname=some".to_owned(),
                "put" => {
                    kept.insert(key.unwrap(), value_of(&line, "value").unwrap().to_owned());
                    "cmd=put_result rc=0 msg=success".to_owned()
                }
                "barrier_in" => "cmd=barrier_out".to_owned(),
                "get" => match kept.get(&key.unwrap()) {
                    Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                    None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
                },
                _ => "cmd=finalize_ack".to_owned(),
            };
            writeln!(answers, "{answer}").unwrap();
        }
    }

    fn place() -> Place {
        let lookup = |name: &str| {
            let set = [("PMI_FD", "9"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")];
            let found = set.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match Launcher::detect(&lookup) {
            Ok(Launcher::Pmi { place, .. }) => place,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_ranks_say_arrives_whatever_its_length() {
        let (own, other) = UnixStream::pair().unwrap();
        let launcher = thread::spawn(|| serve(other));
        let mut pmi = Pmi::over(own, place(), &Config::default()).unwrap();
        for len in [0, 1, VALUE_BYTES - 1, VALUE_BYTES, VALUE_BYTES + 1, 5000] {
            let said: Vec<u8> = (0..=250).cycle().take(len).collect();
            let all = pmi.exchange(&said).unwrap();
            assert_eq!(all, [said.clone(), said]);
        }
        let error = pmi.get(0).unwrap_err().to_string();
        assert!(error.contains("key_not_found"), "{error}");
        pmi.finish().unwrap();
        drop(pmi);
        launcher.join().unwrap();
    }

    #[test]
    fn a_launcher_that_says_nothing_is_waited_for_within_limits() {
        let (own, _other) = UnixStream::pair().unwrap();
        let mut config = Config::default();
        config.timeout = Some(Duration::from_millis(300));
        let error = Pmi::over(own, place(), &config).unwrap_err();
        assert!(matches!(error, Error::Timeout(_)), "{error}");
    }

    #[test]
    fn a_launcher_that_is_gone_is_an_error() {
        let (own, other) = UnixStream::pair().unwrap();
        drop(other);
        assert!(Pmi::over(own, place(), &Config::default()).is_err());
    }
}
