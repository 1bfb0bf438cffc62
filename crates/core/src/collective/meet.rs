//! The meeting of all members, by messages.

use super::doublings;
use super::lane::Lane;
use crate::error::Result;

/// Waits until all members have come here, by the dissemination barrier: in the round with distance
/// 1, 2, 4, ... every member tells the member at that distance after it of all arrivals that it
/// knows.
pub(super) async fn meet(lane: Lane<'_>) -> Result<()> {
    for (round, distance) in doublings(lane.n_ranks()) {
        lane.send(lane.after(distance), round, &[]).await?;
        lane.receive_into(lane.before(distance), round, &mut [])
            .await?;
    }
    Ok(())
}
