//! What guests write, on its way to the simulator's own output.

use std::io::Write;

use pgas_riscv_sim::machine::Console;

/// The longest line that is held back until it ends.
const LONGEST: usize = 1 << 16;

/// As it comes. If nobody reads what the guest writes, the guest goes on.
pub(super) fn as_it_is(mut sink: impl Write + 'static) -> Console {
    Box::new(move |_, bytes| drop(sink.write_all(bytes)))
}

/// In whole lines, each with the number of its node before it. What has no end of line comes when
/// all is over.
pub(super) fn by_node(n_nodes: usize, sink: impl Write + 'static) -> Console {
    let mut lines = Lines {
        begun: vec![Vec::new(); n_nodes],
        sink,
    };
    Box::new(move |node, bytes| lines.take(node, bytes))
}

struct Lines<W: Write> {
    begun: Vec<Vec<u8>>,
    sink: W,
}

impl<W: Write> Lines<W> {
    fn take(&mut self, node: usize, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun[node].extend(part);
            if part.ends_with(b"\n") || self.begun[node].len() >= LONGEST {
                self.write(node);
            }
        }
    }

    fn write(&mut self, node: usize) {
        let line = std::mem::take(&mut self.begun[node]);
        let end: &[u8] = if line.ends_with(b"\n") { b"" } else { b"\n" };
        let line = [format!("[{node}] ").as_bytes(), &line, end].concat();
        drop(self.sink.write_all(&line));
    }
}

impl<W: Write> Drop for Lines<W> {
    fn drop(&mut self) {
        for node in 0..self.begun.len() {
            if !self.begun[node].is_empty() {
                self.write(node);
            }
        }
        drop(self.sink.flush());
    }
}
