//! What happened when, as a trace that Perfetto and Chrome's tracer open.
//!
//! A node is a process; its rows are the lines that its core waited for, its remote operations (a
//! row for each that may be under way at once), what its NIC executed, and the MSHR entries.

use std::io::{self, Write};

use super::time::Time;

/// A row of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// Lines that a core waited for.
    Misses(u32),
    /// Operations that the NIC executed.
    Nic,
    /// Remote operations that a core issued: which core, and which of those that may be under way.
    Remote(u32, u32),
    /// An entry of the MSHRs.
    Mshr(u8),
}

impl Row {
    const fn number(self) -> u32 {
        match self {
            Self::Misses(0) => 1,
            Self::Nic => 2,
            Self::Misses(core) => 2 + core,
            Self::Remote(core, at) => 100 + 10_000 * core + at,
            Self::Mshr(entry) => 1000 + entry as u32,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Misses(0) => "core: cache misses".to_owned(),
            Self::Misses(core) => format!("core {core}: cache misses"),
            Self::Nic => "NIC: operations".to_owned(),
            Self::Remote(0, at) => format!("core: remote operation {at}"),
            Self::Remote(core, at) => format!("core {core}: remote operation {at}"),
            Self::Mshr(entry) => format!("NIC: MSHR entry {entry}"),
        }
    }
}

/// Something that took time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) node: u16,
    pub(super) row: Row,
    pub(super) name: &'static str,
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) address: u64,
    /// Who asked for it, or was asked.
    pub(super) peer: Option<u16>,
}

/// A recording of what happened.
#[derive(Debug, Default)]
pub struct Trace {
    spans: Vec<Span>,
    n_most: usize,
    n_dropped: u64,
}

impl Trace {
    /// An empty recording of up to `n_most` spans; what comes later is only counted.
    #[must_use]
    pub const fn new(n_most: usize) -> Self {
        Self {
            spans: Vec::new(),
            n_most,
            n_dropped: 0,
        }
    }

    /// How many spans there are.
    #[must_use]
    pub fn n_spans(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn record(&mut self, span: Span) {
        if self.spans.len() < self.n_most {
            self.spans.push(span);
        } else {
            self.n_dropped += 1;
        }
    }

    /// Writes the recording as JSON, in the trace event format.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(&self, mut out: impl Write) -> io::Result<()> {
        let dropped = self.n_dropped;
        write!(
            out,
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"dropped_spans\":{dropped}}},\"traceEvents\":["
        )?;
        self.write_names(&mut out)?;
        for span in &self.spans {
            let Span {
                node,
                row,
                name,
                start,
                end,
                address,
                peer,
            } = *span;
            write!(
                out,
                ",\n{{\"name\":\"{name}\",\"ph\":\"X\",\"pid\":{node},\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{{\"address\":\"{address:#x}\"",
                row.number(),
                Microseconds(start),
                Microseconds(end.since(start)),
            )?;
            if let Some(peer) = peer {
                write!(out, ",\"node\":{peer}")?;
            }
            write!(out, "}}}}")?;
        }
        writeln!(out, "\n]}}")
    }

    /// The names of nodes and rows, each once.
    fn write_names(&self, out: &mut impl Write) -> io::Result<()> {
        let mut rows: Vec<_> = self
            .spans
            .iter()
            .map(|span| (span.node, span.row.number(), span.row))
            .collect();
        rows.sort_unstable_by_key(|&(node, number, _)| (node, number));
        rows.dedup_by_key(|(node, number, _)| (*node, *number));
        write!(
            out,
            "\n{{\"name\":\"trace\",\"ph\":\"M\",\"pid\":0,\"args\":{{}}}}"
        )?;
        let mut last = None;
        for (node, number, row) in rows {
            if last.replace(node) != Some(node) {
                write!(
                    out,
                    ",\n{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{node},\"args\":{{\"name\":\"node {node}\"}}}}"
                )?;
            }
            write!(
                out,
                ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{node},\"tid\":{number},\"args\":{{\"name\":\"{}\"}}}}",
                row.name()
            )?;
        }
        Ok(())
    }
}

/// A time as the format wants it, to the picosecond.
struct Microseconds(Time);

impl std::fmt::Display for Microseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ps = self.0.ps();
        write!(f, "{}.{:06}", ps / 1_000_000, ps % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(node: u16, row: Row, start: u64) -> Span {
        Span {
            node,
            row,
            name: "amoadd.d",
            start: Time::from_ps(start),
            end: Time::from_ps(start + 47_334),
            address: 0x8000_1000,
            peer: Some(3),
        }
    }

    #[test]
    fn a_trace_is_json_with_names_and_spans_and_says_what_it_lacks() {
        let mut trace = Trace::new(2);
        trace.record(span(1, Row::Remote(0, 0), 1_500_000));
        trace.record(span(0, Row::Mshr(7), 2_000_000));
        trace.record(span(0, Row::Nic, 3_000_000));
        let mut text = Vec::new();
        trace.write_json(&mut text).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(json["otherData"]["dropped_spans"], 1);
        let events = json["traceEvents"].as_array().unwrap();
        let spans: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(spans.len(), 2);
        assert_eq!(spans[0]["ts"], 1.5);
        assert_eq!(spans[0]["dur"], 0.047_334);
        assert_eq!(spans[0]["args"]["node"], 3);
        let names: Vec<_> = events
            .iter()
            .filter(|event| event["name"] == "thread_name")
            .map(|event| event["args"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["NIC: MSHR entry 7", "core: remote operation 0"]);
    }
}
