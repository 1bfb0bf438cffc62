//! The doorbell of a rank on this system. A rank without work for a while sleeps; a rank that gives
//! it work rings.

#[cfg_attr(
    any(pgas_portable, not(target_os = "linux")),
    path = "futex_portable.rs"
)]
mod futex;
#[cfg(test)]
mod tests;

pub use futex::Futex;

/// The bell of one rank, in shared memory; valid when all its bytes are zero. A cache line.
pub type Doorbell = pgas_lockfree::doorbell::Doorbell<Futex>;
