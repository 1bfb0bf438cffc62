//! The segments of all ranks as peers reach them: registered, with an address and a key.
#![expect(unsafe_code, reason = "lets peers access this rank's segment")]

use pgas_core::backend::{Backend, RemoteAddr};
use pgas_core::{Error, Result};
use pgas_smp::Member;

use crate::bootstrap::{Way, agree, gather};
use crate::sys::{Endpoint, Region, Target};

/// The addresses of all ranks' segments.
#[derive(Debug)]
pub(crate) struct Segments {
    /// For each rank, the start of its segment.
    starts: Box<[Target]>,
}

impl Segments {
    /// Registers this rank's segment, and learns the addresses of all others; collective.
    pub(crate) fn open(
        endpoint: &mut Endpoint,
        member: &Member,
        way: &mut dyn Way,
    ) -> Result<(Self, Region)> {
        let made = Self::register(endpoint, member);
        let said = made.as_ref().map(|(_, said)| said.clone());
        let all = gather(way, said.map_err(Clone::clone))?;
        let (region, own) = made?;
        let said = all.iter().enumerate();
        let starts = said.map(|(rank, said)| read(endpoint, said, own.len(), rank));
        let starts = agree(way, starts.collect())?;
        Ok((Self { starts }, region))
    }

    fn register(endpoint: &mut Endpoint, member: &Member) -> Result<(Region, Vec<u8>)> {
        let start = member
            .mapped(member.rank())
            .expect("a member has mapped its own segment");
        let bytes = member.segment_bytes();
        let len = usize::try_from(bytes).expect("a mapped segment fits into the address space");
        // SAFETY: the segment stays mapped as long as the member, which outlives the registration
        // (`network.rs`). There are no references into segments, so peers may change them.
        let region = unsafe { endpoint.expose(start.as_ptr(), len) };
        let region = region.map_err(|error| {
            let text = format!("{error}; PGAS_SEGMENT makes the segment of {bytes} bytes smaller");
            Error::backend("start-up", 0, text)
        })?;
        let base = if endpoint.info().by_address() {
            start.as_ptr().addr() as u64
        } else {
            0
        };
        let mut said = Vec::new();
        said.extend_from_slice(&base.to_ne_bytes());
        said.extend_from_slice(&region.key().to_ne_bytes());
        said.extend_from_slice(&endpoint.address()?);
        Ok((region, said))
    }

    /// The target of transfers to an address.
    pub(crate) fn target(&self, at: RemoteAddr) -> Target {
        let start = self.starts[at.rank.number() as usize];
        Target {
            address: start.address.wrapping_add(at.offset),
            ..start
        }
    }

    /// The place of a rank in the table of addresses.
    pub(crate) fn peer(&self, rank: u32) -> u64 {
        self.starts[rank as usize].peer
    }

    pub(crate) fn n_ranks(&self) -> u32 {
        u32::try_from(self.starts.len()).expect("a job has no more")
    }
}

/// Decodes the message of another rank, which is as long as this rank's own. An address that is a
/// text may be of another length: it ends with a zero.
fn read(endpoint: &mut Endpoint, said: &[u8], len: usize, rank: usize) -> Result<Target> {
    let wrong = || {
        let text = format!(
            "rank {rank} has an address of another kind, {} bytes long",
            said.len()
        );
        Error::backend("start-up", 0, text)
    };
    let has_end = endpoint.info().has_texts_for_addresses() && said.ends_with(&[0]);
    if said.len() != len && !has_end {
        return Err(wrong());
    }
    let (base, rest) = said.split_first_chunk().ok_or_else(wrong)?;
    let (key, address) = rest.split_first_chunk().ok_or_else(wrong)?;
    Ok(Target {
        peer: endpoint.insert(address)?,
        address: u64::from_ne_bytes(*base),
        key: u64::from_ne_bytes(*key),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::SLOT_BYTES;
    use crate::sys::find;

    fn said(address: &[u8]) -> Vec<u8> {
        [&[0; 16], address].concat()
    }

    #[test]
    fn an_address_that_is_a_text_may_be_longer_than_this_ranks_own() {
        let open = |provider| {
            let info = find(Some(provider), None).unwrap().swap_remove(0);
            Endpoint::open(info, 2, 64, SLOT_BYTES).unwrap()
        };
        let mut texts = open("shm");
        let own = said(&texts.address().unwrap()).len();
        // A process of a larger number than any that this host has.
        let other = said(b"fi_shm://99999999999999:0:0\0");
        assert_ne!(other.len(), own);
        read(&mut texts, &other, own, 1).unwrap();
        let cut = &other[..other.len() - 1];
        let refused = read(&mut texts, cut, own, 1).unwrap_err().to_string();
        assert!(refused.contains("rank 1 has an address"), "{refused}");

        let mut numbers = open("tcp;ofi_rxm");
        let own = said(&numbers.address().unwrap());
        read(&mut numbers, &own, own.len(), 1).unwrap();
        let longer = [&own[..], &[0]].concat();
        read(&mut numbers, &longer, own.len(), 1).unwrap_err();
    }
}
