//! Circles of imports between files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::imports::Imports;
use super::tree::{Id, Tree};
use crate::tidy::Finding;

/// One finding for each set of files that import each other, which names the shortest circle among
/// them.
pub(super) fn check(tree: &Tree<'_>, imports: &Imports) -> Vec<Finding> {
    let mut targets: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
    for &(from, to) in imports.keys() {
        targets.entry(from).or_default().push(to);
    }
    let mut circles: Vec<Vec<Id>> = targets
        .keys()
        .filter_map(|&start| shortest_from(start, &targets))
        .collect();
    circles.sort_by_key(Vec::len);
    let mut named = BTreeSet::new();
    let mut findings = Vec::new();
    for circle in circles {
        // Report one circle at a time for a file: mending it may remove the others.
        if circle.iter().all(|id| !named.contains(id)) {
            named.extend(circle.iter().copied());
            findings.push(finding(&circle, tree, imports));
        }
    }
    findings
}

/// The shortest circle through `start`, which it begins with.
fn shortest_from(start: Id, targets: &BTreeMap<Id, Vec<Id>>) -> Option<Vec<Id>> {
    let mut came_from: BTreeMap<Id, Id> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for &next in targets.get(&at).into_iter().flatten() {
            if next == start {
                let mut circle = vec![at];
                while let Some(&former) = came_from.get(circle.last()?) {
                    circle.push(former);
                }
                circle.reverse();
                return Some(circle);
            }
            if next != start && !came_from.contains_key(&next) {
                came_from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

fn finding(circle: &[Id], tree: &Tree<'_>, imports: &Imports) -> Finding {
    let next = circle.iter().cycle().skip(1);
    let steps: Vec<String> = circle
        .iter()
        .zip(next)
        .map(|(&from, &to)| {
            let place = &imports[&(from, to)];
            let (path, line) = (&place.path, place.line);
            format!(
                "{} from {} ({path}:{line})",
                tree.name_of(from),
                tree.name_of(to)
            )
        })
        .collect();
    let message = format!("a circle of imports: {}", steps.join(", "));
    let first = &imports[&(circle[0], circle[1 % circle.len()])];
    Finding::at(&first.path, first.line, message)
}
