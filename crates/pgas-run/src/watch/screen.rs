//! A view below a program's output, on a terminal.
//!
//! The output is as if there was no view: before each piece of it the view is erased, and behind it
//! the view is drawn again. So the output can be scrolled back to and copied, and stays when the
//! view goes. Only relative movements of the cursor are used. So nothing is asked of the terminal,
//! whose input is rank 0's, and a launcher that is killed leaves it in a usable state.

use std::env;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use pgas_smp::launcher::{self, Patient, Sink, Stream};
use ratatui::backend::IntoCrossterm as _;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::style::ContentStyle;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::Span;
use ratatui::widgets::Widget;

use super::lines;
use super::picture::Picture;
use super::table::Table;

/// A terminal that takes output has taken a piece of it by then.
const PATIENCE: Duration = Duration::from_millis(100);

/// A terminal with a view below the output.
#[derive(Clone, Debug)]
pub(crate) struct Screen(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// The text of the view, and the number of columns of each of its lines.
    view: String,
    widths: Vec<usize>,
    /// Whether it is on the terminal now.
    is_shown: bool,
    /// Whether it is to be shown.
    is_wanted: bool,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            view: String::new(),
            widths: Vec::new(),
            is_shown: false,
            is_wanted: true,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless another thread still writes to a terminal that takes nothing any more: no
    /// job waits for its view.
    fn state_soon(&self) -> Option<MutexGuard<'_, State>> {
        lock_soon(&self.0, PATIENCE)
    }

    /// Shows another view, of `width` columns and `height` lines, if the terminal has room for it.
    pub(crate) fn show(&self, view: impl Widget, (width, height): (u16, u16)) {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        view.render(buffer.area, &mut buffer);
        let Some(mut state) = self.state_soon().filter(|_| has_room()) else {
            return;
        };
        let mut text = state.erased();
        (state.view, state.widths) = encode(&buffer);
        text += &state.drawn();
        write(&text);
    }

    /// Hides the view, or shows it again. Where the terminal has no room, it does so later.
    pub(crate) fn hide(&self, is_hidden: bool) {
        let Some(mut state) = self.state_soon() else {
            return;
        };
        state.is_wanted = !is_hidden;
        if !has_room() {
            return;
        }
        let mut text = state.erased();
        text += &state.drawn();
        write(&text);
    }
}

/// The view of a job: below its output on a terminal, or in plain lines.
#[derive(Clone, Debug)]
pub(crate) struct View(Option<Screen>);

impl View {
    pub(crate) fn new() -> Self {
        let has_room = size().and_then(room).is_some();
        let is_drawn = io::stderr().is_terminal() && moves_cursor() && has_room;
        Self(is_drawn.then(Screen::new))
    }

    /// No view: only the launcher's own lines are printed.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// The default interval between two pictures.
    pub(crate) fn usual_pause(&self) -> Duration {
        match self.0 {
            Some(_) => Duration::from_millis(500),
            None => Duration::from_secs(5),
        }
    }

    pub(crate) fn show(&self, picture: &Picture) {
        let Some(screen) = &self.0 else {
            return super::tell_lines(&lines::summary(picture));
        };
        // Nothing is shown as long as the window is too small.
        let (width, most) = size().and_then(room).unwrap_or_default();
        let table = Table {
            picture,
            from: None,
        };
        let lines = table.height().min(most);
        screen.show(table, (width, lines));
    }

    /// Prints a line of the launcher's own.
    pub(crate) fn tell(&self, line: &str) {
        self.hide(true);
        launcher::tell(line);
        self.hide(false);
    }

    pub(crate) fn hide(&self, is_hidden: bool) {
        if let Some(screen) = &self.0 {
            screen.hide(is_hidden);
        }
    }

    /// The destination of output, if the view lies below it, and so on the same terminal.
    pub(crate) fn sink(&self, stream: Stream) -> Option<Sink> {
        let screen = self.0.clone()?;
        let of_view = file_of(&io::stderr()).ok()?;
        let sink = match stream {
            Stream::Output => file_of(&io::stdout()),
            Stream::Error => file_of(&io::stderr()),
        };
        let sink = sink.ok().filter(|sink| is_one_terminal(sink, &of_view));
        let sink = Patient(sink?);
        Some(Box::new(Above { screen, sink }))
    }
}

impl State {
    /// The text that erases the view.
    fn erased(&mut self) -> String {
        if !std::mem::take(&mut self.is_shown) {
            return String::new();
        }
        // Go up to its first line, and clear from there on. A terminal that has become narrower has
        // broken its lines.
        let width = size().map_or(usize::MAX, |(width, _)| width.max(1).into());
        let lines = self.widths.iter().map(|used| used.div_ceil(width).max(1));
        format!("\x1b[{}A\r\x1b[J", lines.sum::<usize>())
    }

    /// The text that draws the view.
    fn drawn(&mut self) -> String {
        if !self.is_wanted || self.widths.is_empty() {
            return String::new();
        }
        self.is_shown = true;
        self.view.clone()
    }
}

/// Output above the view.
struct Above {
    screen: Screen,
    sink: Patient,
}

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.screen.state();
        let mut all = state.erased().into_bytes();
        all.extend_from_slice(bytes);
        let view = state.drawn();
        if !view.is_empty() && !bytes.ends_with(b"\n") {
            all.push(b'\n');
        }
        all.extend_from_slice(view.as_bytes());
        self.sink.write_all(&all)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Locks `mutex`, unless another thread has it for longer than `patience`. One that writes to a
/// terminal may have it for ever.
pub(crate) fn lock_soon<T>(mutex: &Mutex<T>, patience: Duration) -> Option<MutexGuard<'_, T>> {
    let until = Instant::now() + patience;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() > until => return None,
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn has_room() -> bool {
    launcher::has_room(&io::stderr())
}

fn write(text: &str) {
    // A terminal that is gone is no reason to end the job.
    if !text.is_empty() {
        io::stderr().lock().write_all(text.as_bytes()).ok();
    }
}

/// Standard output or error, as a file.
fn file_of(stream: &impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

/// Whether two files are the same terminal. It may have two names: `/dev/tty` is the one that this
/// process is controlled by, and only of that one a process is told the session.
fn is_one_terminal(one: &File, other: &File) -> bool {
    let number = |file: &File| file.metadata().map(|file| (file.dev(), file.ino())).ok();
    let is_controlling = |file: &File| rustix::termios::tcgetsid(file).is_ok();
    let is_same = number(one).is_some() && number(one) == number(other);
    one.is_terminal() && (is_same || is_controlling(one) && is_controlling(other))
}

/// The text of a buffer, and the number of columns of each line.
fn encode(buffer: &Buffer) -> (String, Vec<usize>) {
    let (mut text, mut widths) = (String::new(), Vec::new());
    for cells in buffer.content.chunks(buffer.area.width.max(1).into()) {
        let is_blank = |cell: &&Cell| cell.symbol() == " " && cell.style() == Cell::EMPTY.style();
        let n_used = cells.len() - cells.iter().rev().take_while(is_blank).count();
        let width = |cell: &Cell| Span::raw(cell.symbol()).width();
        // Behind a letter of two columns is a cell that is none of its own.
        let mut n_columns = 0;
        let used = cells[..n_used].iter().enumerate();
        let letters: Vec<&Cell> = used
            .filter_map(|(column, cell)| {
                let is_seen = column >= n_columns;
                n_columns += if is_seen { width(cell).max(1) } else { 0 };
                is_seen.then_some(cell)
            })
            .collect();
        for run in letters.chunk_by(|a, b| a.style() == b.style()) {
            let words: String = run.iter().map(|cell| cell.symbol()).collect();
            let style = styled(run[0].style());
            write!(text, "{}", style.apply(words)).expect("a text takes everything");
        }
        text += "\n";
        widths.push(n_columns);
    }
    (text, widths)
}

/// Columns and lines of the terminal of the view, if they are known. A terminal whose size nobody
/// has set, as of a serial line or of `ssh -tt` without a terminal, says 0.
fn size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// The columns and the most lines of a view on a terminal of this size, if there is room for one:
/// at least three lines, and one of the cursor's. The other half is for the output.
fn room((width, height): (u16, u16)) -> Option<(u16, u16)> {
    (width > 1 && height > 3).then(|| (width - 1, (height / 2).max(3)))
}

/// Whether the cursor can be moved. Terminals that call themselves dumb, such as those within
/// editors, show the letters of the commands.
pub(crate) fn moves_cursor() -> bool {
    !env::vars_os().any(|(name, value)| name == "TERM" && value == "dumb")
}

/// The style of text. The terminal's own colours stay.
fn styled(style: Style) -> ContentStyle {
    let mut plain = Style::new().add_modifier(style.add_modifier);
    plain.fg = style.fg.filter(|color| *color != Color::Reset);
    plain.bg = style.bg.filter(|color| *color != Color::Reset);
    plain.into_crossterm()
}

#[cfg(test)]
mod tests {
    use ratatui::style::Stylize as _;
    use ratatui::text::Line;

    use super::*;

    #[test]
    fn a_view_is_written_with_its_styles_and_without_blanks_at_the_ends_of_lines() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 3));
        Line::from(vec!["usual ".into(), "red".red().bold()]).render(buffer.area, &mut buffer);
        Line::from("last").render(Rect::new(0, 2, 20, 1), &mut buffer);
        let (text, widths) = encode(&buffer);
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].starts_with("usual \u{1b}["), "{text:?}");
        assert!(lines[0].contains("red"), "{text:?}");
        assert_eq!((lines[1], lines[2]), ("", "last"));
        assert_eq!(widths, [9, 0, 4]);
    }

    #[test]
    fn a_letter_of_two_columns_is_written_once_and_counts_as_two() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 2));
        Line::from("\u{4f60}x").render(buffer.area, &mut buffer);
        Line::from("a\u{4f60}").render(Rect::new(0, 1, 20, 1), &mut buffer);
        let (text, widths) = encode(&buffer);
        assert_eq!(text, "\u{4f60}x\na\u{4f60}\n");
        assert_eq!(widths, [3, 3]);
    }

    #[test]
    fn a_view_leaves_room_for_the_output_and_the_cursor_or_is_not_shown() {
        assert_eq!(room((80, 24)), Some((79, 12)));
        assert_eq!(room((2, 4)), Some((1, 3)));
        assert_eq!([room((80, 3)), room((1, 24))], [None, None]);
        for height in 4..100 {
            assert!(room((80, height)).is_some_and(|(_, lines)| lines < height));
        }
    }

    #[test]
    fn the_view_goes_before_output_and_comes_back_behind_it() {
        let screen = Screen::new();
        let mut state = screen.state();
        assert_eq!(state.erased() + &state.drawn(), "", "there is none yet");
        (state.view, state.widths) = ("one\ntwo\n".to_owned(), vec![3, 3]);
        assert_eq!(state.drawn(), "one\ntwo\n");
        assert_eq!(state.erased(), "\u{1b}[2A\r\u{1b}[J");
        assert_eq!(state.erased(), "", "it is gone");
        state.is_wanted = false;
        assert_eq!(state.drawn(), "");
    }
}
