//! What guests write, on its way to the simulator's own output.

use std::cell::OnceCell;
use std::io::{self, Write};
use std::rc::Rc;

use pgas_riscv_sim::machine::Console;

/// The longest line that is held back until it ends.
const LONGEST: usize = 1 << 16;

/// The first error of an output. What guests write after it is lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Lost(Rc<OnceCell<io::Error>>);

impl Lost {
    pub(super) fn note(&self, written: io::Result<()>) {
        if let Err(why) = written {
            // The first one is kept.
            self.0.set(why).ok();
        }
    }

    pub(super) fn why(&self) -> Option<&io::Error> {
        self.0.get()
    }
}

/// As it comes.
pub(super) fn as_it_is(mut sink: impl Write + 'static, lost: Lost) -> Console {
    Box::new(move |_, bytes| lost.note(sink.write_all(bytes)))
}

/// In whole lines, each with the number of its node before it. What has no end of line comes when
/// all is over.
pub(super) fn by_node(n_nodes: usize, sink: impl Write + 'static, lost: Lost) -> Console {
    let mut lines = Lines {
        begun: vec![Vec::new(); n_nodes],
        sink,
        lost,
    };
    Box::new(move |node, bytes| lines.take(node, bytes))
}

struct Lines<W: Write> {
    begun: Vec<Vec<u8>>,
    sink: W,
    lost: Lost,
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
        self.lost.note(self.sink.write_all(&line));
    }
}

impl<W: Write> Drop for Lines<W> {
    fn drop(&mut self) {
        for node in 0..self.begun.len() {
            if !self.begun[node].is_empty() {
                self.write(node);
            }
        }
        self.lost.note(self.sink.flush());
    }
}
