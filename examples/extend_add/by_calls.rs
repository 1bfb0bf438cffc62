//! Extend-add by remote calls: a rank that has finished its share of a child sends it to the
//! parent's ranks at once, and continues.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pgas::prelude::{DistObject, Rank, RemoteCalls, World};

use crate::fronts::{Addition, Fronts};
use crate::timing;

/// Upper bound of the bytes of a message besides the additions.
const BESIDE: usize = 256;

/// The state that other ranks' calls work on.
struct State {
    values: Vec<Vec<f64>>,
    /// The missing additions of each front.
    n_missing: Vec<usize>,
}

type Shared = DistObject<Mutex<State>>;

fn lock(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the values of a view into the received message.
#[expect(clippy::needless_pass_by_value, reason = "so do arguments arrive")]
fn add(state: Shared, additions: &[Addition]) {
    let state = &mut *lock(&state);
    for addition in additions {
        let front = addition.front as usize;
        state.values[front][addition.place as usize] += addition.value;
        state.n_missing[front] -= 1;
    }
}

/// Returns the elapsed seconds and this rank's final shares. Collective.
pub(crate) fn run(world: &World, fronts: &Fronts<'_>) -> pgas::Result<(f64, Vec<Vec<f64>>)> {
    let state = State {
        values: fronts.values(),
        n_missing: fronts.n_expected(),
    };
    let state = DistObject::new(world, Mutex::new(state))?;
    let per_message = (world.capabilities().max_medium - BESIDE) / size_of::<Addition>();
    let mut to: Vec<Vec<Addition>> = world.ranks().map(|_| Vec::new()).collect();
    let seconds = timing::seconds(world, || {
        for front in 0..fronts.tree.fronts.len() {
            if !fronts.has(front) {
                continue;
            }
            world.wait_for("the additions of the children", || {
                Ok(lock(&state).n_missing[front] == 0)
            })?;
            fronts.contributions(front, &lock(&state).values[front], &mut to);
            for (rank, additions) in world.ranks().zip(&mut to) {
                send(world, &state, rank, additions, per_message)?;
            }
        }
        world.barrier()
    })?;
    let values = std::mem::take(&mut lock(&state).values);
    Ok((seconds, values))
}

/// Sends additions in as many messages as they need. The lock is not held meanwhile, since sending
/// serves calls.
fn send(
    world: &World,
    state: &Shared,
    to: Rank,
    additions: &mut Vec<Addition>,
    per_message: usize,
) -> pgas::Result<()> {
    if to == world.rank() {
        add(state.clone(), additions);
    } else {
        for piece in additions.chunks(per_message) {
            world.rpc_ff_view(to, add, state.clone(), piece)?;
        }
    }
    additions.clear();
    Ok(())
}
