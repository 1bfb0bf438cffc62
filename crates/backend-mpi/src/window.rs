//! The window, by which peers reach this rank's segment, and the operations that need the target's
//! CPU.

use std::ffi::CStr;
use std::sync::{Arc, OnceLock};

use pgas_core::backend::NeedsTarget;
use pgas_core::{Error, Rank, Result};
use pgas_smp::Member;

use crate::session::Session;
use crate::sys::{self, Mpi, Window};
use pgas_network::host::Host;

/// Hints to MPI about the window.
const HINTS: &[(&CStr, &CStr)] = &[
    // Every segment has the same size, so MPI needs no table of sizes.
    (c"same_size", c"true"),
    (c"same_disp_unit", c"true"),
];

/// The window over this rank's segment.
pub(crate) fn open(
    mpi: &Mpi,
    session: &Session,
    member: &Arc<Member>,
    host: &Host,
) -> Result<Window> {
    sys::meet(mpi, session.comm())?;
    let hints = sys::info_create(mpi, HINTS)?;
    let segment = (member, Rank::new(host.index()));
    let window = sys::win_create(mpi, session.comm(), segment, &hints);
    sys::info_free(mpi, hints)?;
    let mut window = window.map_err(|error| {
        let text = format!(
            "{error} (with Open MPI: windows need OMPI_MCA_osc=sm,pt2pt and a thread level of at most \
             MPI_THREAD_SERIALIZED, or OMPI_MCA_osc=rdma on a network that has it)"
        );
        Error::backend("MPI_Win_create", 0, text)
    })?;
    if sys::win_is_unified(mpi, &window)? {
        return Ok(window);
    }
    sys::win_free(mpi, &mut window)?;
    let text = "this MPI has windows of the separate memory model only (MPI_WIN_SEPARATE); pgas needs the \
                unified one";
    Err(Error::backend("MPI_Win_get_attr", 0, text))
}

/// The operations that need the target's CPU inside of MPI or of this library. Atomics always do:
/// the CPU executes them.
pub(crate) fn needs_target(mpi: &Mpi, is_open_mpi: bool) -> Result<NeedsTarget> {
    // The setting does not change while MPI runs. To answer, Open MPI loads all of its components,
    // which takes some tenths of a second, most of it sleeps in the constructor of a network's
    // library.
    static OPEN_MPIS: OnceLock<NeedsTarget> = OnceLock::new();
    if !is_open_mpi {
        // MPICH's windows are messages.
        return Ok(NeedsTarget::EVERYTHING);
    }
    if let Some(known) = OPEN_MPIS.get() {
        return Ok(*known);
    }
    let selection = sys::setting(mpi, c"osc")?;
    let needs_target = of_components(selection.as_deref().unwrap_or(""));
    Ok(*OPEN_MPIS.get_or_init(|| needs_target))
}

/// The answer for Open MPI's setting `osc`, a list of components, or of excluded ones. Its
/// components `rdma`, `ucx` and `pt2pt` have such windows; the first two write and read without the
/// target's CPU.
fn of_components(selection: &str) -> NeedsTarget {
    let (is_negative, list) = match selection.trim().strip_prefix('^') {
        Some(list) => (true, list),
        None => (false, selection.trim()),
    };
    let may_be = |name: &str| {
        let is_listed = list.split(',').any(|listed| listed.trim() == name);
        list.is_empty() || is_listed != is_negative
    };
    let is_past_the_cpu = !may_be("pt2pt") && (may_be("rdma") || may_be("ucx"));
    NeedsTarget {
        put: !is_past_the_cpu,
        get: !is_past_the_cpu,
        atomics: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_window_follows_from_the_components_that_may_serve_it() {
        for (selection, needs_put) in [
            ("sm,pt2pt", true),
            ("^ucx,pt2pt", false),
            ("rdma", false),
            ("ucx", false),
            ("sm, rdma, pt2pt", true),
            ("^rdma", true),
            ("", true),
        ] {
            let needs = of_components(selection);
            assert_eq!(needs.put, needs_put, "{selection:?}");
            assert_eq!(needs.get, needs_put, "{selection:?}");
            assert!(needs.atomics, "{selection:?}");
        }
    }
}
