//! A view of the whole terminal, with keys.

use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pgas_smp::launcher::{SignalWatch, asks_to_end};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::{execute, terminal};
use ratatui::{DefaultTerminal, Frame};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpid, kill_process};

use super::is_over;
use crate::watch::picture::{Looks, Picture};
use crate::watch::table::Table;
use crate::watch::{lock_soon, moves_cursor};

/// The default interval between two pictures.
const USUAL_PAUSE: Duration = Duration::from_millis(500);
/// A terminal that takes output has taken a picture by then.
const LONGEST_DRAWING: Duration = Duration::from_secs(1);

/// Shows a job until it ends or a key ends the view. Without a terminal that has a size and can move
/// its cursor, returns the job.
pub(super) fn show(looks: Looks, every: Option<Duration>) -> io::Result<Option<Looks>> {
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    let has_size = || terminal::size().is_ok_and(|(width, height)| width > 0 && height > 0);
    if !is_terminal || !moves_cursor() || !has_size() {
        return Ok(Some(looks));
    }
    let mut top = Top::new(looks);
    restore_at_signals(Arc::clone(&top.drawing))?;
    let drawing = Arc::clone(&top.drawing);
    let drawing = drawing.lock().unwrap_or_else(PoisonError::into_inner);
    let mut terminal = ratatui::try_init()?;
    drop(drawing);
    let shown = top.show(&mut terminal, every.unwrap_or(USUAL_PAUSE));
    ratatui::try_restore()?;
    shown.map(|()| None)
}

/// Begins to wait for a signal that ends this program, such as SIGTERM, and then leaves the terminal
/// as it was before. Whoever draws holds `drawing`.
fn restore_at_signals(drawing: Arc<Mutex<()>>) -> io::Result<()> {
    let signals = SignalWatch::start()?;
    let end = move || -> io::Result<()> {
        let ends = loop {
            // Returns early where a signal has a handler.
            let _n_ready = poll(&mut [PollFd::new(&signals, PollFlags::IN)], None);
            if let Some(received) = signals.next()?
                && asks_to_end(received.signal)
            {
                break received.signal;
            }
        };
        let nothing_is_drawn = lock_soon(&drawing, LONGEST_DRAWING);
        // Without the terminal, there is nothing to leave.
        if nothing_is_drawn.is_some() {
            ratatui::try_restore().ok();
            execute!(io::stdout(), Show).ok();
        } else {
            terminal::disable_raw_mode().ok();
        }
        // It is acted upon again.
        drop(signals);
        if let Some(signal) = Signal::from_named_raw(ends) {
            kill_process(getpid(), signal)?;
        }
        // That one ends nothing where whoever has started this program has blocked it, and no
        // signal of its own ends the first process of a container.
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends this program, which is no rank"
        )]
        std::process::exit(128 + ends)
    };
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(end).map(drop)
}

/// The view of the whole terminal.
struct Top {
    looks: Looks,
    /// The number of ranks above the view, once the user has scrolled.
    from: Option<usize>,
    page: usize,
    drawing: Arc<Mutex<()>>,
}

impl Top {
    fn new(looks: Looks) -> Self {
        Self {
            looks,
            from: None,
            page: 1,
            drawing: Arc::default(),
        }
    }

    fn show(&mut self, terminal: &mut DefaultTerminal, pause: Duration) -> io::Result<()> {
        loop {
            let picture = super::picture(&mut self.looks)?;
            let until = Instant::now() + pause;
            loop {
                let drawing = Arc::clone(&self.drawing);
                let drawing = drawing.lock().unwrap_or_else(PoisonError::into_inner);
                terminal.draw(|frame| self.draw(frame, &picture))?;
                drop(drawing);
                if !event::poll(until.saturating_duration_since(Instant::now()))? {
                    break;
                }
                if let Event::Key(key) = event::read()?
                    && key.kind != KeyEventKind::Release
                    && self.is_end(key, picture.rows.len())
                {
                    return Ok(());
                }
            }
            if is_over(&picture) {
                return Ok(());
            }
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>, picture: &Picture) {
        let area = frame.area();
        self.page = usize::from(area.height.saturating_sub(3)).max(1);
        let from = self.from;
        frame.render_widget(Table { picture, from }, area);
    }

    /// Handles a key. Returns whether it ends the view.
    fn is_end(&mut self, key: KeyEvent, n_rows: usize) -> bool {
        let from = self.from.unwrap_or(0);
        let last = n_rows.saturating_sub(self.page);
        let to = match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Down => from + 1,
            KeyCode::Up => from.saturating_sub(1),
            KeyCode::PageDown => from + self.page,
            KeyCode::PageUp => from.saturating_sub(self.page),
            KeyCode::Home => 0,
            KeyCode::End => last,
            KeyCode::Char('a') => {
                self.from = None;
                return false;
            }
            _ => return false,
        };
        self.from = Some(to.min(last));
        false
    }
}
