//! GDB's remote protocol for a machine: each core is a thread, with the memory of its node. Cores
//! stop together, and breakpoints and watchpoints hold on all nodes.
//!
//! A watchpoint is for accesses of a node's own cores, and for what comes through the network: the
//! thread that stops is one of the node whose memory it is, and `monitor who` names the core that
//! did it. What a host call or a system call reads or writes is not watched.

mod registers;
mod stops;
mod threads;

use std::net::TcpStream;

use gdbstub::common::{Signal, Tid};
use gdbstub::conn::ConnectionExt;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::breakpoints::BreakpointsOps;
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps, outputln};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::riscv::Riscv64;

use crate::error::{Error, Result};
use crate::hart::Cause;
use crate::machine::{Access, Debugger, Halt, Machine, Place};
use crate::timed::simulation::Simulation;
use crate::timed::time::Time;

/// What is run between two looks at what GDB says.
const STEP: u64 = 100_000;
const STEP_TIME: Time = Time::from_ns(10_000);

/// What GDB can run: a machine without a clock, or a timed one.
pub trait Debugged {
    /// The guests.
    fn machine(&self) -> &Machine;

    /// The guests, to be changed.
    fn machine_mut(&mut self) -> &mut Machine;

    /// Runs for a while, or until the machine's debugger halts it; if `only` names cores, the
    /// others stand still where that can be.
    ///
    /// # Errors
    /// What ends the run.
    fn go_on(&mut self, only: &[Place]) -> Result<Option<Halt>>;
}

impl Debugged for Machine {
    fn machine(&self) -> &Machine {
        self
    }

    fn machine_mut(&mut self) -> &mut Machine {
        self
    }

    fn go_on(&mut self, only: &[Place]) -> Result<Option<Halt>> {
        self.debug_some(STEP, only)
    }
}

/// Time passes for all cores. A core that is stepped alone runs first, and the others only as far
/// as its instruction needs.
impl Debugged for Simulation {
    fn machine(&self) -> &Machine {
        self.machine()
    }

    fn machine_mut(&mut self) -> &mut Machine {
        self.machine_mut()
    }

    fn go_on(&mut self, only: &[Place]) -> Result<Option<Halt>> {
        self.debug_for(STEP_TIME, only.first().copied())
    }
}

/// Lets the debugger at the other end of `connection` run the machine until it leaves or the run
/// ends. `node` is the one that it sees first. Says whether the run is to go on without it.
///
/// # Errors
/// [`Error::Config`] if the connection breaks, or what ends the run.
///
/// # Panics
/// If there is no such node.
pub fn serve(run: &mut dyn Debugged, node: usize, connection: TcpStream) -> Result<bool> {
    run.machine_mut().set_debugger(Some(Debugger::default()));
    let n_cores = run.machine().nodes()[node].n_cores();
    let mut stub = Stub {
        run,
        n_cores,
        first: Place { node, core: 0 },
        resumes: threads::Resumes::default(),
        last_access: None,
        description: registers::description(),
    };
    let left = GdbStub::new(connection).run_blocking::<Loop<'_>>(&mut stub);
    run.machine_mut().set_debugger(None);
    match left {
        Ok(DisconnectReason::Kill) => Ok(false),
        Ok(_) => Ok(true),
        Err(why) if why.is_target_error() => {
            let own = why.into_target_error();
            Err(own.unwrap_or_else(|| Error::Config("the debugged machine stopped".to_owned())))
        }
        Err(why) => Err(Error::Config(format!("the connection to GDB: {why}"))),
    }
}

/// What GDB's requests are answered from.
struct Stub<'a> {
    run: &'a mut dyn Debugged,
    n_cores: usize,
    /// The core that is shown first.
    first: Place,
    resumes: threads::Resumes,
    last_access: Option<Access>,
    /// The registers, as GDB wants them described.
    description: String,
}

impl Target for Stub<'_> {
    type Arch = Riscv64;
    type Error = Error;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }
}

impl TargetDescriptionXmlOverride for Stub<'_> {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        out: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.description.as_bytes().get(offset..).unwrap_or(&[]);
        let n_bytes = rest.len().min(length).min(out.len());
        out[..n_bytes].copy_from_slice(&rest[..n_bytes]);
        Ok(n_bytes)
    }
}

impl MonitorCmd for Stub<'_> {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> Result<()> {
        match command {
            b"who" => match self.last_access {
                Some(access) => outputln!(out, "{}", told(&access)),
                None => outputln!(out, "no watchpoint has been met"),
            },
            b"nodes" => {
                for (number, node) in self.run.machine().nodes().iter().enumerate() {
                    let n_instructions = node.n_instructions();
                    match node.exit_code() {
                        Some(code) => outputln!(out, "node {number}: ended with code {code}"),
                        None => outputln!(out, "node {number}: {n_instructions} instructions"),
                    }
                }
            }
            _ => {
                outputln!(
                    out,
                    "monitor who: which core met the last watchpoint, and where"
                );
                outputln!(out, "monitor nodes: what each node has done");
            }
        }
        Ok(())
    }
}

/// An access, for people.
fn told(access: &Access) -> String {
    let Access {
        node,
        by,
        writes,
        address,
        n_bytes,
        ..
    } = access;
    let verb = if *writes { "wrote" } else { "read" };
    let Place { node: other, core } = by;
    format!("node {other}, core {core}, {verb} {n_bytes} bytes at {address:#x} of node {node}")
}

impl Stub<'_> {
    /// Runs on; `None` if there is no reason to stop yet.
    fn go_on(&mut self) -> Result<Option<MultiThreadStopReason<u64>>> {
        let halt = self.run.go_on(self.resumes.only())?;
        Ok(match halt {
            Some(halt) => Some(self.reason(halt)),
            None if self.stepped_to_its_end() => {
                let (tid, signal) = (self.any_thread(), Signal::SIGTRAP);
                Some(MultiThreadStopReason::SignalWithThread { tid, signal })
            }
            None => None,
        })
    }

    /// The core that does one instruction never will: its node has ended.
    fn stepped_to_its_end(&self) -> bool {
        let step = self.resumes.step();
        step.is_some_and(|place| self.has_ended(place))
    }

    fn has_ended(&self, Place { node, .. }: Place) -> bool {
        self.run.machine().nodes()[node].exit_code().is_some()
    }

    /// What GDB is told of a halt.
    fn reason(&mut self, halt: Halt) -> MultiThreadStopReason<u64> {
        match halt {
            Halt::Stepped(place) => MultiThreadStopReason::SignalWithThread {
                tid: self.thread(place),
                signal: Signal::SIGTRAP,
            },
            Halt::Breakpoint(place) => MultiThreadStopReason::SwBreak(self.thread(place)),
            Halt::Watchpoint(access) => {
                self.last_access = Some(access);
                // GDB looks at the memory of the thread that it is told of.
                let Access { node, by, .. } = access;
                let core = if by.node == node { by.core } else { 0 };
                MultiThreadStopReason::Watch {
                    tid: self.thread(Place { node, core }),
                    kind: stops::kind_of(access.watchpoint.watched),
                    addr: access.watchpoint.address,
                }
            }
            Halt::Fault(fault) => MultiThreadStopReason::SignalWithThread {
                tid: self.thread(Place {
                    node: fault.node,
                    core: fault.core,
                }),
                signal: match fault.trap.cause {
                    Cause::IllegalInstruction => Signal::SIGILL,
                    Cause::Breakpoint => Signal::SIGTRAP,
                    _ => Signal::SIGSEGV,
                },
            },
            Halt::Ended { code, .. } => {
                MultiThreadStopReason::Exited(u8::try_from(code).unwrap_or(u8::MAX))
            }
        }
    }

    /// A core that has not ended, the one that is shown first if it can be.
    fn any_thread(&self) -> Tid {
        let mut threads = self.places().filter(|place| !self.has_ended(*place));
        let place = threads.next().unwrap_or(self.first);
        self.thread(place)
    }
}

/// Runs the machine, and looks now and then whether the debugger has something to say.
struct Loop<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> BlockingEventLoop for Loop<'a> {
    type Target = Stub<'a>;
    type Connection = TcpStream;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        stub: &mut Stub<'a>,
        connection: &mut TcpStream,
    ) -> Result<Event<Self::StopReason>, WaitForStopReasonError<Error, std::io::Error>> {
        loop {
            let peeked = ConnectionExt::peek(connection);
            if peeked
                .map_err(WaitForStopReasonError::Connection)?
                .is_some()
            {
                let byte = ConnectionExt::read(connection);
                let byte = byte.map_err(WaitForStopReasonError::Connection)?;
                return Ok(Event::IncomingData(byte));
            }
            if let Some(reason) = stub.go_on().map_err(WaitForStopReasonError::Target)? {
                return Ok(Event::TargetStopped(reason));
            }
        }
    }

    fn on_interrupt(stub: &mut Stub<'a>) -> Result<Option<Self::StopReason>> {
        let (tid, signal) = (stub.any_thread(), Signal::SIGINT);
        Ok(Some(MultiThreadStopReason::SignalWithThread {
            tid,
            signal,
        }))
    }
}
