//! Tests of the queues over every transport that needs nothing installed.

mod concurrent;
mod histories;
mod prices;
mod sequential;

use pgas_core::{Rank, World};

use super::{CircularQueue, FastQueue, PushError};
use crate::object::Object;
use crate::testing::{
    Random, asked, everywhere, everywhere_counted, in_many_orders, price, served_counted,
};

/// First tickets: the usual one, and some from which soon the sign of tickets changes, their laps
/// wrap around, or the tickets themselves do.
const FIRST_TICKETS: [u64; 4] = [0, u64::MAX - 5, (1 << 63) - 3, (1 << 33) - 2];

fn queue<T: Object>(world: &World, capacity: usize) -> CircularQueue<T> {
    CircularQueue::with_capacity(world, Rank::ZERO, capacity).unwrap()
}

fn fast<T: Object>(world: &World, capacity: usize) -> FastQueue<T> {
    FastQueue::with_capacity(world, Rank::ZERO, capacity).unwrap()
}
