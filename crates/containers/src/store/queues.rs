//! Queues.

use std::path::Path;

use pgas_core::{Rank, World};

use super::manifest::About;
use super::{open, save};
use crate::object::Object;
use crate::queue::{CircularQueue, FastQueue, Phase, PushError};
use crate::{Error, Result};

const QUEUE: &str = "queue";

/// Writes the elements, which the host reads. Collective.
fn save_queue<T: Object>(
    world: &World,
    dir: &Path,
    capacity: usize,
    for_each: impl FnOnce(&mut dyn FnMut(T) -> Result<()>) -> Result<()>,
) -> Result<()> {
    let about = About::of::<T>(&[capacity as u64]);
    save(world, dir, QUEUE, &[about], |parts| {
        for_each(&mut |element| parts[0].push(&element))
    })
}

/// Fills a queue, which `make` makes, with what was saved; the first rank reads all parts, so that the elements keep their
/// order. Collective.
fn load_queue<T: Object, Q>(
    world: &World,
    dir: &Path,
    make: impl FnOnce(usize) -> Result<Q>,
    push: impl Fn(&Q, T) -> Result<(), PushError<T>>,
) -> Result<Q> {
    let saved = open(world, dir, QUEUE, &[About::of::<T>(&[0])])?;
    saved.expect_room()?;
    let queue = saved.made(make(saved.size(0)?))?;
    let mine = || {
        if world.rank() != Rank::ZERO {
            return Ok(());
        }
        for part in 0..saved.manifest.parts[0].len() {
            let put = |_, element| push(&queue, element).map_err(Error::from);
            saved.read_part::<T>(0, part, put)?;
        }
        Ok(())
    };
    super::together(world, mine())?;
    Ok(queue)
}

impl<T: Object, P: Phase> CircularQueue<T, P> {
    /// Writes the elements to a directory, in their order; they stay in the queue.
    ///
    /// # Cost
    ///
    /// 2B + 4A + 8 collectives, and the host reads its elements. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`] if a file cannot be written, which names it.
    pub fn save(&mut self, dir: impl AsRef<Path>) -> Result<()> {
        let (world, capacity) = (self.world().clone(), self.capacity());
        self.with_settled(|ring| save_queue(&world, dir.as_ref(), capacity, |f| ring.for_each(f)))
    }
}

impl<T: Object> CircularQueue<T> {
    /// The queue that was [saved](CircularQueue::save) in a directory, on `host`.
    ///
    /// # Cost
    ///
    /// That of [`with_capacity`](Self::with_capacity), of a [`push`](Self::push) an element by the first rank, and
    /// 2 collectives. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`] if the directory holds no queue of such elements, or a file cannot be read or is
    /// not what was written, or there is no room for what it says; those of [`with_capacity`](Self::with_capacity) for hosts that
    /// are none or differ.
    pub fn load(world: &World, host: Rank, dir: impl AsRef<Path>) -> Result<Self> {
        let make = |capacity| Self::with_capacity(world, host, capacity);
        load_queue(world, dir.as_ref(), make, Self::push)
    }
}

impl<T: Object, P: Phase> FastQueue<T, P> {
    /// As [`CircularQueue::save`].
    ///
    /// # Cost
    ///
    /// As [`CircularQueue::save`].
    ///
    /// # Errors
    ///
    /// As [`CircularQueue::save`].
    pub fn save(&mut self, dir: impl AsRef<Path>) -> Result<()> {
        let (world, capacity) = (self.world().clone(), self.capacity());
        self.with_settled(|ring| save_queue(&world, dir.as_ref(), capacity, |f| ring.for_each(f)))
    }
}

impl<T: Object> FastQueue<T> {
    /// As [`CircularQueue::load`], in the phase in which all push.
    ///
    /// # Cost
    ///
    /// As [`CircularQueue::load`].
    ///
    /// # Errors
    ///
    /// As [`CircularQueue::load`].
    pub fn load(world: &World, host: Rank, dir: impl AsRef<Path>) -> Result<Self> {
        let make = |capacity| Self::with_capacity(world, host, capacity);
        load_queue(world, dir.as_ref(), make, Self::push)
    }
}
