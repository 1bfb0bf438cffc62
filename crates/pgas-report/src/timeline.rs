//! The timeline of all ranks and the matrix of their traffic, as SVG. The page's style sheet gives
//! the colours, so that they follow its light or dark theme.

use std::fmt::Write as _;

use crate::analysis::Job;
use crate::phases::Phase;
use crate::read::what_and_where;
use crate::stretches::{Doing, outer};
use crate::units::{escaped, size, time};

/// Columns of a timeline. Shorter activities are drawn as a part of their column.
const COLUMNS: usize = 600;
/// Maximum rows of a timeline and of a matrix. Further ranks share rows.
const MOST_ROWS: usize = 128;
const MOST_CELLS: usize = 64;
/// The left margin, for the ranks' numbers.
const MARGIN: usize = 70;
/// The maximum number of containers whose phases are drawn, and the height of each.
const MOST_LANES: usize = 8;
const LANE: usize = 18;
/// The least width of a letter of a phase's name.
const LETTER: usize = 7;

fn n_columns() -> i64 {
    i64::try_from(COLUMNS).expect("they are few")
}

/// The time of an activity in a column, and its name: that of the longest one.
#[derive(Clone, Copy, Default)]
struct Part<'a> {
    nanos: i64,
    longest: i64,
    name: &'a str,
}

impl<'a> Part<'a> {
    fn add(&mut self, nanos: i64, name: &'a str) {
        self.nanos = self.nanos.saturating_add(nanos);
        // Of spans of which one is inside of the other, the inner one comes later.
        if nanos >= self.longest {
            (self.longest, self.name) = (nanos, name);
        }
    }
}

/// The drawing of a column in a row.
#[derive(Clone, Copy, Default)]
struct Cell<'a> {
    waits: Part<'a>,
    serves: Part<'a>,
    span: Part<'a>,
}

impl<'a> Cell<'a> {
    /// The longest activity and its name, if it is long enough.
    fn activity(self, whole: i64) -> Option<(Doing, &'a str)> {
        let parts = [
            (Doing::Waits, self.waits),
            (Doing::Serves, self.serves),
            (Doing::Span, self.span),
        ];
        let most = parts.iter().map(|(_, part)| part.nanos).max()?;
        if most.saturating_mul(4) < whole {
            return None;
        }
        let (doing, part) = parts.into_iter().find(|(_, part)| part.nanos == most)?;
        Some((doing, part.name))
    }

    fn part(&mut self, doing: Doing) -> &mut Part<'a> {
        match doing {
            Doing::Waits => &mut self.waits,
            Doing::Serves => &mut self.serves,
            Doing::Span => &mut self.span,
        }
    }
}

/// The ranks of each row: one rank, or several.
fn rows(n: usize, most: usize) -> Vec<std::ops::Range<usize>> {
    let per_row = n.div_ceil(most).max(1);
    (0..n)
        .step_by(per_row)
        .map(|from| from..(from + per_row).min(n))
        .collect()
}

fn label(job: &Job, row: &std::ops::Range<usize>) -> String {
    let (first, last) = (job.ranks[row.start].rank, job.ranks[row.end - 1].rank);
    if first == last {
        first.to_string()
    } else {
        format!("{first}\u{2013}{last}")
    }
}

/// The timeline.
pub(crate) fn timeline(job: &Job) -> String {
    let rows = rows(job.ranks.len(), MOST_ROWS);
    let height = if rows.len() > 32 { 6 } else { 16 };
    let lanes = &job.objects[..job.objects.len().min(MOST_LANES)];
    let top = lanes.len() * LANE + if lanes.is_empty() { 0 } else { 6 };
    let (width, total) = (MARGIN + 2 * COLUMNS, top + rows.len() * height + 30);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {total}\" role=\"img\" aria-labelledby=\"timeline-title timeline-text\">\
         <title id=\"timeline-title\">Timeline of {} ranks over {}</title>\
         <desc id=\"timeline-text\">A row a rank; waits, served messages and spans of the program by colour and \
         height; above them the phases of containers, a row each. The tables below say the same in numbers.</desc>\n",
        job.ranks.len(),
        time(job.nanos)
    );
    for (number, lane) in lanes.iter().enumerate() {
        write_lane(&mut svg, job, (number, lane));
    }
    for (number, row) in rows.iter().enumerate() {
        write_row(&mut svg, job, (number, row), (top, height));
    }
    let baseline = top + rows.len() * height + 18;
    for quarter in 0..=4 {
        let x = MARGIN + quarter * COLUMNS / 2;
        let anchor = if quarter == 4 { "end" } else { "start" };
        let at = time(job.nanos / 4 * quarter as u64);
        let _ = write!(
            svg,
            "<text x=\"{x}\" y=\"{baseline}\" text-anchor=\"{anchor}\">{at}</text>"
        );
    }
    svg + "</svg>\n"
}

/// The phases of a container, with their names where there is room.
fn write_lane(svg: &mut String, job: &Job, (number, phases): (usize, &Vec<Phase>)) {
    let y = number * LANE;
    let object = phases.first().map_or("", |phase| phase.parts()[0]);
    let _ = write!(
        svg,
        "<text x=\"{}\" y=\"{}\" class=\"rank\">{}</text>",
        MARGIN - 6,
        y + 12,
        escaped(object)
    );
    let place = |at: i64| {
        let whole = i128::from(job.nanos.max(1));
        let x = i128::from(at.max(0)) * i128::from(2 * n_columns()) / whole;
        usize::try_from(x).unwrap_or(0).min(2 * COLUMNS)
    };
    // Phases too short to be seen are drawn once a place.
    let mut drawn = None;
    for phase in phases {
        let (from, until) = (place(phase.from), place(phase.until));
        if drawn.is_some_and(|drawn| until <= drawn) {
            continue;
        }
        drawn = Some(until);
        let [_, name, at] = phase.parts();
        let (x, w) = (MARGIN + from, (until - from).max(1));
        let (name, nanos) = (escaped(name), time(phase.nanos()));
        let _ = write!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{}\" class=\"phase\"><title>{name}, {nanos}, from {}</title></rect>",
            LANE - 3,
            escaped(at)
        );
        if w > LETTER * name.len() {
            let _ = write!(
                svg,
                "<text x=\"{}\" y=\"{}\" class=\"phase-name\">{name}</text>",
                x + 4,
                y + 12
            );
        }
    }
    svg.push('\n');
}

fn write_row(
    svg: &mut String,
    job: &Job,
    (number, row): (usize, &std::ops::Range<usize>),
    (top, height): (usize, usize),
) {
    let nanos = i64::try_from(job.nanos.max(1)).unwrap_or(i64::MAX);
    let top = top + number * height;
    if height > 10 || number % 4 == 0 {
        let text = label(job, row);
        let baseline = top + height.min(12);
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{baseline}\" class=\"rank\">{text}</text>",
            MARGIN - 6
        );
    }
    let mut cells = cells(job, row, nanos);
    let n_ranks = i64::try_from(row.len()).unwrap_or(1);
    let whole = (nanos / n_columns()).saturating_mul(n_ranks);
    let _ = write!(
        svg,
        "<rect x=\"{MARGIN}\" y=\"{top}\" width=\"{}\" height=\"{}\" class=\"row\"/>",
        2 * COLUMNS,
        height - 1
    );
    let mut from = 0;
    while from < COLUMNS {
        let activity = cells[from].activity(whole.max(1));
        let alike = cells[from..].iter();
        let n = alike
            .take_while(|cell| cell.activity(whole.max(1)) == activity)
            .count();
        if let Some((doing, name)) = activity {
            let run = &mut cells[from..from + n];
            let nanos = run.iter_mut().map(|cell| cell.part(doing).nanos);
            let nanos = nanos.fold(0, i64::saturating_add);
            let nanos = u64::try_from(nanos).unwrap_or(0);
            write_bar(svg, (doing, name, nanos), (from, n), (top, height));
        }
        from += n;
    }
}

/// Columns of one activity of one name.
fn write_bar(
    svg: &mut String,
    (doing, name, nanos): (Doing, &str, u64),
    (from, n): (usize, usize),
    (top, height): (usize, usize),
) {
    let (x, w) = (MARGIN + 2 * from, 2 * n);
    let (what, at) = what_and_where(name);
    // Waits are drawn low, so that they differ not only by colour.
    let (class, inset, title) = match doing {
        Doing::Waits => ("waits", height / 3, format!("waits for {what} at {at}")),
        Doing::Serves => ("serves", height / 6, format!("serves messages of {at}")),
        Doing::Span => ("span", 0, format!("span {name}")),
    };
    let (y, h) = (top + inset, (height - 1).saturating_sub(inset).max(1));
    let (title, nanos) = (escaped(&title), time(nanos));
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" class=\"{class}\"><title>{title}, {nanos}</title></rect>"
    );
    if doing == Doing::Span && height > 10 && w > LETTER * name.len() {
        let (x, baseline, name) = (x + 3, top + height - 5, escaped(name));
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{baseline}\" class=\"span-name\">{name}</text>"
        );
    }
}

/// The time of each activity in each column, without that of what lies within it.
fn cells<'a>(job: &'a Job, row: &std::ops::Range<usize>, nanos: i64) -> Vec<Cell<'a>> {
    let mut cells = vec![Cell::default(); COLUMNS];
    let columns = n_columns();
    let begin = |column: i64| {
        i64::try_from(i128::from(nanos) * i128::from(column) / i128::from(columns)).unwrap_or(nanos)
    };
    let column = |at: i64| {
        let column = i128::from(at.clamp(0, nanos)) * i128::from(columns) / i128::from(nanos);
        usize::try_from(column).unwrap_or(0).min(COLUMNS - 1)
    };
    for rank in &job.ranks[row.clone()] {
        let outer = outer(&rank.stretches);
        for (stretch, outer) in rank.stretches.iter().zip(outer) {
            let outer = outer.map(|outer| &rank.stretches[outer]);
            let (first, last) = (column(stretch.from), column(stretch.until));
            for (i, cell) in cells[first..=last].iter_mut().enumerate() {
                let index = i64::try_from(first + i).unwrap_or(0);
                let (from, until) = (stretch.from.max(begin(index)), begin(index + 1));
                let nanos = |end: i64| (end.min(until) - from).max(0);
                let part = cell.part(stretch.doing);
                part.add(nanos(stretch.until), &stretch.name);
                if let Some(outer) = outer {
                    let common = nanos(stretch.until.min(outer.until));
                    let outer = cell.part(outer.doing);
                    outer.nanos = outer.nanos.saturating_sub(common);
                }
            }
        }
    }
    cells
}

/// The bytes of each cell of the matrix, row by row.
fn sums(job: &Job, n_cells: usize, per_cell: usize) -> Vec<u64> {
    let mut sums = vec![0_u64; n_cells * n_cells];
    for ((from, to), [.., bytes]) in job.traffic() {
        let (from, to) = (from as usize / per_cell, to as usize / per_cell);
        let row = sums.chunks_exact_mut(n_cells).nth(from);
        if let Some(sum) = row.and_then(|row| row.get_mut(to)) {
            *sum = sum.saturating_add(bytes);
        }
    }
    sums
}

/// The darkness of a cell with so many bytes, from 0 for none to 1 for the most.
///
/// On a logarithmic scale from the least to the most, on which factors can be compared. It has at
/// least four doublings, so that small differences look small, and at most twelve, so that others
/// can be seen.
fn opacity(bytes: u64, least: u64, most: u64) -> f64 {
    const LEAST: f64 = 0.1;
    if bytes == 0 {
        return 0.0;
    }
    let doublings = |from: u64| (most as f64 / from.max(1) as f64).log2();
    let share = 1.0 - doublings(bytes) / doublings(least).clamp(4.0, 12.0);
    LEAST + (1.0 - LEAST) * share.max(0.0)
}

/// The bytes between each two ranks, as squares: the more bytes, the darker.
pub(crate) fn matrix(job: &Job) -> String {
    let n = job.n_ranks.max(1) as usize;
    let per_cell = n.div_ceil(MOST_CELLS);
    let n_cells = n.div_ceil(per_cell);
    let sums = sums(job, n_cells, per_cell);
    let some = || sums.iter().copied().filter(|bytes| *bytes > 0);
    let (least, most) = (some().min().unwrap_or(0), some().max().unwrap_or(0));
    let side = (480 / n_cells).clamp(7, 40);
    let (total, height) = (MARGIN + n_cells * side + 10, 30 + n_cells * side + 4);
    let mut svg = format!(
        "<svg class=\"plain\" width=\"{total}\" viewBox=\"0 0 {total} {height}\" role=\"img\" aria-labelledby=\"matrix-title\">\
         <title id=\"matrix-title\">Bytes of what ranks (rows) began with ranks (columns); the most is {}</title>\n",
        size(most)
    );
    let text = |cell: usize| {
        let (first, last) = (cell * per_cell, ((cell + 1) * per_cell).min(n) - 1);
        if first == last {
            first.to_string()
        } else {
            format!("{first}\u{2013}{last}")
        }
    };
    let every = n_cells.div_ceil(16);
    for row in 0..n_cells {
        let y = 30 + row * side;
        if row % every == 0 {
            let baseline = y + side.min(14);
            let _ = write!(
                svg,
                "<text x=\"{}\" y=\"{baseline}\" class=\"rank\">{}</text>",
                MARGIN - 6,
                text(row)
            );
            let x = MARGIN + row * side;
            let _ = write!(svg, "<text x=\"{x}\" y=\"22\">{}</text>", text(row));
        }
        for column in 0..n_cells {
            let bytes = sums[row * n_cells + column];
            let x = MARGIN + column * side;
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{0}\" height=\"{0}\" class=\"cell\" fill-opacity=\"{1:.2}\">\
                 <title>from {2} to {3}: {4}</title></rect>",
                side - 1,
                opacity(bytes, least, most),
                text(row),
                text(column),
                size(bytes)
            );
        }
    }
    svg + "</svg>\n"
}
