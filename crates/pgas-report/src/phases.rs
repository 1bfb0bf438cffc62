//! The phases of containers: of each rank, and of each object over all ranks.

use std::collections::{BTreeMap, HashMap};

use pgas_core::trace::Kind;

use crate::read::{Event, Trace, what_and_where};

/// A phase of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The object's number, which all ranks have for it.
    pub object: u64,
    /// The object, the phase and the line: `hash map: find only@src/main.rs:12`.
    pub name: String,
    /// The start, in nanoseconds since the start of the job.
    pub from: i64,
    /// The end.
    pub until: i64,
}

impl Phase {
    /// The object, as in `hash map`; the phase, as in `find only`; and the line of the program that
    /// began it.
    #[must_use]
    pub fn parts(&self) -> [&str; 3] {
        let (what, at) = what_and_where(&self.name);
        let (object, phase) = what.split_once(": ").unwrap_or((what, ""));
        [object, phase, at]
    }

    /// Its duration, in nanoseconds.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        u64::try_from(self.until - self.from).unwrap_or(0)
    }
}

/// The phases of a rank. Open ones end at `until`.
pub(crate) fn of_rank(trace: &Trace, from: i64, until: i64) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    // The phase that each object is in, by its place in `phases`.
    let mut present: HashMap<u64, usize> = HashMap::new();
    let phase = |event: &Event, from| Phase {
        object: event.numbers[0],
        name: trace.name(event).to_owned(),
        from,
        until,
    };
    for event in &trace.events {
        let object = event.numbers[0];
        match event.kind {
            Kind::Phase => {
                present.insert(object, phases.len());
                phases.push(phase(event, event.at));
            }
            Kind::PhaseEnd => match present.remove(&object) {
                Some(index) => phases[index].until = event.at,
                // Its start was lost.
                None => phases.push(Phase {
                    until: event.at,
                    ..phase(event, from)
                }),
            },
            _ => {}
        }
    }
    phases
}

/// The phases of each object, in the order of time: from the first rank's start to the last rank's
/// end. Objects are in the order of their first phases.
pub(crate) fn of_objects(phases: &[&Phase]) -> Vec<Vec<Phase>> {
    let mut all = phases.to_vec();
    all.sort_by(|a, b| {
        let key = |phase: &Phase| (phase.object, phase.from, phase.until);
        a.name.cmp(&b.name).then_with(|| key(a).cmp(&key(b)))
    });
    let mut objects: BTreeMap<u64, Vec<Phase>> = BTreeMap::new();
    for phase in all {
        let of_object = objects.entry(phase.object).or_default();
        match of_object.last_mut() {
            // Ranks enter a phase together, so that theirs overlap.
            Some(last) if last.name == phase.name && phase.from <= last.until => {
                last.until = last.until.max(phase.until);
            }
            _ => of_object.push(phase.clone()),
        }
    }
    let mut objects: Vec<Vec<Phase>> = objects.into_values().collect();
    for of_object in &mut objects {
        of_object.sort_by_key(|phase| phase.from);
    }
    objects.sort_by_key(|of_object| of_object.first().map(|phase| phase.from));
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: i64, kind: Kind, name: u16, object: u64) -> Event {
        Event {
            at,
            kind,
            thread: 0,
            name,
            rank: None,
            numbers: [object, 0],
        }
    }

    fn trace(events: Vec<Event>) -> Trace {
        let names = [
            (1, "hash map: atomic@a.rs:1"),
            (2, "hash map: find only@a.rs:2"),
        ];
        Trace {
            names: names.map(|(i, name)| (i, name.to_owned())).into(),
            events,
            ..Trace::default()
        }
    }

    #[test]
    fn phases_of_ranks_are_joined_and_lost_ends_are_those_of_the_trace() {
        use Kind::{Phase as Begins, PhaseEnd as Ends};
        let first = trace(vec![
            event(10, Begins, 1, 7),
            event(20, Ends, 1, 7),
            event(20, Begins, 2, 7),
            event(25, Begins, 1, 8),
            event(30, Ends, 2, 7),
            event(31, Begins, 1, 7),
        ]);
        // Its first events were lost.
        let second = trace(vec![
            event(22, Ends, 1, 7),
            event(23, Begins, 2, 7),
            event(33, Ends, 2, 7),
        ]);
        let ranks = [of_rank(&first, 0, 40), of_rank(&second, 15, 40)];
        assert_eq!(ranks[0].len() + ranks[1].len(), 6);
        let objects = of_objects(&ranks.iter().flatten().collect::<Vec<_>>());
        let times = |phases: &Vec<Phase>| -> Vec<(String, i64, i64)> {
            let of = |phase: &Phase| (phase.parts()[1].to_owned(), phase.from, phase.until);
            phases.iter().map(of).collect()
        };
        let [atomic, find] = ["atomic", "find only"].map(str::to_owned);
        assert_eq!(
            objects.iter().map(times).collect::<Vec<_>>(),
            [
                vec![
                    (atomic.clone(), 10, 22),
                    (find, 20, 33),
                    (atomic.clone(), 31, 40)
                ],
                vec![(atomic, 25, 40)],
            ]
        );
        assert_eq!(objects[0][0].parts(), ["hash map", "atomic", "a.rs:1"]);
    }
}
