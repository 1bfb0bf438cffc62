//! How peers reach this rank's segment: the window, and what MPI is known to do with one.

use std::ffi::CStr;
use std::sync::{Arc, OnceLock};

use pgas_core::backend::NeedsTarget;
use pgas_core::{Error, Rank, Result};
use pgas_smp::Member;

use crate::host::Host;
use crate::session::Session;
use crate::sys::{self, Datatype, Mpi, Op, Window};

/// What MPI is told about the window. Mixed atomics on one word are defined by what libraries add to the standard
/// (MPI-3.1, section 11.7.2): its own key, `accumulate_ops`, has the values `same_op` and `same_op_no_op` only, which promise
/// more than is true here, and others have no meaning that can be relied on. It is left alone.
const HINTS: &[(&CStr, &CStr)] = &[
    // The default: what one rank does to a word is done in its order.
    (c"accumulate_ordering", c"rar,raw,war,waw"),
    // MPICH: what meets on a word. All of it has one executor then: the network if that can do everything that is named,
    // else the progress of the target.
    (
        c"which_accumulate_ops",
        c"cswap,max,min,sum,band,bor,bxor,replace,no_op",
    ),
    // Open MPI: with `true`, also by the user's setting of this name, `ucx` has the network add and swap, and does the
    // rest under a lock that the network knows nothing of.
    (c"acc_single_intrinsic", c"false"),
    // So is every segment, and no table of them is needed.
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

/// What can be known of how MPI serves a window that was made over memory of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nature {
    /// What needs the target inside of MPI.
    pub(crate) needs_target: NeedsTarget,
    /// Whether `MPI_Compare_and_swap` is known to work.
    pub(crate) has_swaps: bool,
}

impl Nature {
    /// Everything needs the target in MPICH, and in Open MPI's component `pt2pt`.
    const MESSAGES: Self = Self {
        needs_target: NeedsTarget::EVERYTHING,
        has_swaps: true,
    };

    pub(crate) fn of(mpi: &Mpi, is_open_mpi: bool) -> Result<Self> {
        // The setting does not change while MPI runs, and Open MPI loads all of its components to answer: fifth parts of a
        // second, most of them naps in the constructor of a network's library.
        static OPEN_MPIS: OnceLock<Nature> = OnceLock::new();
        if !is_open_mpi {
            return Ok(Self::MESSAGES);
        }
        if let Some(known) = OPEN_MPIS.get() {
            return Ok(*known);
        }
        let selection = sys::setting(mpi, c"osc")?;
        let nature = Self::of_components(selection.as_deref().unwrap_or(""));
        Ok(*OPEN_MPIS.get_or_init(|| nature))
    }

    /// By Open MPI's setting `osc`: a list of components, or of those that are left out. Of its components `rdma`,
    /// `ucx` and `pt2pt` have such windows. The first two write and read past the target's CPU. The first one's
    /// compare-and-swap ends in a memory fault where it runs over shared memory (release 4.1, open-mpi/ompi
    /// issues 7027 and 11349).
    fn of_components(selection: &str) -> Self {
        let (is_negative, list) = match selection.trim().strip_prefix('^') {
            Some(list) => (true, list),
            None => (false, selection.trim()),
        };
        let may_be = |name: &str| {
            let is_listed = list.split(',').any(|listed| listed.trim() == name);
            list.is_empty() || is_listed != is_negative
        };
        let (messages, rdma) = (may_be("pt2pt"), may_be("rdma"));
        let is_past_the_cpu = !messages && (rdma || may_be("ucx"));
        Self {
            needs_target: NeedsTarget {
                put: !is_past_the_cpu,
                get: !is_past_the_cpu,
                atomics: true,
            },
            has_swaps: !rdma,
        }
    }
}

/// Whether MPI compares unsigned integers as such, tried on the first word of this rank's segment before anybody
/// else knows of it: MPICH 4.0 takes them for signed ones in `MPI_MIN` and `MPI_MAX`.
pub(crate) fn compares_unsigned(window: &Window, session: &Session) -> Result<bool> {
    let (mpi, rank) = (sys::enter()?, Rank::new(session.rank()));
    let fetch = |by, operand| sys::fetch_first(&mpi, window, rank, by, operand);
    let set = |bits| fetch((Op::Replace, Datatype::uint64()), bits);
    let mut is_right = true;
    for ty in [Datatype::uint32(), Datatype::uint64()] {
        set(u64::MAX)?;
        fetch((Op::Min, ty), 1)?;
        is_right &= set(0)? != u64::MAX;
    }
    Ok(is_right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_window_follows_from_the_components_that_may_serve_it() {
        for (selection, needs_put, has_swaps) in [
            ("sm,pt2pt", true, true),
            ("^ucx,pt2pt", false, false),
            ("rdma", false, false),
            ("ucx", false, true),
            ("sm, rdma, pt2pt", true, false),
            ("^rdma", true, true),
            ("", true, false),
        ] {
            let nature = Nature::of_components(selection);
            assert_eq!(nature.needs_target.put, needs_put, "{selection:?}");
            assert_eq!(nature.needs_target.get, needs_put, "{selection:?}");
            assert!(nature.needs_target.atomics, "{selection:?}");
            assert_eq!(nature.has_swaps, has_swaps, "{selection:?}");
        }
    }
}
