//! Reading of sequence files: shares, faults, and the genomes that are bundled with the repository.

#[cfg(test)]
mod bundled;
#[cfg(test)]
mod common;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod packed;
#[cfg(test)]
mod shares;
