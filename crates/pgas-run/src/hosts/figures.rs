//! The figures of ranks (`PGAS_STATS`), which a host sends when its ranks have ended. The launcher
//! reports them if the job has failed; else a rank has done so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_core::stats::{Board, Report};

use super::wire::{Frame, Kind};

/// The largest board that is taken from a host, in words.
const MOST_WORDS: u64 = 1 << 27;

/// The board of a rank: the number of its words, then the place and the value of each that is not
/// zero. `None` if the rank has counted nothing.
pub(super) fn to_frame(board: &Board) -> Option<Frame> {
    if !board.is_used() {
        return None;
    }
    let words = board.words().iter().enumerate();
    let words = words.map(|(at, word)| [at as u64, word.load(Ordering::Relaxed)]);
    let used = words.filter(|[_, word]| *word != 0).flatten();
    let n_words = board.words().len() as u64;
    let numbers = [n_words].into_iter().chain(used);
    let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    Some(Frame::new(Kind::Figures, [bytes]))
}

/// The board that such a message has.
pub(super) fn of_frame(frame: &Frame) -> Option<Board> {
    let (n_words, pairs) = frame.fields.first()?.split_first_chunk()?;
    let n_words = u64::from_le_bytes(*n_words);
    let n_words = usize::try_from(n_words.min(MOST_WORDS)).ok()?;
    let words: Vec<AtomicU64> = (0..n_words).map(|_| AtomicU64::new(0)).collect();
    for pair in pairs.chunks_exact(16) {
        let [at, word] = [&pair[..8], &pair[8..]].map(|bytes| {
            let bytes = bytes.first_chunk().copied();
            u64::from_le_bytes(bytes.unwrap_or_default())
        });
        let at = usize::try_from(at).ok().and_then(|at| words.get(at));
        if let Some(place) = at {
            place.store(word, Ordering::Relaxed);
        }
    }
    Some(Board::of(Arc::new(words), |words| words))
}

/// Reports the figures of a job that has failed, unless a rank has done so before.
pub(super) fn report(boards: &[Board], n_ranks: u32, outcome: &str, print: &mut dyn FnMut(&str)) {
    if !boards.iter().any(Board::is_reported)
        && let Some(report) = Report::of(boards, n_ranks, outcome)
    {
        report.tell_by(print);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_read_as_it_was_sent() {
        let numbers: Vec<u64> = (0..2000).map(|at| at % 3 * at).collect();
        let words: Vec<AtomicU64> = numbers.iter().copied().map(AtomicU64::new).collect();
        let board = Board::of(Arc::new(words), |words| words);
        assert!(to_frame(&board).is_none(), "it is no rank's");
        board.words()[0].store(Board::MAGIC, Ordering::Relaxed);
        let frame = to_frame(&board).unwrap();
        let same = of_frame(&frame).unwrap();
        assert!(same.is_used());
        let words = same.words().iter().map(|word| word.load(Ordering::Relaxed));
        assert!(words.skip(1).eq(numbers.into_iter().skip(1)));
        for n in 0..40 {
            // What is no board is not taken for one, and harms nobody.
            let field = frame.fields[0][..n].to_vec();
            let part = of_frame(&Frame::new(Kind::Figures, [field]));
            assert_eq!(part.is_some(), n >= 8);
        }
    }
}
