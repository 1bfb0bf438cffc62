//! Breakpoints and watchpoints, which hold on all nodes.

use gdbstub::target::TargetResult;
use gdbstub::target::ext::breakpoints::{
    Breakpoints, HwWatchpoint, HwWatchpointOps, SwBreakpoint, SwBreakpointOps, WatchKind,
};

use super::Stub;
use crate::machine::{Debugger, Watched, Watchpoint};

impl Breakpoints for Stub<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Stub<'_> {
    fn add_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        self.debugger().add_breakpoint(address);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        Ok(self.debugger().remove_breakpoint(address))
    }
}

impl HwWatchpoint for Stub<'_> {
    fn add_hw_watchpoint(
        &mut self,
        address: u64,
        n_bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let watchpoint = watchpoint(address, n_bytes, kind);
        self.debugger().add_watchpoint(watchpoint);
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        n_bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let watchpoint = watchpoint(address, n_bytes, kind);
        Ok(self.debugger().remove_watchpoint(watchpoint))
    }
}

impl Stub<'_> {
    fn debugger(&mut self) -> &mut Debugger {
        let debugger = self.run.machine_mut().debugger_mut();
        debugger.expect("serve has set one")
    }
}

const fn watchpoint(address: u64, n_bytes: u64, kind: WatchKind) -> Watchpoint {
    Watchpoint {
        address,
        n_bytes,
        watched: match kind {
            WatchKind::Write => Watched::Writes,
            WatchKind::Read => Watched::Reads,
            WatchKind::ReadWrite => Watched::All,
        },
    }
}

/// What GDB calls the accesses that a watchpoint is for.
pub(super) const fn kind_of(watched: Watched) -> WatchKind {
    match watched {
        Watched::Writes => WatchKind::Write,
        Watched::Reads => WatchKind::Read,
        Watched::All => WatchKind::ReadWrite,
    }
}
