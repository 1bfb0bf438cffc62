//! A job as a table, for terminals.

use pgas_core::stats::{count, size};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, LineGauge, Row as Cells, Table as Grid, Widget};

use super::lines::ranks;
use super::picture::{Picture, Row, State, Weight, seconds};

/// A job, and which of its ranks are shown.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    pub(crate) picture: &'a Picture,
    /// The number of ranks above the view, once the user has scrolled. Until then the most notable
    /// ranks are shown.
    pub(crate) from: Option<usize>,
}

/// Lines beside those of ranks.
const HEADING: u16 = 2;

impl Table<'_> {
    /// The number of lines of the whole table.
    pub(crate) fn height(&self) -> u16 {
        let n_rows = u16::try_from(self.picture.rows.len()).unwrap_or(u16::MAX);
        let n_more = u16::from(self.picture.work().is_some()) + u16::from(self.has_failed());
        n_rows.saturating_add(HEADING + n_more)
    }

    fn has_failed(&self) -> bool {
        self.picture.failure.is_some()
    }

    /// The ranks for which there is room in `n_lines`, and a line about the others.
    fn rows(&self, n_lines: usize) -> (Vec<&Row>, Option<String>) {
        let all = &self.picture.rows;
        if all.len() <= n_lines {
            return (all.iter().collect(), None);
        }
        let n_shown = n_lines.saturating_sub(1);
        let rows = match self.from {
            Some(from) => {
                let from = from.min(all.len() - n_shown);
                all[from..].iter().take(n_shown).collect()
            }
            None => self.picture.choose(n_shown),
        };
        let more = format!("  and {} ranks more", all.len() - rows.len());
        (rows, Some(more))
    }
}

impl Widget for Table<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let work = self.picture.work();
        let n_work = u16::from(work.is_some());
        let n_failure = u16::from(self.has_failed());
        let [title, failure, bar, grid] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(n_failure),
            Constraint::Length(n_work),
            Constraint::Min(0),
        ])
        .areas(area);
        heading(self.picture).render(title, buffer);
        if let Some((rank, cause)) = &self.picture.failure {
            let cause = pgas_core::notice::printable(cause);
            let text = format!("rank {rank} {cause}");
            Line::styled(text, of(Weight::Culprit)).render(failure, buffer);
        }
        if let Some(work) = work {
            let parts = f64::from(u8::try_from(work.percent().unwrap_or(0)).unwrap_or(100));
            let gauge = LineGauge::default().ratio(parts / 100.0);
            let gauge = gauge.label(work.to_string());
            let gauge = gauge.filled_style(Style::new().fg(Color::Green));
            gauge.render(bar, buffer);
        }
        self.render_ranks(grid, buffer);
    }
}

impl Table<'_> {
    fn render_ranks(&self, area: Rect, buffer: &mut Buffer) {
        let n_lines = usize::from(area.height.saturating_sub(1));
        let (rows, more) = self.rows(n_lines);
        // On a narrow terminal, most of the width is for what a rank waits for.
        let is_used = |column: usize| match column {
            3 | 4 => area.width >= 76,
            5 | 6 => area.width >= 94 && self.picture.rates().is_some(),
            _ => true,
        };
        let names = ["rank", "state", "for", "cpu", "memory", "op/s", "B/s", ""];
        let widths = [6, 7, 11, 6, 9, 8, 9].into_iter().enumerate();
        let widths = widths.filter(|(i, _)| is_used(*i)).map(|(_, width)| width);
        let others: u16 = widths.clone().map(|width| width + 1).sum();
        let room = usize::from(area.width.saturating_sub(others));
        let lines = rows.iter().map(|row| cells(row, is_used, room));
        let widths = widths.map(Constraint::Length).chain([Constraint::Min(0)]);
        let names = names.into_iter().enumerate().filter(|(i, _)| is_used(*i));
        let names = names.map(|(i, name)| aligned(name.to_owned(), i));
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let table = Grid::new(lines, widths).header(Cells::new(names).style(bold));
        let last = Constraint::Length(u16::from(more.is_some()));
        let [grid, last] = Layout::vertical([Constraint::Min(0), last]).areas(area);
        Widget::render(table.column_spacing(1), grid, buffer);
        Line::raw(more.unwrap_or_default()).render(last, buffer);
    }
}

/// A cell of a column; numbers are aligned to the right.
fn aligned(text: String, column: usize) -> Cell<'static> {
    let line = Line::from(text);
    let is_text = matches!(column, 1 | 7);
    Cell::new(if is_text { line } else { line.right_aligned() })
}

fn heading(picture: &Picture) -> Line<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut text = format!(", {}: {}", seconds(picture.age), picture.states());
    text += &format!("; memory {}", size(picture.resident()));
    if let Some(rates) = picture.rates() {
        let (operations, bytes) = (count(rates.operations), size(rates.bytes));
        text += &format!("; {operations} op/s, {bytes}/s");
    }
    Line::from(vec![Span::styled(ranks(picture), bold), Span::raw(text)])
}

/// The style of a rank.
fn of(weight: Weight) -> Style {
    match weight {
        Weight::Usual => Style::new(),
        Weight::Long => Style::new().fg(Color::Yellow),
        Weight::Culprit => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    }
}

/// The cells of a rank, of which the last has `room` columns.
fn cells(row: &Row, is_used: impl Fn(usize) -> bool, room: usize) -> Cells<'static> {
    let waited = row.wait.as_ref().map(|(_, waited)| seconds(*waited));
    let rates = row.rates.as_ref();
    let all = [
        row.rank.to_string(),
        row.state.word().to_owned(),
        waited.unwrap_or_default(),
        row.processor
            .map_or(String::new(), |parts| format!("{parts} %")),
        row.resident.map_or(String::new(), size),
        rates.map_or(String::new(), |rates| count(rates.operations)),
        rates.map_or(String::new(), |rates| size(rates.bytes)),
        note_within(row, room),
    ];
    let used = all.into_iter().enumerate().filter(|(i, _)| is_used(*i));
    let style = match row.state {
        State::Left => Style::new().add_modifier(Modifier::DIM),
        _ => of(row.weight),
    };
    Cells::new(used.map(|(i, text)| aligned(text, i))).style(style)
}

/// The [note](Row::note) of a rank, made shorter where it has more than `room` letters: the line of
/// the program loses its folders, and then the wait its end. The file's name and the line stay,
/// though they alone may be longer; so does a note without a wait.
fn note_within(row: &Row, room: usize) -> String {
    let note = row.note();
    let Some((wait, at)) = row.wait_and_line() else {
        return note;
    };
    if note.chars().count() <= room {
        return note;
    }
    let name = at.rsplit('/').next().unwrap_or_default();
    let end = format!(", at {name}");
    let left = room.saturating_sub(end.chars().count());
    if wait.chars().count() <= left {
        return wait + &end;
    }
    let start: String = wait.chars().take(left.saturating_sub(1)).collect();
    format!("{start}\u{2026}{end}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pgas_core::stats::{Counted, LiveWork};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::picture::tests::stalled;
    use super::*;

    fn draw(picture: &Picture, (width, height): (u16, u16), from: Option<usize>) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let table = Table { picture, from };
        let drawn = terminal.draw(|frame| frame.render_widget(table, frame.area()));
        drawn.unwrap().buffer.clone()
    }

    fn lines(buffer: &Buffer) -> Vec<String> {
        let cells: Vec<&str> = buffer
            .content
            .iter()
            .map(ratatui::buffer::Cell::symbol)
            .collect();
        let lines = cells.chunks(buffer.area.width.into());
        lines
            .map(|line| line.concat().trim_end().to_owned())
            .collect()
    }

    #[test]
    fn a_stalled_job_shows_who_waits_and_for_whom() {
        let picture = stalled(Duration::from_secs(11));
        let buffer = draw(&picture, (100, 6), None);
        let expected = [
            "4 ranks of solver, 1 min 15 s: 1 runs, 3 wait; memory 1.17 GiB",
            "  rank state           for    cpu    memory",
            "     0 waits        11.0 s    2 %   300 MiB for a barrier, of rank 3, at src/main.rs:57",
            "     1 waits        11.0 s    2 %   300 MiB for a barrier, of rank 3, at src/main.rs:57",
            "     2 waits        11.0 s    2 %   300 MiB for a barrier, of rank 3, at src/main.rs:57",
            "     3 runs                  98 %   300 MiB 3 ranks have waited for it, for up to 11.0 s",
        ];
        assert_eq!(lines(&buffer), expected);
        let narrow = lines(&draw(&picture, (84, 6), None));
        let waits =
            "     0 waits        11.0 s    2 %   300 MiB for a barrier, of rank 3, at main.rs:57";
        assert_eq!(narrow[2], waits);
        let color = |line: u16| buffer[(7, line)].fg;
        assert_eq!(color(2), Color::Yellow);
        assert_eq!(color(5), Color::Red, "the culprit stands out");
    }

    #[test]
    fn where_there_is_little_room_the_line_of_the_program_stays() {
        let picture = stalled(Duration::ZERO);
        let within = |room| note_within(&picture.rows[0], room);
        let whole = "for a barrier, of rank 3, at src/main.rs:57";
        assert_eq!(within(43), whole);
        for room in 39..43 {
            assert_eq!(within(room), "for a barrier, of rank 3, at main.rs:57");
        }
        assert_eq!(within(38), "for a barrier, of rank\u{2026}, at main.rs:57");
        for room in [0, 15, 16] {
            assert_eq!(within(room), "\u{2026}, at main.rs:57");
        }
    }

    #[test]
    fn rates_and_long_work_have_room_where_there_are_some() {
        let mut picture = stalled(Duration::ZERO);
        let mut rates = Counted::default();
        (rates.operations, rates.bytes) = (1_200_000, 64 << 20);
        let mut work = LiveWork::default();
        (work.what, work.done, work.total) = ("saving counts".to_owned(), 1 << 30, 4 << 30);
        work.since = 1;
        picture.rows[1].rates = Some(rates);
        picture.rows[1].work = Some(work);
        picture.failure = Some((2, "is lost".to_owned()));
        let lines = lines(&draw(&picture, (120, 8), None));
        assert!(
            lines[0].ends_with("; 1.20 M op/s, 64.0 MiB/s"),
            "{lines:#?}"
        );
        assert_eq!(lines[1], "rank 2 is lost");
        assert!(lines[2].starts_with("saving counts: 25 %, 1.00 GiB of 4.00 GiB"));
        assert!(lines[5].contains("1.20 M  64.0 MiB"), "{lines:#?}");
        assert_eq!(
            Table {
                picture: &picture,
                from: None
            }
            .height(),
            8
        );
    }

    #[test]
    fn of_many_ranks_those_are_shown_that_there_is_room_for() {
        let mut picture = stalled(Duration::from_secs(3));
        let culprit = picture.rows.pop().unwrap();
        for rank in 3..1000 {
            let row = Row {
                rank,
                ..super::super::picture::tests::row(rank)
            };
            picture.rows.push(row);
        }
        picture.rows[700] = Row {
            rank: 700,
            ..culprit
        };
        let shown = lines(&draw(&picture, (100, 7), None));
        assert!(shown[5].trim_start().starts_with("700 runs"), "{shown:#?}");
        assert!(shown[6].contains("and 996 ranks more"), "{shown:#?}");
        let scrolled = lines(&draw(&picture, (100, 7), Some(5)));
        assert!(
            scrolled[2].trim_start().starts_with("5 runs"),
            "{scrolled:#?}"
        );
        let end = lines(&draw(&picture, (100, 7), Some(usize::MAX)));
        assert!(end[5].trim_start().starts_with("999 runs"), "{end:#?}");
        for size in [(1, 1), (3, 2), (40, 1), (10, 30)] {
            draw(&picture, size, None);
        }
    }
}
