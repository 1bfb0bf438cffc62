//! The part of a job that a host is to start.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use super::wire::{Frame, Kind};

/// A host's part of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) first_rank: u32,
    pub(crate) n_here: u32,
    pub(crate) n_ranks: u32,
    pub(crate) prefix: bool,
    /// The interval at which the launcher wants the state of the ranks, if at all.
    pub(crate) watch: Option<Duration>,
    pub(crate) folder: PathBuf,
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
}

impl Job {
    pub(crate) fn to_frame(&self) -> Frame {
        let numbers = [
            self.first_rank,
            self.n_here,
            self.n_ranks,
            u32::from(self.prefix),
            self.watch.map_or(0, millis),
            u32::try_from(self.command.len()).unwrap_or(u32::MAX),
        ];
        let mut fields = vec![self.name.clone().into_bytes()];
        fields.extend(numbers.map(|number| number.to_string().into_bytes()));
        fields.push(self.folder.as_os_str().as_bytes().to_vec());
        let variables = self.env.iter().flat_map(|(key, value)| [key, value]);
        let words = self.command.iter().chain(variables);
        fields.extend(words.map(|word| word.as_bytes().to_vec()));
        Frame::new(Kind::Job, fields)
    }

    pub(crate) fn of_frame(frame: Frame) -> Option<Self> {
        let mut fields = frame.fields.into_iter();
        let name = String::from_utf8(fields.next()?).ok()?;
        let mut number = || {
            let text = String::from_utf8(fields.next()?).ok()?;
            text.parse::<u32>().ok()
        };
        let mut numbers = [0; 6];
        for place in &mut numbers {
            *place = number()?;
        }
        let [first_rank, n_here, n_ranks, prefix, watch, n_words] = numbers;
        let mut words = fields.map(OsString::from_vec);
        let folder = PathBuf::from(words.next()?);
        let command: Vec<OsString> = words.by_ref().take(n_words as usize).collect();
        let mut env = Vec::new();
        while let Some(key) = words.next() {
            env.push((key, words.next()?));
        }
        let is_whole = !command.is_empty() && command.len() == n_words as usize;
        is_whole.then_some(Self {
            name,
            first_rank,
            n_here,
            n_ranks,
            prefix: prefix == 1,
            watch: (watch > 0).then(|| Duration::from_millis(watch.into())),
            folder,
            command,
            env,
        })
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let job = Job {
            name: "7".to_owned(),
            first_rank: 3,
            n_here: 2,
            n_ranks: 5,
            prefix: true,
            watch: Some(Duration::from_millis(300)),
            folder: "/tmp".into(),
            command: vec!["program".into(), OsString::from_vec(vec![255]), "".into()],
            env: vec![("A".into(), "b=c".into())],
        };
        let frame = job.to_frame();
        assert_eq!(Job::of_frame(frame.clone()), Some(job));
        for n in 0..frame.fields.len() {
            let fields = frame.fields[..n].to_vec();
            let part = Job::of_frame(Frame {
                fields,
                ..frame.clone()
            });
            assert!(part.is_none_or(|part| part.env.is_empty()), "{n} fields");
        }
    }
}
