//! A table that allocates its values by remote calls, and transfers them by put and get.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pgas::prelude::{DistObject, GlobalPtr, RemoteCalls, World};
use pgas::{Here, PgasFuture};

use super::{Table, Window, owner};
use crate::values::Values;

type Places = DistObject<Mutex<HashMap<u64, GlobalPtr<u8>>>>;

pub(crate) struct LandingZone {
    world: World,
    places: Places,
    value_bytes: usize,
}

/// Allocates memory for a value of `len` bytes, or returns the reason of the failure.
fn make((here, places, key, len): (Here, Places, u64, usize)) -> Result<GlobalPtr<u8>, String> {
    let place = here.world().alloc(len).map_err(|error| error.to_string())?;
    let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(former) = places.insert(key, place) {
        here.world().free(former);
    }
    Ok(place)
}

/// The pointer to the value of `key`.
fn look_up((places, key): (Places, u64)) -> Option<GlobalPtr<u8>> {
    let places = places.lock().unwrap_or_else(PoisonError::into_inner);
    places.get(&key).copied()
}

impl LandingZone {
    pub(crate) fn new(world: &World, value_bytes: usize) -> pgas::Result<Self> {
        Ok(Self {
            world: world.clone(),
            places: DistObject::new(world, Mutex::default())?,
            value_bytes,
        })
    }

    fn make(&self, key: u64) -> pgas::Result<PgasFuture<Result<GlobalPtr<u8>, String>>> {
        let args = (
            Here::new(&self.world),
            self.places.clone(),
            key,
            self.value_bytes,
        );
        self.world.rpc(owner(&self.world, key), make, args)
    }

    fn look_up(&self, key: u64) -> pgas::Result<PgasFuture<Option<GlobalPtr<u8>>>> {
        let args = (self.places.clone(), key);
        self.world.rpc(owner(&self.world, key), look_up, args)
    }

    fn put(&self, place: Result<GlobalPtr<u8>, String>, value: &[u8]) -> pgas::Result<()> {
        let place = place.map_err(|reason| pgas::Error::Argument(reason.into()))?;
        place.put_slice(&self.world, value)
    }

    /// Gets the value at `place` into `out`. Returns whether it equals `value`.
    fn holds(
        &self,
        place: Option<GlobalPtr<u8>>,
        value: &[u8],
        out: &mut [u8],
    ) -> pgas::Result<bool> {
        let Some(place) = place else { return Ok(false) };
        place.get_slice(&self.world, out)?;
        Ok(out == value)
    }
}

impl Table for LandingZone {
    const NAME: &'static str = "landing zone";

    fn insert(&self, key: u64, value: &[u8]) -> pgas::Result<()> {
        self.put(self.make(key)?.wait()?, value)?;
        self.world.flush(owner(&self.world, key))
    }

    fn finds(&self, key: u64, value: &[u8]) -> pgas::Result<bool> {
        let mut out = vec![0; self.value_bytes];
        self.holds(self.look_up(key)?.wait()?, value, &mut out)
    }

    fn insert_all(&self, keys: &[u64], values: &Values) -> pgas::Result<()> {
        let mut window = Window::new(|place, key| self.put(place, values.get(key)));
        for &key in keys {
            window.push(self.make(key), key)?;
        }
        window.finish()
    }

    fn finds_all(&self, keys: &[u64], values: &Values) -> pgas::Result<bool> {
        let mut out = vec![0; self.value_bytes];
        let mut found = true;
        let mut window = Window::new(|place, key| {
            found &= self.holds(place, values.get(key), &mut out)?;
            Ok(())
        });
        for &key in keys {
            window.push(self.look_up(key), key)?;
        }
        window.finish()?;
        Ok(found)
    }

    fn end(self) -> pgas::Result<()> {
        self.world.barrier()?;
        let places =
            std::mem::take(&mut *self.places.lock().unwrap_or_else(PoisonError::into_inner));
        places
            .into_values()
            .for_each(|place| self.world.free(place));
        Ok(())
    }
}
