//! Cores as GDB's threads: their registers, the memory of their nodes, and which of them run.

use gdbstub::common::{Signal, Tid};
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{TargetError, TargetResult};
use gdbstub_arch::riscv::reg::RiscvCoreRegs;
use gdbstub_arch::riscv::reg::id::RiscvRegId;

use super::{Stub, registers};
use crate::error::Result;
use crate::hart::Hart;
use crate::machine::Place;

/// How GDB wants the cores to go on.
#[derive(Debug, Default)]
pub(super) struct Resumes {
    /// One that does a single instruction.
    step: Option<Place>,
    /// Those that are named.
    named: Vec<Place>,
    /// The others stand still.
    is_locked: bool,
}

impl Resumes {
    pub(super) const fn step(&self) -> Option<Place> {
        self.step
    }

    /// The cores that alone run; all do if it names none.
    pub(super) fn only(&self) -> &[Place] {
        if self.is_locked { &self.named } else { &[] }
    }
}

impl Stub<'_> {
    /// The number of a core's thread; none is 0.
    pub(super) fn thread(&self, Place { node, core }: Place) -> Tid {
        Tid::MIN.saturating_add(node * self.n_cores + core)
    }

    /// The core of a thread, if there is one.
    fn place(&self, thread: Tid) -> Option<Place> {
        let number = thread.get() - 1;
        let (node, core) = (number / self.n_cores, number % self.n_cores);
        (node < self.run.machine().nodes().len()).then_some(Place { node, core })
    }

    /// All cores, the one that is shown first before the others.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let (first, n_cores) = (self.first, self.n_cores);
        let nodes = 0..self.run.machine().nodes().len();
        let all = nodes.flat_map(move |node| (0..n_cores).map(move |core| Place { node, core }));
        std::iter::once(first).chain(all.filter(move |place| *place != first))
    }

    fn hart(&self, thread: Tid) -> TargetResult<&Hart, Self> {
        let Place { node, core } = self.place(thread).ok_or(TargetError::NonFatal)?;
        Ok(&self.run.machine().nodes()[node].harts()[core])
    }

    fn hart_mut(&mut self, thread: Tid) -> TargetResult<&mut Hart, Self> {
        let Place { node, core } = self.place(thread).ok_or(TargetError::NonFatal)?;
        Ok(self.run.machine_mut().hart_and_ram(node, core).0)
    }
}

impl SingleRegisterAccess<Tid> for Stub<'_> {
    fn read_register(
        &mut self,
        thread: Tid,
        register: RiscvRegId<u64>,
        out: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let value = registers::read(self.hart(thread)?, register);
        let bytes = value.ok_or(TargetError::NonFatal)?.to_le_bytes();
        let place = out.get_mut(..bytes.len()).ok_or(TargetError::NonFatal)?;
        place.copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn write_register(
        &mut self,
        thread: Tid,
        register: RiscvRegId<u64>,
        bytes: &[u8],
    ) -> TargetResult<(), Self> {
        let mut value = [0; 8];
        let n_bytes = bytes.len().min(8);
        value[..n_bytes].copy_from_slice(&bytes[..n_bytes]);
        let hart = self.hart_mut(thread)?;
        if registers::write(hart, register, u64::from_le_bytes(value)) {
            return Ok(());
        }
        Err(TargetError::NonFatal)
    }
}

impl MultiThreadBase for Stub<'_> {
    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_registers(
        &mut self,
        registers: &mut RiscvCoreRegs<u64>,
        thread: Tid,
    ) -> TargetResult<(), Self> {
        let hart = self.hart(thread)?;
        for (number, register) in (0..).zip(&mut registers.x) {
            *register = hart.x(number);
        }
        registers.pc = hart.pc();
        Ok(())
    }

    fn write_registers(
        &mut self,
        registers: &RiscvCoreRegs<u64>,
        thread: Tid,
    ) -> TargetResult<(), Self> {
        let hart = self.hart_mut(thread)?;
        for (number, register) in (0..).zip(&registers.x) {
            hart.set_x(number, *register);
        }
        hart.set_pc(registers.pc);
        Ok(())
    }

    fn read_addrs(
        &mut self,
        start: u64,
        data: &mut [u8],
        thread: Tid,
    ) -> TargetResult<usize, Self> {
        let Place { node, .. } = self.place(thread).ok_or(TargetError::NonFatal)?;
        let ram = self.run.machine().nodes()[node].ram();
        let bytes = ram.slice(start, data.len() as u64);
        data.copy_from_slice(bytes.ok_or(TargetError::NonFatal)?);
        Ok(data.len())
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], thread: Tid) -> TargetResult<(), Self> {
        let Place { node, .. } = self.place(thread).ok_or(TargetError::NonFatal)?;
        let machine = self.run.machine_mut();
        let (_, ram) = machine.hart_and_ram(node, 0);
        let place = ram.slice_mut(start, data.len() as u64);
        place.ok_or(TargetError::NonFatal)?.copy_from_slice(data);
        for core in 0..self.n_cores {
            machine.hart_and_ram(node, core).0.forget_code();
        }
        Ok(())
    }

    fn list_active_threads(&mut self, is_active: &mut dyn FnMut(Tid)) -> Result<()> {
        for place in self.places().filter(|place| !self.has_ended(*place)) {
            is_active(self.thread(place));
        }
        Ok(())
    }

    fn is_thread_alive(&mut self, thread: Tid) -> Result<bool> {
        let place = self.place(thread);
        Ok(place.is_some_and(|place| !self.has_ended(place)))
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for Stub<'_> {
    fn thread_extra_info(&self, thread: Tid, out: &mut [u8]) -> Result<usize> {
        let text = match self.place(thread) {
            None => String::new(),
            Some(Place { node, .. }) if self.n_cores == 1 => format!("node {node}"),
            Some(Place { node, core }) => format!("node {node}, core {core}"),
        };
        let n_bytes = text.len().min(out.len());
        out[..n_bytes].copy_from_slice(&text.as_bytes()[..n_bytes]);
        Ok(n_bytes)
    }
}

impl MultiThreadResume for Stub<'_> {
    fn resume(&mut self) -> Result<()> {
        let step = self.resumes.step;
        if let Some(debugger) = self.run.machine_mut().debugger_mut() {
            debugger.resume(step);
        }
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<()> {
        self.resumes = Resumes::default();
        Ok(())
    }

    fn set_resume_action_continue(&mut self, thread: Tid, _signal: Option<Signal>) -> Result<()> {
        self.resumes.named.extend(self.place(thread));
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Stub<'_> {
    fn set_resume_action_step(&mut self, thread: Tid, _signal: Option<Signal>) -> Result<()> {
        self.resumes.step = self.place(thread);
        self.resumes.named.extend(self.resumes.step);
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Stub<'_> {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<()> {
        self.resumes.is_locked = true;
        Ok(())
    }
}
