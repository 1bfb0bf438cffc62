//! The times of remote calls, with `PGAS_STATS=latency`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pgas_lockfree::pending::Cookie;

/// The start times of calls whose answers have not come yet.
#[derive(Debug, Default)]
pub(crate) struct CallTimes(Mutex<HashMap<u64, Instant>>);

impl CallTimes {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the start of the call; before it is sent, since its answer may come at once.
    #[cold]
    pub(crate) fn begin(&self, call: Cookie) {
        self.lock().insert(call.0, Instant::now());
    }

    /// The time that the call has taken, if its start is known. The call is over.
    #[cold]
    pub(crate) fn end(&self, call: Cookie) -> Option<Duration> {
        let began = self.lock().remove(&call.0)?;
        Some(began.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pgas_core::backend::loopback;
    use pgas_core::{Config, Rank, Statistics};

    use crate::RemoteCalls;

    #[test]
    fn every_call_that_is_answered_is_in_the_histogram_also_one_that_panics() {
        let file = std::env::temp_dir().join(format!("pgas-calls-{}.json", std::process::id()));
        let mut config = Config::default();
        config.statistics = Statistics::Total;
        config.statistics_latencies = true;
        config.statistics_file = Some(file.display().to_string());
        loopback::run_with(2, &config, |world| {
            crate::attach(&world).unwrap();
            let to = Rank::new(1 - world.rank().number());
            for i in 0..10 {
                let sum = world.rpc(to, |x: u64| x + 1, i).unwrap().wait();
                assert_eq!(sum.unwrap(), i + 1);
            }
            let failed = world.rpc(to, |x: u64| 1 / x, 0).unwrap().wait();
            assert!(failed.is_err());
            world.rpc_ff(to, |_: u64| {}, 1).unwrap();
            crate::quiet(&world).unwrap();
        });
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let (_, calls) = text
            .split_once("\"remote calls\",\"ns_and_number\":[[")
            .unwrap();
        let buckets = calls.split("]]").next().unwrap().split("],[");
        let n = |bucket: &str| bucket.split(',').nth(1).unwrap().parse::<u64>().unwrap();
        assert_eq!(buckets.map(n).sum::<u64>(), 22, "{text}");
    }
}
