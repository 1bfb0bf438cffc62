//! Operations of containers: how often they were called, and what they have paid.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::board::{Board, N_ROWS, NEAR, NEAR_WORDS, OPS, ROW_WORDS, ROWS};
use super::counters::add_to;
use super::counters::{N_PAID, paid_of};
use super::counting::Counting;
use super::steps::{self, Steps};
use crate::cost::CostKind;

/// The documented price of an operation in one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// The case, as in `new` or `absent`; empty if there is only one.
    pub when: &'static str,
    /// A: atomics.
    pub atomics: u64,
    /// R: reads.
    pub reads: u64,
    /// W: writes.
    pub writes: u64,
    /// Atomics for each slot that a search passes behind the first one.
    pub further: u64,
    /// M: messages that are the whole price where the target serves the operation; 0 if it is
    /// one-sided everywhere.
    pub messages: u64,
}

impl Price {
    /// The price of `[atomics, reads, writes]` in the case `when`.
    #[must_use]
    pub const fn new(when: &'static str, [atomics, reads, writes]: [u64; 3]) -> Self {
        Self {
            when,
            atomics,
            reads,
            writes,
            further: 0,
            messages: 0,
        }
    }

    /// The same with `n` atomics more for each slot that a search passes behind the first one.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::Price;
    ///
    /// let price = Price::new("new", [3, 0, 1]).with_further_slots(2);
    /// assert_eq!((price.further, price.letters()), (2, "3A + W".to_owned()));
    /// ```
    #[must_use]
    pub const fn with_further_slots(mut self, n: u64) -> Self {
        self.further = n;
        self
    }

    /// The same, or `n` messages where the target serves the operation.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::Price;
    ///
    /// assert_eq!(Price::new("present", [3, 1, 0]).or_messages(2).messages, 2);
    /// ```
    #[must_use]
    pub const fn or_messages(mut self, n: u64) -> Self {
        self.messages = n;
        self
    }

    /// The one-sided price in letters.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::Price;
    ///
    /// assert_eq!(Price::new("present", [2, 1, 0]).letters(), "2A + R");
    /// assert_eq!(Price::new("", [0, 0, 0]).letters(), "ℓ");
    /// ```
    #[must_use]
    pub fn letters(&self) -> String {
        letters([(self.atomics, 'A'), (self.reads, 'R'), (self.writes, 'W')])
    }
}

fn letters<const N: usize>(parts: [(u64, char); N]) -> String {
    let mut text = String::new();
    for (n, letter) in parts.into_iter().filter(|(n, _)| *n > 0) {
        let plus = if text.is_empty() { "" } else { " + " };
        let n = if n == 1 { String::new() } else { n.to_string() };
        let _ = write!(text, "{plus}{n}{letter}");
    }
    if text.is_empty() {
        text.push('ℓ');
    }
    text
}

/// An operation of a container: its name, its documented prices, what it is called when it does
/// not succeed, and its row in the statistics.
///
/// # Examples
///
/// ```
/// use pgas_core::stats::{Operation, Price};
///
/// static PUSH: Operation = Operation::new(
///     "Stack::push",
///     &[Price::new("", [1, 0, 1])],
///     "met a full stack",
/// );
/// assert_eq!(PUSH.price(), "A + W");
///
/// static FIND: Operation = Operation::new(
///     "Tree::find",
///     &[Price::new("", [0, 1, 0]).with_further_slots(1)],
///     "absent",
/// );
/// assert_eq!(FIND.price(), "R; A for each further slot");
///
/// static FIND_MANY: Operation = Operation::new(
///     "Tree::find_many",
///     &[Price::new("", [0, 1, 0]).or_messages(1)],
///     "absent",
/// )
/// .for_many();
/// assert_eq!(FIND_MANY.price(), "R; or M a rank");
/// assert_eq!((FIND.name(), FIND.prices().len()), ("Tree::find", 1));
/// ```
#[derive(Debug)]
pub struct Operation {
    name: &'static str,
    prices: &'static [Price],
    missed: &'static str,
    /// Whether a message has many elements.
    is_for_many: bool,
    row: OnceLock<usize>,
}

impl Operation {
    /// The operation with this name and these prices. `missed` says what became of elements on
    /// which it did not succeed, as in `met a full queue`.
    #[must_use]
    pub const fn new(name: &'static str, prices: &'static [Price], missed: &'static str) -> Self {
        Self {
            name,
            prices,
            missed,
            is_for_many: false,
            row: OnceLock::new(),
        }
    }

    /// The same, of which as many elements as there is room for travel in one message.
    #[must_use]
    pub const fn for_many(mut self) -> Self {
        self.is_for_many = true;
        self
    }

    /// Whether many elements travel in one message.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::{Operation, Price};
    ///
    /// const FIND: Operation =
    ///     Operation::new("Tree::find", &[Price::new("", [0, 1, 0])], "absent");
    /// assert!(!FIND.is_for_many() && FIND.for_many().is_for_many());
    /// ```
    #[must_use]
    pub const fn is_for_many(&self) -> bool {
        self.is_for_many
    }

    /// The name, as in `HashMap::insert`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The price in each case.
    #[must_use]
    pub const fn prices(&self) -> &'static [Price] {
        self.prices
    }

    /// The prices as a text: `2A + W new, 2A + R present; A for each further slot; or M`.
    #[must_use]
    pub fn price(&self) -> String {
        let text = |price: &Price| match price.when {
            "" => price.letters(),
            when => format!("{} {when}", price.letters()),
        };
        let texts: Vec<String> = self.prices.iter().map(text).collect();
        texts.join(", ") + &self.further_slots() + &self.by_message()
    }

    /// The price where the target serves the operation, and the cases in which it is another one.
    fn by_message(&self) -> String {
        let messages = |price: &Price| letters([(price.messages, 'M')]);
        let Some(first) = self.prices.first().filter(|first| first.messages > 0) else {
            return String::new();
        };
        let mut text = format!("; or {}", messages(first));
        if self.is_for_many {
            text += " a rank";
        }
        let others = self
            .prices
            .iter()
            .filter(|price| price.messages != first.messages);
        for price in others {
            let _ = write!(text, ", {} {}", messages(price), price.when);
        }
        text
    }

    /// What the slots cost that a search passes behind the first one, and the case in which they
    /// cost more.
    fn further_slots(&self) -> String {
        let letters = |n| Price::new("", [n, 0, 0]).letters();
        let least = self.prices.iter().map(|price| price.further).min();
        let Some(least @ 1..) = least else {
            return String::new();
        };
        let mut text = format!("; {} for each further slot", letters(least));
        for dear in self.prices.iter().filter(|price| price.further > least) {
            let _ = write!(text, ", {} if {}", letters(dear.further), dear.when);
        }
        text
    }

    /// The number of its row, the same on all boards of this process.
    fn row(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // A count: it orders nothing.
        *self
            .row
            .get_or_init(|| NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Where things are in a row.
mod at {
    pub(super) const CALLS: usize = 0;
    pub(super) const ELEMENTS: usize = 1;
    pub(super) const MISSED: usize = 2;
    /// The elements whose price is known.
    pub(super) const PRICED: usize = 3;
    pub(super) const PAID: usize = 4;
    /// How full the container was: how often that was seen, the sum in thousandths, and the most.
    pub(super) const FILLS: usize = 8;
    pub(super) const FILL_SUM: usize = 9;
    pub(super) const FILL_MOST: usize = 10;
    /// Calls whose price is one get, and those whose price is one put.
    pub(super) const GETS: usize = 11;
    pub(super) const PUTS: usize = 12;
    pub(super) const NAME: usize = 13;
    pub(super) const PRICE: usize = 20;
    pub(super) const MISSED_AS: usize = 36;
    /// Of the single thread, calls that only worked on near memory: calls, elements, misses, and
    /// what they have paid: atomics, reads and writes.
    pub(super) const NEAR: usize = 40;
    /// As `FILLS` and `FILL_SUM`, of the single thread.
    pub(super) const FILLS_FIRST: usize = 46;
}

/// What this thread's rank had paid when an operation began: atomics, reads, writes and messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paid([u64; N_PAID]);

/// While this lives, what the first thread pays is no part of the operation that it performs. From
/// [`Counting::aside`].
pub(crate) struct Aside<'a> {
    counting: &'a Counting,
    /// The number of a name, or 0.
    label: u16,
    before: [u64; N_PAID],
    /// What the thread had noted of its operation.
    noted: Steps,
}

impl Drop for Aside<'_> {
    #[cold]
    fn drop(&mut self) {
        self.counting.count_noted(self.label);
        self.counting.leave_out(self.before);
        steps::put_back(self.noted);
    }
}

impl Aside<'_> {
    /// Ends it, and returns what was paid: atomics, reads, writes and messages.
    pub(crate) fn end(self) -> [u64; N_PAID] {
        self.counting.count_noted(self.label);
        let now = self.counting.paid_outside();
        std::array::from_fn(|i| now[i].wrapping_sub(self.before[i]))
    }
}

impl Counting {
    /// Begins what a thread does for others within an operation of a container: it serves a
    /// message, or goes on with other operations. `None` if the thread performs no operation whose
    /// price is measured.
    pub(crate) fn aside(&self) -> Option<Aside<'_>> {
        let is_within = self.n_performing.load(Ordering::Relaxed) > 0;
        is_within.then(|| self.part(0)).flatten()
    }

    /// Begins a part of an operation in flight, whose price is not that of the operation that this
    /// thread performs. `None` if the counters are not this thread's alone.
    pub(crate) fn part(&self, label: u16) -> Option<Aside<'_>> {
        self.is_owner().then(|| Aside {
            counting: self,
            label,
            noted: steps::take(),
            before: self.paid_outside(),
        })
    }

    /// Takes what was paid since `before` out of the price of the present operation.
    fn leave_out(&self, before: [u64; N_PAID]) -> [u64; N_PAID] {
        let now = self.paid_outside();
        let paid = std::array::from_fn(|i| now[i].wrapping_sub(before[i]));
        add_to(&self.within, &paid);
        paid
    }

    /// As [`paid`](Self::paid), at the start of an operation, which [ends](Self::performed) later.
    pub(crate) fn performs(&self) -> Option<Paid> {
        let paid = self.paid()?;
        add_to(std::slice::from_ref(&self.n_performing), &[1]);
        Some(paid)
    }

    /// What has been paid up to now, if the counters are this thread's alone.
    pub(crate) fn paid(&self) -> Option<Paid> {
        self.is_owner().then(|| Paid(self.paid_outside()))
    }

    /// The counters, less what was paid by operations within others.
    fn paid_outside(&self) -> [u64; N_PAID] {
        let mut paid = paid_of(&|i| self.board().get(OPS + i));
        for (sum, within) in paid.iter_mut().zip(&self.within) {
            *sum = sum.wrapping_sub(within.load(Ordering::Relaxed));
        }
        paid
    }

    /// Counts a call of `operation` with `n` elements, on `missed` of which it did not succeed.
    /// `before` is what had been paid when it [began](Self::performs).
    pub(crate) fn performed(
        &self,
        operation: &Operation,
        (n, missed): (u64, u64),
        before: Option<Paid>,
    ) {
        if before.is_some() {
            add_to(std::slice::from_ref(&self.n_performing), &[u64::MAX]);
        }
        let Some(row) = self.called(operation, (n, missed)) else {
            return;
        };
        if let Some(Paid(before)) = before {
            let paid = self.leave_out(before);
            self.add_paid(row, n, paid);
        }
    }

    /// As [`performed`](Self::performed), of an operation that was in flight, and what its parts
    /// have paid, if that is known.
    pub(crate) fn performed_in_parts(
        &self,
        operation: &Operation,
        numbers: (u64, u64),
        paid: Option<[u64; N_PAID]>,
    ) {
        if let Some(row) = self.called(operation, numbers)
            && let Some(paid) = paid.filter(|_| self.is_owner())
        {
            self.add_paid(row, numbers.0, paid);
        }
    }

    /// Counts a call of `operation` with `n` elements, on `missed` of which it did not succeed, and
    /// its steps, which are all that it has paid.
    #[inline(never)]
    pub(crate) fn performed_near(
        &self,
        operation: &'static Operation,
        (n, missed): (u64, u64),
        steps: &Steps,
        label: u16,
    ) {
        if self.is_first_thread()
            && label == 0
            && let Some(row) = self.near_row(operation)
            && let Some(counters) = self.board().words().get(NEAR..NEAR + NEAR_WORDS)
        {
            add_to(counters, steps.map(steps::parts).as_flattened());
            let [atomics, reads, writes, _] = steps::paid(steps);
            add_to(row, &[1, n, missed, atomics, reads, writes]);
            return;
        }
        self.count_steps(steps, label);
        self.performed_with_steps(operation, (n, missed), steps);
    }

    /// As [`performed`](Self::performed), of a call whose steps were counted, and are what it has
    /// paid.
    pub(super) fn performed_with_steps(
        &self,
        operation: &Operation,
        numbers: (u64, u64),
        steps: &Steps,
    ) {
        if let Some(row) = self.called(operation, numbers)
            && self.is_owner()
        {
            let paid = steps::paid(steps);
            self.add_paid(row, numbers.0, paid);
            add_to(&self.within, &paid);
        }
    }

    /// Counts a call, and returns where its row is.
    fn called(&self, operation: &Operation, (n, missed): (u64, u64)) -> Option<usize> {
        let row = self.row(operation)?;
        let board = self.board();
        board.add(row + at::CALLS, 1);
        board.add(row + at::ELEMENTS, n);
        if missed > 0 {
            board.add(row + at::MISSED, missed);
        }
        Some(row)
    }

    /// Adds what `n` elements have paid to their row. One thread alone comes here.
    fn add_paid(&self, row: usize, n: u64, paid: [u64; N_PAID]) {
        let words = self.board().words();
        add_to(&words[row + at::PRICED..=row + at::PRICED], &[n]);
        add_to(&words[row + at::PAID..], &paid);
    }

    /// The counters of calls of `operation` on near memory; `None` if it has no row.
    pub(super) fn near_row(&self, operation: &Operation) -> Option<&[AtomicU64]> {
        let row = self.row(operation)?;
        self.board()
            .words()
            .get(row + at::NEAR..row + at::FILLS_FIRST)
    }

    /// Counts a call of `operation` on one element that costs a get or a put, whatever happens.
    #[inline]
    pub(crate) fn performed_single(&self, operation: &Operation, kind: CostKind) {
        let is_get = kind == CostKind::Read;
        if self.is_first_thread()
            && let Some(row) = self.near_row(operation)
        {
            add_to(row, &[1, 1, 0, 0, is_get.into(), (!is_get).into()]);
        } else if let Some(row) = self.row(operation) {
            let at = if is_get { at::GETS } else { at::PUTS };
            self.board().add(row + at, 1);
        }
    }

    /// Notes that a container on which `operation` works has `used` of `room` places in use.
    pub(crate) fn filled(&self, operation: &Operation, used: u64, room: u64) {
        let Some(row) = self.row(operation) else {
            return;
        };
        let parts = (used.saturating_mul(1000) / room.max(1)).min(1000);
        let board = self.board();
        if self.is_first_thread() {
            add_to(&board.words()[row + at::FILLS_FIRST..], &[1, parts]);
        } else {
            board.add(row + at::FILLS, 1);
            board.add(row + at::FILL_SUM, parts);
        }
        if parts > board.get(row + at::FILL_MOST) {
            board.set(row + at::FILL_MOST, parts);
        }
    }

    /// Where the row is; `None` behind the last one that there is room for.
    fn row(&self, operation: &Operation) -> Option<usize> {
        let number = operation.row();
        let row = ROWS + number * ROW_WORDS;
        if number >= N_ROWS {
            return None;
        }
        let board = self.board();
        if board.get(row + at::NAME) == 0 {
            self.name_row(row, operation);
        }
        Some(row)
    }

    /// Threads that come here at once write the same.
    #[cold]
    fn name_row(&self, row: usize, operation: &Operation) {
        let (board, missed_as) = (self.board(), at::MISSED_AS);
        board.set_text(row + at::PRICE, missed_as - at::PRICE, &operation.price());
        board.set_text(row + missed_as, at::NEAR - missed_as, operation.missed);
        board.set_text(row + at::NAME, at::PRICE - at::NAME, operation.name());
    }
}

/// The figures of an operation, as a board tells them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Performed {
    pub(super) name: String,
    pub(super) price: String,
    pub(super) missed_as: String,
    pub(super) calls: u64,
    pub(super) elements: u64,
    pub(super) missed: u64,
    pub(super) priced: u64,
    pub(super) paid: [u64; N_PAID],
    fills: u64,
    fill_sum: u64,
    fill_most: u64,
}

impl Performed {
    /// All rows of a board that are in use.
    pub(super) fn read_all(board: &Board) -> Vec<Self> {
        let rows = (0..N_ROWS).map(|i| Self::read(board, ROWS + i * ROW_WORDS));
        rows.filter(|row| !row.name.is_empty()).collect()
    }

    fn read(board: &Board, row: usize) -> Self {
        let [gets, puts] = [at::GETS, at::PUTS].map(|at| board.get(row + at));
        let near: [u64; at::FILLS_FIRST - at::NEAR] =
            std::array::from_fn(|i| board.get(row + at::NEAR + i));
        let [near_calls, near_elements, near_missed, near_paid @ ..] = near;
        let both = |a: usize, b: usize| board.get(row + a).wrapping_add(board.get(row + b));
        let single = gets.wrapping_add(puts);
        let mut this = Self {
            name: board.text(row + at::NAME, at::PRICE - at::NAME),
            price: board.text(row + at::PRICE, at::MISSED_AS - at::PRICE),
            missed_as: board.text(row + at::MISSED_AS, at::NEAR - at::MISSED_AS),
            calls: board.get(row + at::CALLS),
            elements: board.get(row + at::ELEMENTS),
            missed: board.get(row + at::MISSED),
            priced: board.get(row + at::PRICED),
            paid: std::array::from_fn(|i| board.get(row + at::PAID + i)),
            fills: both(at::FILLS, at::FILLS_FIRST),
            fill_sum: both(at::FILL_SUM, at::FILLS_FIRST + 1),
            fill_most: board.get(row + at::FILL_MOST).min(1000),
        };
        let [atomics, reads, writes, _] = &mut this.paid;
        let [near_atomics, near_reads, near_writes] = near_paid;
        for (sum, n) in [
            (&mut this.calls, single.wrapping_add(near_calls)),
            (&mut this.elements, single.wrapping_add(near_elements)),
            (&mut this.priced, single.wrapping_add(near_elements)),
            (&mut this.missed, near_missed),
            (atomics, near_atomics),
            (reads, gets.wrapping_add(near_reads)),
            (writes, puts.wrapping_add(near_writes)),
        ] {
            *sum = sum.wrapping_add(n);
        }
        this
    }

    /// Adds the figures of another rank.
    pub(super) fn add(&mut self, other: &Self) {
        let sums = [
            (&mut self.calls, other.calls),
            (&mut self.elements, other.elements),
            (&mut self.missed, other.missed),
            (&mut self.priced, other.priced),
            (&mut self.fills, other.fills),
            (&mut self.fill_sum, other.fill_sum),
        ];
        for (sum, n) in sums {
            *sum = sum.saturating_add(n);
        }
        for (sum, n) in self.paid.iter_mut().zip(other.paid) {
            *sum = sum.saturating_add(n);
        }
        self.fill_most = self.fill_most.max(other.fill_most);
    }

    /// How full the container was on average and at most, in thousandths, if that was seen.
    pub(super) fn fill(&self) -> Option<[u64; 2]> {
        let mean = self.fill_sum.checked_div(self.fills)?;
        Some([mean.min(1000), self.fill_most])
    }

    /// What an element has paid on average, in letters.
    #[expect(clippy::cast_precision_loss, reason = "it is shown with few digits")]
    pub(super) fn paid(&self) -> String {
        if self.priced == 0 {
            return "unknown".to_owned();
        }
        let mut text = String::new();
        for (n, letter) in self.paid.into_iter().zip(["A", "R", "W", "M"]) {
            let plus = if text.is_empty() { "" } else { " + " };
            let each = n as f64 / self.priced as f64;
            let _ = match n {
                0 => Ok(()),
                n if n == self.priced => write!(text, "{plus}{letter}"),
                n if n % self.priced == 0 => write!(text, "{plus}{each}{letter}"),
                _ => write!(text, "{plus}{each:.2}{letter}"),
            };
        }
        if text.is_empty() {
            text.push('ℓ');
        }
        text
    }
}
