//! The spectrum as bars of block characters.

use std::fmt::Write;

use super::Spectrum;

/// Columns and rows of the field of bars.
const WIDTH: usize = 64;
const HEIGHT: u32 = 11;

/// A bar's topmost character, by the eighths of it that are filled.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn draw(spectrum: &Spectrum) -> String {
    let bins = Bins::of(spectrum);
    let Some(max) = bins.n_kmers.iter().copied().max() else {
        return String::new();
    };
    let scale = Scale { max: max.max(10) };
    let mut chart = String::from("distinct k-mers (logarithmic) by how often they occur\n");
    for row in (0..HEIGHT).rev() {
        push_line(
            &mut chart,
            &format!("{:>5} │{}", scale.label(row), bins.row(row, scale)),
        );
    }
    let axis = "─".repeat(usize::from(bins.columns()));
    push_line(&mut chart, &format!("{:>5} └{axis}", ""));
    push_line(&mut chart, &format!("{:>5}  {}", "", bins.labels()));
    if bins.n_beyond > 0 {
        let (n, last) = (bins.n_beyond, bins.last_count());
        push_line(
            &mut chart,
            &format!(
                "{:>5}  the last bar: with {n} k-mers of more than {last}",
                ""
            ),
        );
    }
    chart
}

fn push_line(chart: &mut String, line: &str) {
    chart.push_str(line.trim_end());
    chart.push('\n');
}

/// Counts in bins, so that they fit the width.
struct Bins {
    /// The number of k-mers of each bin. The last bin includes all greater counts.
    n_kmers: Vec<u64>,
    /// Counts in a bin. The first bin begins at 1.
    counts: u64,
    /// Columns of a bin.
    columns: u16,
    n_beyond: u64,
}

impl Bins {
    fn of(spectrum: &Spectrum) -> Self {
        let last = last_count(spectrum);
        let counts = last.div_ceil(WIDTH as u64).max(1);
        let n_bins = last.div_ceil(counts);
        let mut n_kmers = vec![0; usize::try_from(n_bins).expect("at most WIDTH")];
        let mut n_beyond = 0;
        for (count, n) in spectrum.iter() {
            let bin = (count - 1) / counts;
            if bin >= n_bins {
                n_beyond += n;
            }
            n_kmers[usize::try_from(bin.min(n_bins - 1)).expect("at most WIDTH")] += n;
        }
        let columns = (WIDTH as u64 / n_bins.max(1)).clamp(1, 6);
        Self {
            n_kmers,
            counts,
            columns: u16::try_from(columns).expect("at most 6"),
            n_beyond,
        }
    }

    fn columns(&self) -> u16 {
        u16::try_from(self.n_kmers.len()).expect("at most WIDTH") * self.columns
    }

    fn last_count(&self) -> u64 {
        self.n_kmers.len() as u64 * self.counts
    }

    /// The characters of one row of bars. Bars of three or more columns have gaps between them.
    fn row(&self, row: u32, scale: Scale) -> String {
        let mut text = String::new();
        let n_filled = if self.columns > 2 {
            self.columns - 1
        } else {
            self.columns
        };
        for n_kmers in &self.n_kmers {
            let eighths = scale.eighths(*n_kmers).saturating_sub(8 * row).min(8);
            for column in 0..self.columns {
                text.push(if column < n_filled {
                    EIGHTHS[eighths as usize]
                } else {
                    ' '
                });
            }
        }
        text
    }

    /// The first count of each bin that is wide enough to show it.
    fn labels(&self) -> String {
        let mut text = String::new();
        let mut n_chars = 0;
        let columns = usize::from(self.columns);
        for bin in 0..self.n_kmers.len() {
            let label = (bin as u64 * self.counts + 1).to_string();
            let wanted = bin * columns;
            let is_round = columns > 2 || bin.is_multiple_of(8);
            if is_round && (bin == 0 || wanted > n_chars) && wanted + label.len() <= WIDTH {
                let _ = write!(text, "{:>gap$}{label}", "", gap = wanted - n_chars);
                n_chars = wanted + label.len();
            }
        }
        text
    }
}

/// The last count with its own bin: at most a thousandth of the k-mers have greater ones, and it is
/// at least [`WIDTH`].
fn last_count(spectrum: &Spectrum) -> u64 {
    let n_rest = spectrum.n_distinct() / 1000;
    let mut n_left = spectrum.n_distinct();
    let mut last = 0;
    for (count, n_kmers) in spectrum.iter() {
        if n_left <= n_rest && count > WIDTH as u64 {
            break;
        }
        n_left -= n_kmers;
        last = count;
    }
    last
}

/// Heights of bars: one k-mer fills the lowest eighth, the greatest number all rows.
#[derive(Clone, Copy)]
struct Scale {
    max: u64,
}

impl Scale {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a height between 0 and 8 * HEIGHT, rounded"
    )]
    fn eighths(self, n_kmers: u64) -> u32 {
        if n_kmers == 0 {
            return 0;
        }
        let fraction = (n_kmers as f64).log10() / (self.max as f64).log10();
        1 + (fraction * f64::from(8 * HEIGHT - 1)).round() as u32
    }

    /// The power of ten whose bar ends in this row.
    fn label(self, row: u32) -> String {
        let powers = (0..=19).map(|exponent| (exponent, 10_u64.pow(exponent)));
        let mut ending =
            powers.filter(|(_, n)| *n <= self.max && (self.eighths(*n) - 1) / 8 == row);
        ending.next().map_or_else(String::new, |(exponent, _)| {
            let unit = ["", "k", "M", "G", "T", "P", "E"][(exponent / 3) as usize];
            format!("{}{unit}", 10_u64.pow(exponent % 3))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_fits(chart: &str) {
        assert!(chart.lines().count() <= 16, "{chart}");
        for line in chart.lines() {
            assert!(line.chars().count() <= 72, "{chart}");
        }
    }

    #[test]
    fn no_kmers_give_no_chart() {
        assert_eq!(Spectrum::new().chart(), "");
    }

    #[test]
    fn chart_of_a_few_counts() {
        let chart = Spectrum::from_iter([(1, 1000), (2, 31), (4, 1)]).chart();
        let expected = "\
distinct k-mers (logarithmic) by how often they occur
   1k │█████
      │█████
      │█████
  100 │█████
      │█████
      │█████ ▄▄▄▄▄
      │█████ █████
   10 │█████ █████
      │█████ █████
      │█████ █████
    1 │█████ █████       ▁▁▁▁▁
      └────────────────────────
       1     2     3     4
";
        assert_eq!(chart, expected);
    }

    #[test]
    fn chart_fits_the_terminal_whatever_the_counts() {
        let spectra: [&[(u64, u64)]; 6] = [
            &[(1, 1)],
            &[(1, u64::MAX / 2), (70, 5), (u64::MAX / 4, 1)],
            &[(1_000_000, 3)],
            &[(64, 1), (65, 1), (66, 1)],
            &[(3, 9), (129, 9)],
            &[(1, 1 << 40), (1 << 40, 1 << 20)],
        ];
        for pairs in spectra {
            let chart = pairs.iter().copied().collect::<Spectrum>().chart();
            assert_fits(&chart);
            assert!(
                EIGHTHS[1..].iter().any(|bar| chart.contains(*bar)),
                "{chart}"
            );
        }
    }

    #[test]
    fn rare_large_counts_share_the_last_bar() {
        let mut spectrum: Spectrum = (1..=60).map(|count| (count, 10_000)).collect();
        spectrum.add_many(900, 2);
        let chart = spectrum.chart();
        assert_fits(&chart);
        assert!(
            chart.ends_with("the last bar: with 2 k-mers of more than 60\n"),
            "{chart}"
        );
    }
}
