//! A table by remote calls alone: calls and answers carry the values, long ones in fragments.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use pgas::PgasFuture;
use pgas::prelude::{DistObject, RemoteCalls, World};

use super::{Table, Window, owner};
use crate::values::Values;

/// Upper bound of the bytes of a message besides a fragment.
const BESIDE: usize = 256;

type Store = DistObject<Mutex<HashMap<u64, Vec<u8>>>>;

pub(crate) struct Rpc {
    world: World,
    store: Store,
    value_bytes: usize,
    /// The maximum number of bytes in a fragment.
    fragment_bytes: usize,
}

/// Stores a fragment of the value of `key`, which has `len` bytes in all.
fn store((store, key, start, len): (Store, u64, usize, usize), fragment: &[u8]) {
    let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
    let value = store.entry(key).or_insert_with(|| vec![0; len]);
    value[start..start + fragment.len()].copy_from_slice(fragment);
}

/// A fragment of the value of `key`.
fn load((store, key, start, end): (Store, u64, usize, usize)) -> Option<Vec<u8>> {
    let store = store.lock().unwrap_or_else(PoisonError::into_inner);
    Some(store.get(&key)?[start..end].to_vec())
}

impl Rpc {
    pub(crate) fn new(world: &World, value_bytes: usize) -> pgas::Result<Self> {
        Ok(Self {
            world: world.clone(),
            store: DistObject::new(world, Mutex::default())?,
            value_bytes,
            fragment_bytes: world.capabilities().max_medium - BESIDE,
        })
    }

    fn fragments(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (all, each) = (self.value_bytes, self.fragment_bytes);
        (0..all)
            .step_by(each)
            .map(move |start| start..all.min(start + each))
    }

    fn send(&self, key: u64, value: &[u8], part: &Range<usize>) -> pgas::Result<PgasFuture<()>> {
        let args = (self.store.clone(), key, part.start, value.len());
        let to = owner(&self.world, key);
        self.world.rpc_view(to, store, args, &value[part.clone()])
    }

    fn ask(&self, key: u64, part: &Range<usize>) -> pgas::Result<PgasFuture<Option<Vec<u8>>>> {
        let args = (self.store.clone(), key, part.start, part.end);
        self.world.rpc(owner(&self.world, key), load, args)
    }
}

impl Table for Rpc {
    const NAME: &'static str = "rpc";

    fn insert(&self, key: u64, value: &[u8]) -> pgas::Result<()> {
        let mut window = Window::new(|(), ()| Ok(()));
        for part in self.fragments() {
            window.push(self.send(key, value, &part), ())?;
        }
        window.finish()
    }

    fn finds(&self, key: u64, value: &[u8]) -> pgas::Result<bool> {
        let mut found = true;
        let mut window = Window::new(|fragment: Option<Vec<u8>>, part: Range<usize>| {
            found &= fragment.as_deref() == Some(&value[part]);
            Ok(())
        });
        for part in self.fragments() {
            window.push(self.ask(key, &part), part)?;
        }
        window.finish()?;
        Ok(found)
    }

    fn insert_all(&self, keys: &[u64], values: &Values) -> pgas::Result<()> {
        let mut window = Window::new(|(), ()| Ok(()));
        for &key in keys {
            for part in self.fragments() {
                window.push(self.send(key, values.get(key), &part), ())?;
            }
        }
        window.finish()
    }

    fn finds_all(&self, keys: &[u64], values: &Values) -> pgas::Result<bool> {
        let mut found = true;
        let mut window = Window::new(
            |fragment: Option<Vec<u8>>, (key, part): (u64, Range<usize>)| {
                found &= fragment.as_deref() == Some(&values.get(key)[part]);
                Ok(())
            },
        );
        for &key in keys {
            for part in self.fragments() {
                window.push(self.ask(key, &part), (key, part))?;
            }
        }
        window.finish()?;
        Ok(found)
    }

    fn end(self) -> pgas::Result<()> {
        // No rank drops its part while another one still calls.
        self.world.barrier()
    }
}
