//! The figures of all ranks as JSON.

use super::counters::KINDS;
use super::figures::{Figures, Line, Named};
use super::operations::Performed;
use super::report::{Report, Spread};
use crate::cost::CostKind;

impl Report {
    /// All figures, of each rank and summed.
    #[must_use]
    pub fn json(&self) -> String {
        let list = |parts: Vec<String>| format!("[{}]", parts.join(",\n"));
        let ranks = list(self.ranks.iter().map(json_of_rank).collect());
        let waits = list(self.lines().iter().map(json_of_line).collect());
        let names = list(self.names().iter().map(json_of_named).collect());
        let operations = list(self.operations().iter().map(json_of_operation).collect());
        let mut spreads: Vec<String> = KINDS
            .iter()
            .map(|(kind, name)| {
                let spread = self.spread(|rank| rank.n(*kind, true) + rank.n(*kind, false));
                format!("\"{name}\":{}", spread.json())
            })
            .collect();
        spreads.push(format!(
            "\"wait_ns\":{}",
            self.spread(Figures::waited).json()
        ));
        format!(
            "{{\"version\":1,\"n_ranks\":{},\"outcome\":{},\"made\":{},\"ns\":{},\"imbalance\":{{{}}},\n\
             \"latencies\":{},\n\"waits\":{waits},\n\"names\":{names},\n\"operations\":{operations},\n\"ranks\":{ranks}}}\n",
            self.n_ranks,
            quoted(&self.outcome),
            self.made,
            self.nanos(),
            spreads.join(","),
            self.json_of_latencies()
        )
    }
}

impl Spread {
    fn json(self) -> String {
        let Self {
            least,
            median,
            most,
        } = self;
        format!(
            "{{\"least\":{},\"least_rank\":{},\"median\":{median},\"most\":{},\"most_rank\":{}}}",
            least.0, least.1, most.0, most.1
        )
    }
}

fn json_of_rank(rank: &Figures) -> String {
    let mut text = format!(
        "{{\"rank\":{},\"left\":{},\"ns\":{},\"wait_ns\":{},\"segment\":{},\"local_heap\":{},\
         \"symmetric_heap\":{},\"resident\":{}",
        rank.rank,
        rank.is_over,
        rank.nanos(),
        rank.waited(),
        rank.segment,
        rank.local_heap,
        rank.symmetric_heap,
        rank.resident
    );
    for (kind, name) in KINDS {
        text += &format!(
            ",\"{name}\":{{\"near\":{},\"near_bytes\":{},\"remote\":{},\"remote_bytes\":{}}}",
            rank.n(kind, true),
            rank.bytes(kind, true),
            rank.n(kind, false),
            rank.bytes(kind, false)
        );
    }
    for (kind, name) in [
        (CostKind::Barrier, "barriers"),
        (CostKind::Local, "local"),
        (CostKind::Refusal, "refusals"),
    ] {
        text += &format!(",\"{name}\":{}", rank.n(kind, true));
    }
    let waits: Vec<String> = rank.waits.iter().map(json_of_line).collect();
    let names: Vec<String> = rank.names.iter().map(json_of_named).collect();
    let peer = |[gets, puts, atomics, messages, bytes]: &[u64; 5]| {
        format!("[{gets},{puts},{atomics},{messages},{bytes}]")
    };
    let peers: Vec<String> = rank.peers.iter().map(peer).collect();
    text += &format!(
        ",\"waits\":[{}],\"names\":[{}],\"more_names\":{},\"peers\":[{}]}}",
        waits.join(","),
        names.join(","),
        rank.has_more_names,
        peers.join(",")
    );
    text
}

fn json_of_line(line: &Line) -> String {
    let rank = line.rank.map_or("null".to_owned(), |rank| rank.to_string());
    format!(
        "{{\"file\":{},\"line\":{},\"what\":{},\"part_of\":{},\"n\":{},\"ns\":{},\"longest_ns\":{},\
         \"mostly_for\":{rank}}}",
        quoted(&line.file),
        line.line,
        quoted(&line.what),
        quoted(&line.whole),
        line.n,
        line.nanos,
        line.longest
    )
}

fn json_of_named(named: &Named) -> String {
    let [gets, puts, atomics, messages, bytes] = named.counts;
    format!(
        "{{\"name\":{},\"gets\":{gets},\"puts\":{puts},\"atomics\":{atomics},\"messages\":{messages},\
         \"bytes\":{bytes}}}",
        quoted(&named.name)
    )
}

fn json_of_operation(one: &Performed) -> String {
    let [atomics, reads, writes, messages] = one.paid;
    let fill = one.fill().map_or("null".to_owned(), |[mean, most]| {
        format!("{{\"mean_permille\":{mean},\"most_permille\":{most}}}")
    });
    format!(
        "{{\"name\":{},\"documented\":{},\"calls\":{},\"elements\":{},\"missed\":{},\"missed_as\":{},\
         \"priced\":{},\"atomics\":{atomics},\"gets\":{reads},\"puts\":{writes},\"messages\":{messages},\"fill\":{fill}}}",
        quoted(&one.name),
        quoted(&one.price),
        one.calls,
        one.elements,
        one.missed,
        quoted(&one.missed_as),
        one.priced
    )
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            letter if u32::from(letter) < 0x20 => {
                out += &format!("\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}
