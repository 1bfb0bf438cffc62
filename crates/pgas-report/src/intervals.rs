//! The time that many intervals have in common with another one.

/// Intervals of time, in nanoseconds.
pub(crate) struct Intervals {
    starts: Points,
    ends: Points,
}

/// Points in the order of time.
struct Points {
    points: Vec<i64>,
    /// The sums of the first points, from none to all.
    sums: Vec<i128>,
}

impl Points {
    fn of(mut points: Vec<i64>) -> Self {
        points.sort_unstable();
        let mut sums = vec![0];
        let mut sum = 0;
        sums.extend(points.iter().map(|point| {
            sum += i128::from(*point);
            sum
        }));
        Self { points, sums }
    }

    /// The sum of the times since each point that is before `at`.
    fn since(&self, at: i64) -> i128 {
        let n = self.points.partition_point(|point| *point < at);
        n as i128 * i128::from(at) - self.sums[n]
    }
}

impl Intervals {
    /// Each has a start, and an end that is not before it.
    pub(crate) fn of(all: impl Iterator<Item = (i64, i64)>) -> Self {
        let (starts, ends) = all.unzip();
        Self {
            starts: Points::of(starts),
            ends: Points::of(ends),
        }
    }

    /// Their sum.
    pub(crate) fn total(&self) -> i128 {
        self.before(i64::MAX)
    }

    /// The sum of what each has in common with an interval.
    pub(crate) fn within(&self, from: i64, until: i64) -> i128 {
        self.before(until) - self.before(from)
    }

    /// The sum of their parts before a point.
    fn before(&self, at: i64) -> i128 {
        self.starts.since(at) - self.ends.since(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_time_is_that_of_each_two() {
        let mut state = 7_u32;
        let mut next = |limit: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            i64::from((state >> 8) % limit)
        };
        for n in 0..40 {
            let mut some = || {
                let from = next(100) - 50;
                (from, from + next(30))
            };
            let all: Vec<(i64, i64)> = (0..n).map(|_| some()).collect();
            let intervals = Intervals::of(all.iter().copied());
            let lengths = all.iter().map(|(from, until)| i128::from(until - from));
            assert_eq!(intervals.total(), lengths.sum::<i128>());
            for _ in 0..20 {
                let (from, until) = some();
                let common =
                    |one: &(i64, i64)| i128::from((one.1.min(until) - one.0.max(from)).max(0));
                let sum: i128 = all.iter().map(common).sum();
                assert_eq!(intervals.within(from, until), sum, "{all:?}");
            }
        }
    }
}
