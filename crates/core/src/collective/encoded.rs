//! Collectives over values of any type, which a layer above core encodes. The lengths of the
//! encodings may differ from member to member.

use super::lane::{Call, Lane, Phase};
use super::vector::{allgather_varying, exchange_varying, gather_varying};
use super::{Kind, ReduceOp, Signature, doublings, wrap};
use crate::event::Event;
use crate::{Result, Team};

/// The round of the message from member 0 to the root.
const TO_ROOT: u32 = u32::MAX;

/// An encoding of values as bytes. An error in it fails the job, since other members wait for the
/// value.
pub trait Encoding<T> {
    /// The bytes of `value`.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) for a value that cannot be encoded.
    fn encode(value: &T) -> Result<Vec<u8>>;

    /// The value whose bytes these are.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) for bytes that are not the encoding of a value.
    fn decode(bytes: &[u8]) -> Result<T>;

    /// As [`encode`](Self::encode), of each of `values`.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    fn encode_all(values: &[T]) -> Result<Vec<Vec<u8>>> {
        values.iter().map(Self::encode).collect()
    }

    /// As [`decode`](Self::decode), of each of `encoded`.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    fn decode_all(encoded: &[Vec<u8>]) -> Result<Vec<T>> {
        encoded.iter().map(|bytes| Self::decode(bytes)).collect()
    }
}

/// Sends the root's `bytes` to every member, down a binomial tree, unfragmented.
pub(super) async fn broadcast(lane: Lane<'_>, root: u32, bytes: Vec<u8>) -> Result<Vec<u8>> {
    let n = lane.n_ranks();
    let place = wrap(lane.rank(), n - root, n);
    // A member has children at the distances below the one to its parent.
    let to_parent = place & place.wrapping_neg();
    let bytes = match place {
        0 => bytes,
        place => {
            let parent = wrap(root, place - to_parent, n);
            lane.receive(parent, 0).await?.bytes().to_vec()
        }
    };
    for (_, distance) in doublings(n).rev() {
        if (place == 0 || distance < to_parent) && place + distance < n {
            lane.send(wrap(root, place + distance, n), 0, &bytes)
                .await?;
        }
    }
    Ok(bytes)
}

/// Sends each member its entry of the root's `all`.
async fn scatter(lane: Lane<'_>, root: u32, all: Vec<Vec<u8>>) -> Result<Vec<u8>> {
    if lane.rank() != root {
        return Ok(lane.receive(root, 0).await?.bytes().to_vec());
    }
    let mut own = Vec::new();
    for (member, bytes) in (0..).zip(all) {
        if member == root {
            own = bytes;
        } else {
            lane.send(member, 0, &bytes).await?;
        }
    }
    Ok(own)
}

/// Combines all members' values at member 0, up a binomial tree, in which every operand is a run of
/// neighbours. `None` on the other members.
async fn combine_up<T, E: Encoding<T>>(
    lane: Lane<'_>,
    mut value: T,
    op: &impl ReduceOp<T>,
) -> Result<Option<T>> {
    let (me, n) = (lane.rank(), lane.n_ranks());
    for (round, distance) in doublings(n) {
        if me & distance != 0 {
            lane.send(me - distance, round, &E::encode(&value)?).await?;
            return Ok(None);
        }
        if me + distance < n {
            let after = lane.receive(me + distance, round).await?;
            value = op.combine(value, E::decode(after.bytes())?);
        }
    }
    Ok(Some(value))
}

async fn reduce<T, E: Encoding<T>>(
    lane: Lane<'_>,
    root: u32,
    value: T,
    op: &impl ReduceOp<T>,
) -> Result<Option<T>> {
    let combined = combine_up::<T, E>(lane, value, op).await?;
    if root == 0 {
        return Ok(combined);
    }
    if let Some(combined) = combined {
        lane.send(root, TO_ROOT, &E::encode(&combined)?).await?;
        return Ok(None);
    }
    if lane.rank() != root {
        return Ok(None);
    }
    let combined = lane.receive(0, TO_ROOT).await?;
    E::decode(combined.bytes()).map(Some)
}

async fn allreduce<T, E: Encoding<T>>(call: &Call, value: T, op: &impl ReduceOp<T>) -> Result<T> {
    let combined = combine_up::<T, E>(call.main(), value, op).await?;
    let bytes = combined.as_ref().map(E::encode).transpose()?;
    let second = call.lane(Phase::Second);
    let bytes = broadcast(second, 0, bytes.unwrap_or_default()).await?;
    match combined {
        Some(combined) => Ok(combined),
        None => E::decode(&bytes),
    }
}

/// Combines each member's value with those of all members before it, by doubling (Hillis and
/// Steele, Data parallel algorithms, 1986).
async fn scan<T, E: Encoding<T>>(lane: Lane<'_>, mut value: T, op: &impl ReduceOp<T>) -> Result<T> {
    let (me, n) = (lane.rank(), lane.n_ranks());
    for (round, distance) in doublings(n) {
        if me + distance < n {
            lane.send(me + distance, round, &E::encode(&value)?).await?;
        }
        if me >= distance {
            let before = lane.receive(me - distance, round).await?;
            value = op.combine(E::decode(before.bytes())?, value);
        }
    }
    Ok(value)
}

/// Combines the values of the members before each one. The first member gets `first`.
///
/// A member keeps two combinations: with its own value, to pass on, and without.
async fn scan_exclusive<T, E: Encoding<T>>(
    lane: Lane<'_>,
    value: T,
    first: T,
    op: &impl ReduceOp<T>,
) -> Result<T> {
    let (me, n) = (lane.rank(), lane.n_ranks());
    let (mut with_mine, mut without) = (value, None);
    for (round, distance) in doublings(n) {
        if me + distance < n {
            let bytes = E::encode(&with_mine)?;
            lane.send(me + distance, round, &bytes).await?;
        }
        if me >= distance {
            let before = lane.receive(me - distance, round).await?;
            with_mine = op.combine(E::decode(before.bytes())?, with_mine);
            let before = E::decode(before.bytes())?;
            without = Some(match without {
                Some(without) => op.combine(before, without),
                None => before,
            });
        }
    }
    Ok(without.unwrap_or(first))
}

/// The collectives over values, which a layer above core offers and documents. Each begins at once,
/// and its event is waited for.
impl Team {
    /// Gives every member the root's value.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the team.
    #[doc(hidden)]
    #[track_caller]
    pub fn broadcast_encoded<T, E>(&self, root: u32, value: T) -> Event<T>
    where
        T: Send + 'static,
        E: Encoding<T> + 'static,
    {
        self.assert_member(root);
        let call = self.begin(Signature::new(Kind::BroadcastValue).root(root).of::<T>(0));
        self.launch(call, move |call| async move {
            call.enter().await?;
            if call.main().rank() != root {
                let bytes = broadcast(call.main(), root, Vec::new()).await?;
                return E::decode(&bytes);
            }
            broadcast(call.main(), root, E::encode(&value)?).await?;
            Ok(value)
        })
    }

    /// Gives each member its entry of the root's values.
    ///
    /// # Cost
    ///
    /// A message from the root to each other member. Collective over the team.
    #[doc(hidden)]
    #[track_caller]
    pub fn scatter_encoded<T, E>(&self, root: u32, values: Vec<T>) -> Event<T>
    where
        T: Send + 'static,
        E: Encoding<T> + 'static,
    {
        self.assert_member(root);
        if self.rank() == root {
            self.assert_an_entry_each(values.len());
        }
        let call = self.begin(Signature::new(Kind::ScatterValues).root(root).of::<T>(0));
        self.launch(call, move |call| async move {
            call.enter().await?;
            let lane = call.main();
            let all = match lane.rank() == root {
                true => E::encode_all(&values)?,
                false => Vec::new(),
            };
            E::decode(&scatter(lane, root, all).await?)
        })
    }

    /// Gives the root all members' values.
    ///
    /// # Cost
    ///
    /// 2 log n rounds. Collective over the team.
    #[doc(hidden)]
    #[track_caller]
    pub fn gather_encoded<T, E>(&self, root: u32, value: T) -> Event<Option<Vec<T>>>
    where
        T: Send + 'static,
        E: Encoding<T> + 'static,
    {
        self.assert_member(root);
        let call = self.begin(Signature::new(Kind::GatherVarying).root(root).of::<T>(0));
        self.launch(call, move |call| async move {
            call.enter().await?;
            let all = gather_varying(&call, root, &E::encode(&value)?).await?;
            all.map(|all| E::decode_all(&all)).transpose()
        })
    }

    /// Gives all members all members' values.
    ///
    /// # Cost
    ///
    /// 2 log n rounds. Collective over the team.
    #[doc(hidden)]
    #[track_caller]
    pub fn allgather_encoded<T, E>(&self, value: T) -> Event<Vec<T>>
    where
        T: Send + 'static,
        E: Encoding<T> + 'static,
    {
        let call = self.begin(Signature::new(Kind::AllgatherVarying).of::<T>(0));
        self.launch(call, move |call| async move {
            call.enter().await?;
            E::decode_all(&allgather_varying(&call, &E::encode(&value)?).await?)
        })
    }

    /// Gives each member its entry of each member's values.
    ///
    /// # Cost
    ///
    /// n - 1 rounds. Collective over the team.
    #[doc(hidden)]
    #[track_caller]
    pub fn all_to_all_encoded<T, E>(&self, values: Vec<T>) -> Event<Vec<T>>
    where
        T: Send + 'static,
        E: Encoding<T> + 'static,
    {
        self.assert_an_entry_each(values.len());
        let call = self.begin(Signature::new(Kind::AllToAllVarying).of::<T>(0));
        self.launch(call, move |call| async move {
            call.enter().await?;
            E::decode_all(&exchange_varying(call.main(), &E::encode_all(&values)?).await?)
        })
    }

    /// Gives the root all members' values, combined.
    ///
    /// # Cost
    ///
    /// log n rounds, and another one unless the root is member 0. Collective over the team.
    #[doc(hidden)]
    #[track_caller]
    pub fn reduce_encoded<T, E>(
        &self,
        root: u32,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<Option<T>>
    where
        T: Send + 'static,
        E: Encoding<T> + 'static,
    {
        self.assert_member(root);
        let call = self.begin(Signature::new(Kind::ReduceValues).root(root).of::<T>(0));
        self.launch(call, move |call| async move {
            call.enter().await?;
            reduce::<T, E>(call.main(), root, op.alone(value), &op).await
        })
    }

    /// Gives all members all members' values, combined.
    ///
    /// # Cost
    ///
    /// 2 log n rounds. Collective over the team.
    #[doc(hidden)]
    #[track_caller]
    pub fn allreduce_encoded<T, E>(
        &self,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<T>
    where
        T: Send + 'static,
        E: Encoding<T> + 'static,
    {
        let call = self.begin(Signature::new(Kind::AllreduceValues).of::<T>(0));
        self.launch(call, move |call| async move {
            call.enter().await?;
            allreduce::<T, E>(&call, op.alone(value), &op).await
        })
    }

    /// Gives each member its value combined with those of the members before it.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the team.
    #[doc(hidden)]
    #[track_caller]
    pub fn scan_encoded<T, E>(
        &self,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<T>
    where
        T: Send + 'static,
        E: Encoding<T> + 'static,
    {
        let call = self.begin(Signature::new(Kind::ScanValues).of::<T>(0));
        self.launch(call, move |call| async move {
            call.enter().await?;
            scan::<T, E>(call.main(), op.alone(value), &op).await
        })
    }

    /// As [`scan_encoded`](Self::scan_encoded), of the members before this one alone; the first
    /// member gets `first`.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the team.
    #[doc(hidden)]
    #[track_caller]
    pub fn scan_exclusive_encoded<T, E>(
        &self,
        value: T,
        first: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<T>
    where
        T: Send + 'static,
        E: Encoding<T> + 'static,
    {
        let call = self.begin(Signature::new(Kind::ScanExclusiveValues).of::<T>(0));
        self.launch(call, move |call| async move {
            call.enter().await?;
            scan_exclusive::<T, E>(call.main(), op.alone(value), first, &op).await
        })
    }
}
