//! Finds while nobody changes anything, where slots lie behind a network: a block is read at once, and those of up to
//! [`TOGETHER`] searches are in flight together.

use super::super::find_only::Step;
use super::super::global::GlobalSlot;
use super::super::reach::Far;
use super::super::view::{Home, View};
use super::pipeline::TOGETHER;
use crate::Result;
use crate::object::{self, KeyHasher, KeyOf, Object};

/// The search for one key.
struct Search<'a, 'v, K: Object, V> {
    key: KeyOf<K>,
    home: Home<K, V, Far<'a>>,
    /// The slot that it has come to.
    slot: GlobalSlot<K, V, Far<'a>>,
    /// Where its outcome goes.
    value: &'v mut Option<V>,
}

impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Far<'a>> {
    pub(super) fn find_quietly(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        for (keys, values) in keys.chunks(TOGETHER).zip(values.chunks_mut(TOGETHER)) {
            let begin = |(key, value)| {
                let key = object::key(key)?;
                let home = self.home_of(&key);
                let slot = home.slot;
                Ok(Search {
                    key,
                    home,
                    slot,
                    value,
                })
            };
            let searches = keys.iter().zip(values).map(begin);
            let mut searches = searches.collect::<Result<Vec<_>>>()?;
            while !searches.is_empty() {
                searches = self.look_at_block(searches)?;
            }
        }
        Ok(())
    }

    /// One block of each search, and the searches that go on.
    fn look_at_block<'v>(
        &self,
        searches: Vec<Search<'a, 'v, K, V>>,
    ) -> Result<Vec<Search<'a, 'v, K, V>>> {
        let mut in_flight = Vec::with_capacity(searches.len());
        for search in searches {
            let event = search.slot.see_nb()?;
            in_flight.push((search, event));
        }
        let mut onward = Vec::new();
        for (mut search, event) in in_flight {
            let seen = event.wait()?;
            let step = self.step_quietly(search.slot, &seen, search.home, &search.key)?;
            match step {
                Step::Found(value) => *search.value = Some(self.value_quietly(value)?),
                Step::Absent => *search.value = None,
                Step::Onward(slot) => {
                    search.slot = slot;
                    onward.push(search);
                }
            }
        }
        Ok(onward)
    }
}
