//! The encoding of a picture, for another host that shows it. Times are encoded as durations, since
//! clocks differ.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pgas_core::notice::printable;
use pgas_core::stats::{Counted, LiveWait, LiveWork, Unit};

use super::picture::{Picture, Row, State, Weight};

/// The fields of a picture.
pub(crate) fn to_fields(picture: &Picture) -> Vec<Vec<u8>> {
    let mut fields = Fields::default();
    fields.text(&picture.program);
    fields.time(picture.age);
    fields.number(picture.failure.as_ref().map(|(rank, _)| u64::from(*rank)));
    fields.text(picture.failure.as_ref().map_or("", |(_, cause)| cause));
    for row in &picture.rows {
        fields.row(row);
    }
    fields.0
}

/// The picture with this encoding; `None` if the fields are invalid.
pub(crate) fn of_fields(fields: &[Vec<u8>]) -> Option<Picture> {
    let mut fields = Reader(fields);
    let program = fields.text()?;
    let age = fields.time()?;
    let failed = fields.number()?;
    let cause = fields.text()?;
    let mut rows = Vec::new();
    while !fields.0.is_empty() {
        rows.push(fields.row()?);
    }
    Some(Picture {
        program: printable(program).to_string(),
        age,
        n_ranks: u32::try_from(rows.len()).ok()?,
        n_hosts: 1,
        rows,
        failure: failed.map(|rank| (small(rank), cause)),
    })
}

/// The time in nanoseconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    nanos(now.unwrap_or_default())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[derive(Default)]
struct Fields(Vec<Vec<u8>>);

impl Fields {
    fn text(&mut self, text: &str) {
        self.0.push(text.as_bytes().to_vec());
    }

    /// An optional number.
    fn number(&mut self, number: Option<u64>) {
        self.text(&number.map_or(String::new(), |number| number.to_string()));
    }

    fn time(&mut self, time: Duration) {
        self.number(Some(nanos(time)));
    }

    fn row(&mut self, row: &Row) {
        self.number(Some(row.rank.into()));
        self.number(Some(row.state as u64));
        self.number(row.processor);
        self.number(row.resident);
        self.number(row.rates.map(|rates| rates.operations));
        self.number(row.rates.map(|rates| rates.bytes));
        self.number(row.wait.as_ref().map(|(_, waited)| nanos(*waited)));
        if let Some((wait, _)) = &row.wait {
            for text in [&wait.what, &wait.whole, &wait.file] {
                self.text(text);
            }
            self.number(Some(wait.line));
            self.number(Some(wait.n_missing));
            self.number(wait.missing.map(u64::from));
        }
        self.number(
            row.work
                .as_ref()
                .map(|work| now().saturating_sub(work.since)),
        );
        if let Some(work) = &row.work {
            self.text(&work.what);
            for number in [work.done, work.total, work.number] {
                self.number(Some(number));
            }
            self.number(Some(u64::from(work.unit == Unit::Elements)));
            self.number(Some(work.is_over.into()));
        }
    }
}

struct Reader<'a>(&'a [Vec<u8>]);

impl Reader<'_> {
    fn text(&mut self) -> Option<String> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(String::from_utf8_lossy(first).into_owned())
    }

    /// An optional number.
    #[expect(clippy::option_option, reason = "a field, with a number or without")]
    fn number(&mut self) -> Option<Option<u64>> {
        match self.text()? {
            text if text.is_empty() => Some(None),
            text => text.parse().ok().map(Some),
        }
    }

    fn some(&mut self) -> Option<u64> {
        self.number()?
    }

    fn time(&mut self) -> Option<Duration> {
        self.some().map(Duration::from_nanos)
    }

    fn row(&mut self) -> Option<Row> {
        let rank = small(self.some()?);
        let state = self.some()?;
        let state = State::ALL
            .into_iter()
            .find(|known| *known as u64 == state)?;
        let (processor, resident) = (self.number()?, self.number()?);
        let (operations, bytes) = (self.number()?, self.number()?);
        let rates = operations.zip(bytes).map(|(operations, bytes)| {
            let mut rates = Counted::default();
            (rates.operations, rates.bytes) = (operations, bytes);
            rates
        });
        let wait = match self.number()? {
            Some(waited) => Some((self.wait()?, Duration::from_nanos(waited))),
            None => None,
        };
        let work = match self.number()? {
            Some(elapsed) => Some(self.work(elapsed)?),
            None => None,
        };
        Some(Row {
            rank,
            state,
            weight: Weight::Usual,
            wait,
            awaited: None,
            processor,
            resident,
            rates,
            work,
        })
    }

    fn wait(&mut self) -> Option<LiveWait> {
        let mut wait = LiveWait::default();
        (wait.what, wait.whole, wait.file) = (self.text()?, self.text()?, self.text()?);
        (wait.line, wait.n_missing) = (self.some()?, self.some()?);
        wait.missing = self.number()?.map(small);
        Some(wait)
    }

    fn work(&mut self, elapsed: u64) -> Option<LiveWork> {
        let mut work = LiveWork::default();
        work.since = now().saturating_sub(elapsed);
        work.what = self.text()?;
        (work.done, work.total, work.number) = (self.some()?, self.some()?, self.some()?);
        work.unit = match self.some()? {
            0 => Unit::Bytes,
            _ => Unit::Elements,
        };
        work.is_over = self.some()? != 0;
        Some(work)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::all;
    use super::super::picture::tests::stalled;
    use super::*;

    fn picture() -> Picture {
        let mut picture = stalled(Duration::from_secs(11));
        let mut rates = Counted::default();
        (rates.operations, rates.bytes) = (7, 56);
        picture.rows[1].rates = Some(rates);
        let mut work = LiveWork::default();
        (work.what, work.done, work.total) = ("saving\na map".to_owned(), 1 << 30, 4 << 30);
        work.since = now() - 1_000_000_000;
        picture.rows[3].work = Some(work);
        picture.failure = Some((2, "is lost".to_owned()));
        picture
    }

    #[test]
    fn a_picture_is_shown_elsewhere_as_here() {
        let here = picture();
        let mut there = of_fields(&to_fields(&here)).unwrap();
        there.blame();
        assert_eq!(all(&there), all(&here));
    }

    #[test]
    fn a_part_of_a_picture_or_nonsense_is_none() {
        let fields = to_fields(&picture());
        let n_rows = (0..=fields.len()).filter_map(|end| of_fields(&fields[..end]));
        let n_rows: Vec<usize> = n_rows.map(|picture| picture.rows.len()).collect();
        assert_eq!(n_rows, [0, 1, 2, 3, 4], "only whole rows");
        for at in [1, 2, 4, 5] {
            let mut fields = fields.clone();
            fields[at] = b"x".to_vec();
            assert!(of_fields(&fields).is_none(), "{at}");
        }
    }
}
