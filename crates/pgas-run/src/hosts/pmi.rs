//! PMI-1 for the ranks of a host: the pairs that they put are kept until all ranks of the job are
//! in the barrier; then other ranks can get them.

use std::collections::HashMap;

/// The stage of a rank's use of PMI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has sent nothing yet. A program that knows of no other ranks never does.
    #[default]
    Silent,
    /// It takes part.
    Joined,
    /// It has finalized.
    Left,
}

/// The state of PMI for the ranks of this host.
#[derive(Debug)]
pub(crate) struct Space {
    name: String,
    n_ranks: u32,
    stages: Vec<Stage>,
    /// For each rank whether it waits in the barrier.
    waiting: Vec<bool>,
    /// The pairs that were put since the last barrier: each key, and its value behind it.
    fresh: Vec<Vec<u8>>,
    known: HashMap<String, String>,
    /// Whether all ranks of the job have met.
    has_met: bool,
    /// Whether a rank was named that others wait for in vain.
    is_one_missed: bool,
}

/// The action for a line of a rank.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Answer this.
    Line(String),
    /// Answer when all ranks of the job are in the barrier.
    Later,
    /// All ranks of this host are in the barrier: send their pairs to the others.
    AllHere,
    /// The rank ends the job, with that exit code.
    Abort(i32),
}

/// The answer to the ranks in the barrier.
pub(crate) const ALL_HERE: &str = "cmd=barrier_out rc=0 msg=success";

impl Space {
    pub(crate) fn new(name: String, n_ranks: u32, n_here: usize) -> Self {
        Self {
            name,
            n_ranks,
            stages: vec![Stage::default(); n_here],
            waiting: vec![false; n_here],
            fresh: Vec::new(),
            known: HashMap::new(),
            has_met: false,
            is_one_missed: false,
        }
    }

    /// Whether all ranks of the job have been in a barrier together.
    pub(crate) fn has_met(&self) -> bool {
        self.has_met
    }

    /// The stage of the rank at `index`.
    pub(crate) fn stage(&self, index: usize) -> Stage {
        self.stages.get(index).copied().unwrap_or_default()
    }

    /// Whether any rank of this host has ever joined.
    pub(crate) fn is_in_use(&self) -> bool {
        self.stages.iter().any(|stage| *stage != Stage::Silent)
    }

    /// The index of a rank that has finalized and `is_gone` while another one of this host waits in
    /// a barrier, which that one never enters. Named once. As long as it is not gone, the next
    /// program of a script may join in its place.
    pub(crate) fn take_missed(&mut self, is_gone: impl Fn(usize) -> bool) -> Option<usize> {
        if self.is_one_missed || !self.waiting.contains(&true) {
            return None;
        }
        let mut stages = self.stages.iter().enumerate();
        let missed = stages.find(|(index, stage)| **stage == Stage::Left && is_gone(*index));
        let missed = missed.map(|(index, _)| index);
        self.is_one_missed = missed.is_some();
        missed
    }

    /// Answers the rank at `index`.
    pub(crate) fn answer(&mut self, index: usize, line: &str) -> Answer {
        let value = |key| value_of(line, key).unwrap_or_default();
        let text = match value("cmd") {
            "init" => {
                self.stages[index] = Stage::Joined;
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned()
            }
            "get_maxes" => {
                "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0".to_owned()
            }
            "get_appnum" => "cmd=appnum appnum=0 rc=0".to_owned(),
            "get_universe_size" => format!("cmd=universe_size size={} rc=0", self.n_ranks),
            "get_my_kvsname" => format!("cmd=my_kvsname kvsname={} rc=0", self.name),
            "put" => {
                for part in [value("key"), value("value")] {
                    self.fresh.push(part.as_bytes().to_vec());
                }
                "cmd=put_result rc=0 msg=success".to_owned()
            }
            "get" => match self.known.get(value("key")) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
            },
            "barrier_in" => {
                self.waiting[index] = true;
                let all = self.waiting.iter().all(|waits| *waits);
                return if all { Answer::AllHere } else { Answer::Later };
            }
            "finalize" => {
                self.stages[index] = Stage::Left;
                "cmd=finalize_ack rc=0 msg=success".to_owned()
            }
            "abort" => return Answer::Abort(value("exitcode").parse().unwrap_or(1)),
            other => format!("cmd={other} rc=-1 msg=unknown_command"),
        };
        Answer::Line(text)
    }

    /// Takes the pairs that the ranks of this host have put since the last call.
    pub(crate) fn take_fresh(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.fresh)
    }

    /// Learns the pairs of all ranks, which are all in the barrier.
    pub(crate) fn learn(&mut self, pairs: &[Vec<u8>]) {
        self.waiting.fill(false);
        self.has_met = true;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for pair in pairs.chunks_exact(2) {
            self.known.insert(text(&pair[0]), text(&pair[1]));
        }
    }
}

fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let mut words = line.split_whitespace();
    words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_finalized_while_another_one_waits_is_missed() {
        for is_first in [true, false] {
            let mut space = Space::new("s".to_owned(), 3, 3);
            space.answer(1, "cmd=init pmi_version=1 pmi_subversion=1");
            assert_eq!(space.take_missed(|_| true), None);
            let lines = [(1, "cmd=finalize"), (2, "cmd=barrier_in")];
            let [first, second] = [is_first, !is_first].map(|is| lines[usize::from(is)]);
            space.answer(first.0, first.1);
            assert_eq!(space.take_missed(|_| true), None);
            space.answer(second.0, second.1);
            assert_eq!(space.take_missed(|index| index != 1), None, "it may go on");
            assert_eq!(space.take_missed(|_| true), Some(1));
            assert_eq!(space.take_missed(|_| true), None, "it was named");
        }
    }

    #[test]
    fn what_is_put_is_got_after_the_barrier() {
        let mut space = Space::new("s".to_owned(), 3, 2);
        let line = |text: &str| Answer::Line(text.to_owned());
        assert!(!space.is_in_use());
        space.answer(0, "cmd=init pmi_version=1 pmi_subversion=1");
        assert_eq!(space.stage(0), Stage::Joined);
        let name = space.answer(0, "cmd=get_my_kvsname");
        assert_eq!(name, line("cmd=my_kvsname kvsname=s rc=0"));
        space.answer(0, "cmd=put kvsname=s key=k value=v");
        let missing = line("cmd=get_result rc=-1 msg=key_not_found value=unknown");
        assert_eq!(space.answer(1, "cmd=get kvsname=s key=k"), missing);
        assert_eq!(space.answer(0, "cmd=barrier_in"), Answer::Later);
        assert_eq!(space.answer(1, "cmd=barrier_in"), Answer::AllHere);
        assert!(!space.has_met(), "others may be missing");
        let fresh = space.take_fresh();
        space.learn(&fresh);
        assert!(space.has_met());
        let found = line("cmd=get_result rc=0 msg=success value=v");
        assert_eq!(space.answer(1, "cmd=get kvsname=s key=k"), found);
        assert_eq!(
            space.answer(1, "cmd=barrier_in"),
            Answer::Later,
            "a new one"
        );
        space.answer(0, "cmd=finalize");
        assert_eq!(
            (space.stage(0), space.stage(1)),
            (Stage::Left, Stage::Silent)
        );
        assert_eq!(space.answer(1, "cmd=abort exitcode=7"), Answer::Abort(7));
        assert_eq!(
            space.answer(1, "cmd=spin"),
            line("cmd=spin rc=-1 msg=unknown_command")
        );
    }
}
