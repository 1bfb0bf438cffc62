//! Assembles whole lines of pieces of output.

use std::io::{self, Write};

/// A line longer than this is written in pieces, so that no rank makes the launcher store without
/// bound.
const LINE_BYTES: usize = 64 << 10;

/// Bytes that the kernel writes into a pipe in one piece, even with other writers.
const ATOMIC_BYTES: usize = 4096;

/// Merges the output of several ranks into one stream, line by line.
///
/// A piece of a line longer than 64 KiB is written as it comes; if another rank's line follows
/// before its end, a line break is put between them.
#[derive(Debug)]
pub(super) struct LineMerger<W> {
    sink: W,
    /// The number of the first rank, if lines begin with the numbers of ranks.
    prefix: Option<u32>,
    /// For each rank, the beginning of an incomplete line.
    pending: Vec<Vec<u8>>,
    /// The rank whose line has been written without its end, if any.
    unfinished: Option<usize>,
    /// Whole lines on their way to the sink.
    batch: Vec<u8>,
}

impl<W: Write> LineMerger<W> {
    pub(super) fn new(sink: W, n_ranks: usize, prefix: Option<u32>) -> Self {
        let pending = vec![Vec::new(); n_ranks];
        Self {
            sink,
            prefix,
            pending,
            unfinished: None,
            batch: Vec::new(),
        }
    }

    /// Takes what `rank` has printed and writes the lines that are complete now.
    pub(super) fn feed(&mut self, rank: usize, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.pending[rank].extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.pending[rank].len() >= LINE_BYTES {
                self.push_pending(rank)?;
            }
        }
        self.write_batch()
    }

    /// Writes the last line of `rank`, although its end never came.
    pub(super) fn finish(&mut self, rank: usize) -> io::Result<()> {
        if !self.pending[rank].is_empty() {
            self.push_pending(rank)?;
        }
        self.write_batch()
    }

    /// [`finish`](Self::finish) for all ranks.
    pub(super) fn finish_all(&mut self) -> io::Result<()> {
        (0..self.pending.len()).try_for_each(|rank| self.finish(rank))
    }

    /// Moves the pending piece of `rank` into the batch.
    fn push_pending(&mut self, rank: usize) -> io::Result<()> {
        let prefix_bytes = 16;
        if self.batch.len() + self.pending[rank].len() + prefix_bytes > ATOMIC_BYTES {
            self.write_batch()?;
        }
        let continued = self.unfinished == Some(rank);
        if self.unfinished.is_some() && !continued {
            self.batch.push(b'\n');
        }
        if let Some(first) = self.prefix.filter(|_| !continued) {
            write!(self.batch, "[{}] ", first as usize + rank)?;
        }
        self.unfinished = (!self.pending[rank].ends_with(b"\n")).then_some(rank);
        self.batch.append(&mut self.pending[rank]);
        Ok(())
    }

    fn write_batch(&mut self) -> io::Result<()> {
        let written = self.sink.write_all(&self.batch);
        self.batch.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::{ATOMIC_BYTES, LINE_BYTES, LineMerger};
    use std::io::{self, Write};

    /// Remembers every write by itself.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn text(lines: &LineMerger<Writes>) -> String {
        String::from_utf8(lines.sink.0.concat()).unwrap()
    }

    #[test]
    fn a_line_is_written_when_its_end_has_come() {
        let mut lines = LineMerger::new(Writes::default(), 2, None);
        lines.feed(0, b"one ").unwrap();
        lines.feed(1, b"two\n").unwrap();
        assert_eq!(text(&lines), "two\n");
        lines.feed(0, b"line\nrest").unwrap();
        assert_eq!(text(&lines), "two\none line\n");
    }

    #[test]
    fn the_prefix_stands_before_each_line() {
        let mut lines = LineMerger::new(Writes::default(), 12, Some(0));
        lines.feed(11, b"a\n\nb\n").unwrap();
        lines.feed(0, b"c\n").unwrap();
        assert_eq!(text(&lines), "[11] a\n[11] \n[11] b\n[0] c\n");
    }

    #[test]
    fn the_last_line_needs_no_end() {
        let mut lines = LineMerger::new(Writes::default(), 2, Some(0));
        lines.feed(0, b"zero").unwrap();
        lines.feed(1, b"one").unwrap();
        lines.finish_all().unwrap();
        assert_eq!(text(&lines), "[0] zero\n[1] one");
    }

    #[test]
    fn an_endless_line_is_passed_on_in_pieces() {
        let mut lines = LineMerger::new(Writes::default(), 2, Some(0));
        let piece = vec![b'x'; LINE_BYTES / 2];
        for _ in 0..4 {
            lines.feed(0, &piece).unwrap();
        }
        assert_eq!(text(&lines).len(), "[0] ".len() + 2 * LINE_BYTES);
        assert!(lines.pending[0].is_empty());
        lines.feed(1, b"between\n").unwrap();
        lines.feed(0, b"end\n").unwrap();
        assert!(text(&lines).ends_with("xx\n[1] between\n[0] end\n"));
    }

    #[test]
    fn short_lines_are_written_together_in_what_a_pipe_takes_at_once() {
        let mut lines = LineMerger::new(Writes::default(), 1, Some(0));
        let line = [b"y".repeat(99), b"\n".to_vec()].concat();
        lines.feed(0, &line.repeat(1000)).unwrap();
        let writes = &lines.sink.0;
        assert!(writes.len() < 100, "{} writes", writes.len());
        for write in writes {
            assert!(write.len() <= ATOMIC_BYTES);
            assert!(write.starts_with(b"[0] y") && write.ends_with(b"y\n"));
        }
    }
}
