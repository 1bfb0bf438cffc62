//! The bootstrap: ranks exchange their addresses before there is a network.
//!
//! A [`Way`] connects them; the exchange is the same for each.

mod one_host;
mod pmi;
mod pmix;

use pgas_core::{Error, Result};

pub(crate) use one_host::OneHost;
pub(crate) use pmi::Pmi;
pub(crate) use pmix::Pmix;

/// A way by which the ranks of a job exchange bytes.
pub(crate) trait Way {
    fn n_ranks(&self) -> u32;

    /// Exchanges the bytes of all ranks, in the order of ranks. Collective.
    fn exchange(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>>;
}

/// Exchanges the bytes of all ranks. Fails on all of them, with the same text, if one has an error.
/// Collective.
pub(crate) fn gather(way: &mut dyn Way, own: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let said = match &own {
        Ok(bytes) => [&[0], &bytes[..]].concat(),
        Err(error) => [&[1], error.to_string().as_bytes()].concat(),
    };
    let answers = way.exchange(&said)?;
    own?;
    let mut all = Vec::with_capacity(answers.len());
    for (rank, answer) in answers.into_iter().enumerate() {
        match answer.split_first() {
            Some((0, bytes)) => all.push(bytes.to_vec()),
            Some((_, text)) => {
                let text = String::from_utf8_lossy(text);
                let text = format!("rank {rank} could not join: {text}");
                return Err(Error::backend("start-up", 0, text));
            }
            None => return Err(Error::backend("start-up", 0, "an empty message")),
        }
    }
    Ok(all)
}

/// Fails on all ranks if one has an error. Collective.
pub(crate) fn agree<T>(way: &mut dyn Way, made: Result<T>) -> Result<T> {
    gather(way, made.as_ref().map(|_| Vec::new()).map_err(Clone::clone))?;
    made
}
