//! Extend-add by collectives: one all-to-all exchange for each height of the tree.

use pgas::World;

use crate::fronts::{Addition, Fronts};
use crate::timing;

/// Returns the elapsed seconds and this rank's final shares. Collective.
pub(crate) fn run(world: &World, fronts: &Fronts<'_>) -> pgas::Result<(f64, Vec<Vec<f64>>)> {
    let mut values = fronts.values();
    let all = &fronts.tree.fronts;
    let top = all.iter().map(|front| front.height).max().unwrap_or(0);
    let team = world.team();
    let seconds = timing::seconds(world, || {
        for height in 0..top {
            let mut to: Vec<Vec<Addition>> = world.ranks().map(|_| Vec::new()).collect();
            let is_here = |front: &usize| all[*front].height == height && fronts.has(*front);
            for front in (0..all.len()).filter(is_here) {
                fronts.contributions(front, &values[front], &mut to);
            }
            for addition in team.all_to_all_varying(&to)?.iter().flatten() {
                values[addition.front as usize][addition.place as usize] += addition.value;
            }
        }
        Ok(())
    })?;
    Ok((seconds, values))
}
