//! Broadcast: one member's values for all.

use std::slice;

use zerocopy::IntoBytes;

use super::lane::Lane;
use super::{Kind, Signature, doublings, wrap};
use crate::event::Event;
use crate::{Pod, Result, Team};

/// Copies the root's `bytes` to all members, down a binomial tree: member `i` after the root
/// receives from member `i` minus its lowest bit. Data longer than one message travels in pieces,
/// each of which a member passes on before it waits for the next.
pub(super) async fn broadcast(lane: Lane<'_>, root: u32, bytes: &mut [u8]) -> Result<()> {
    let n = lane.n_ranks();
    if n == 1 {
        return Ok(());
    }
    let place = wrap(lane.rank(), n - root, n);
    // A member has children at the distances below the one to its parent.
    let to_parent = place & place.wrapping_neg();
    let piece_bytes = lane.piece_bytes();
    // The last piece is shorter than the others, perhaps empty. So a member with another length
    // meets a piece of another length.
    for i in 0..=bytes.len() / piece_bytes {
        let round = u32::try_from(i).expect("2^32 pieces are more than a rank's memory");
        let start = i * piece_bytes;
        let piece = &mut bytes[start..];
        let len = piece.len().min(piece_bytes);
        let piece = &mut piece[..len];
        if place != 0 {
            let parent = wrap(root, place - to_parent, n);
            lane.receive_into(parent, round, piece).await?;
        }
        for (_, distance) in doublings(n).rev() {
            if (place == 0 || distance < to_parent) && place + distance < n {
                let child = wrap(root, place + distance, n);
                lane.send(child, round, piece).await?;
            }
        }
    }
    Ok(())
}

impl Team {
    /// Gives every member the root's `value`; the values of the other members are ignored.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the team; the root does not wait for the others.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(4, |world| {
    ///     let mine = world.rank().number() * 10;
    ///     assert_eq!(world.team().broadcast(3, mine)?, 30);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Bcast")]
    #[track_caller]
    pub fn broadcast<T: Pod>(&self, root: u32, mut value: T) -> Result<T> {
        self.broadcast_slice(root, slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Gives every member the root's `values`, which have the same length everywhere.
    ///
    /// # Cost
    ///
    /// log n rounds. A member sends the values to up to log n others; long ones in pieces, which it
    /// passes on as they come. Collective over the team; the root does not wait for the others.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for a
    /// member with another length.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(4, |world| {
    ///     let mut words = if world.rank().number() == 1 { [1.5, 2.5] } else { [0.0; 2] };
    ///     world.team().broadcast_slice(1, &mut words)?;
    ///     assert_eq!(words, [1.5, 2.5]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Bcast")]
    #[track_caller]
    pub fn broadcast_slice<T: Pod>(&self, root: u32, values: &mut [T]) -> Result<()> {
        let call = self.begin(self.broadcast_signature(root, values));
        self.drive(&call, async {
            match call.enter().await? {
                Some(turn) => turn.replace(values).await,
                None => broadcast(call.main(), root, values.as_mut_bytes()).await,
            }
        })
    }

    /// Begins a [`broadcast`](Self::broadcast).
    ///
    /// # Cost
    ///
    /// As [`broadcast`](Self::broadcast). Collective over the team.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(4, |world| {
    ///     let mine = world.rank().number();
    ///     let both = [world.team().broadcast_nb(0, mine), world.team().broadcast_nb(3, mine)];
    ///     assert_eq!(both.map(|event| event.wait().unwrap()), [0, 3]);
    /// });
    /// ```
    #[doc(alias = "MPI_Ibcast")]
    #[track_caller]
    pub fn broadcast_nb<T: Pod>(&self, root: u32, mut value: T) -> Event<T> {
        let call = self.begin(self.broadcast_signature(root, slice::from_ref(&value)));
        self.launch(call, |call| async move {
            let values = slice::from_mut(&mut value);
            match call.enter().await? {
                Some(turn) => turn.replace(values).await?,
                None => broadcast(call.main(), root, values.as_mut_bytes()).await?,
            }
            Ok(value)
        })
    }

    /// Begins a [`broadcast_slice`](Self::broadcast_slice); the event gives the values back.
    ///
    /// # Cost
    ///
    /// As [`broadcast_slice`](Self::broadcast_slice). Collective over the team.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let mine = vec![world.rank().number(); 1000];
    ///     let values = world.team().broadcast_slice_nb(2, mine).wait()?;
    ///     assert_eq!(values, vec![2; 1000]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ibcast")]
    #[track_caller]
    pub fn broadcast_slice_nb<T: Pod>(&self, root: u32, mut values: Vec<T>) -> Event<Vec<T>> {
        let call = self.begin(self.broadcast_signature(root, &values));
        self.launch(call, |call| async move {
            if let Some(turn) = call.enter().await? {
                return turn.in_place(values).await;
            }
            broadcast(call.main(), root, values.as_mut_bytes()).await?;
            Ok(values)
        })
    }

    #[track_caller]
    fn broadcast_signature<T>(&self, root: u32, values: &[T]) -> Signature {
        self.assert_member(root);
        Signature::new(Kind::Broadcast)
            .root(root)
            .of::<T>(values.len())
    }
}
