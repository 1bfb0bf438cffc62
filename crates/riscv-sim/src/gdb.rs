//! GDB's remote protocol for one node: registers (integer, floating-point, extended, control and status), memory, breakpoints,
//! steps.

use std::collections::BTreeSet;
use std::net::TcpStream;

use gdbstub::common::Signal;
use gdbstub::conn::ConnectionExt;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{GdbStub, SingleThreadStopReason};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::base::singlethread::{
    SingleThreadBase, SingleThreadResume, SingleThreadResumeOps, SingleThreadSingleStep,
    SingleThreadSingleStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, SwBreakpoint, SwBreakpointOps,
};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::riscv::Riscv64;
use gdbstub_arch::riscv::reg::RiscvCoreRegs;
use gdbstub_arch::riscv::reg::id::RiscvRegId;

use crate::disasm::{f_name, x_name};
use crate::error::{Error, Result};
use crate::hart::Cause;
use crate::machine::{Halt, Machine};

/// Lets the debugger at the other end of `connection` run one node until it leaves or the run ends; gives the machine back as it then
/// is.
///
/// # Errors
/// [`Error::Config`] if the connection breaks, or what [`Machine::debug`] gives.
pub fn serve(machine: Machine, node: usize, connection: TcpStream) -> Result<Machine> {
    let mut debugged = Debugged {
        machine,
        node,
        breakpoints: BTreeSet::new(),
        steps: false,
        description: description(),
    };
    match GdbStub::new(connection).run_blocking::<Loop>(&mut debugged) {
        Ok(_) => Ok(debugged.machine),
        Err(why) if why.is_target_error() => {
            let own = why.into_target_error();
            Err(own.unwrap_or_else(|| Error::Config("the debugged node stopped".to_owned())))
        }
        Err(why) => Err(Error::Config(format!("the connection to GDB: {why}"))),
    }
}

struct Debugged {
    machine: Machine,
    node: usize,
    breakpoints: BTreeSet<u64>,
    steps: bool,
    /// The registers, as GDB wants them described.
    description: String,
}

/// The number of control and status register 0 in GDB's counting.
const FIRST_CSR: u16 = 65;

/// GDB counts extended registers like control and status registers from this number on, where there are none of these.
const FIRST_EXTENDED: u16 = 0x8c0;

/// The extended register that stands for that control and status register.
fn extended(number: u16) -> Option<u8> {
    let number = number.checked_sub(FIRST_EXTENDED)?;
    u8::try_from(number).ok().filter(|number| *number < 32)
}

/// Describes all registers that can be asked for.
fn description() -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target version=\"1.0\">\
         <architecture>riscv:rv64</architecture><feature name=\"org.gnu.gdb.riscv.cpu\">",
    );
    let register = |name: &str, kind: &str, number: u16| {
        format!("<reg name=\"{name}\" bitsize=\"64\" type=\"{kind}\" regnum=\"{number}\"/>")
    };
    for number in 0..32_u8 {
        let kind = match number {
            1 => "code_ptr",
            2 | 3 | 4 | 8 => "data_ptr",
            _ => "int",
        };
        text += &register(x_name(number), kind, number.into());
    }
    text += &register("pc", "code_ptr", 32);
    text += "</feature><feature name=\"org.gnu.gdb.riscv.fpu\">";
    for number in 0..32_u8 {
        text += &register(f_name(number), "ieee_double", 33 + u16::from(number));
    }
    for (name, number) in [("fflags", 1), ("frm", 2), ("fcsr", 3)] {
        text += &register(name, "int", FIRST_CSR + number);
    }
    text += "</feature><feature name=\"org.gnu.gdb.riscv.csr\">";
    for (name, number) in CSRS {
        text += &register(name, "int", FIRST_CSR + number);
    }
    text += "</feature><feature name=\"org.xbgas.extended\">";
    for number in 0..32 {
        text += &register(
            &format!("e{number}"),
            "int",
            FIRST_CSR + FIRST_EXTENDED + number,
        );
    }
    text += "</feature></target>";
    text
}

/// The control and status registers that GDB shows.
const CSRS: [(&str, u16); 17] = [
    ("mstatus", 0x300),
    ("misa", 0x301),
    ("mie", 0x304),
    ("mtvec", 0x305),
    ("mcounteren", 0x306),
    ("mscratch", 0x340),
    ("mepc", 0x341),
    ("mcause", 0x342),
    ("mtval", 0x343),
    ("mip", 0x344),
    ("mcycle", 0xb00),
    ("minstret", 0xb02),
    ("cycle", 0xc00),
    ("time", 0xc01),
    ("instret", 0xc02),
    ("mimpid", 0xf13),
    ("mhartid", 0xf14),
];

impl Target for Debugged {
    type Arch = Riscv64;
    type Error = Error;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::SingleThread(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }
}

impl TargetDescriptionXmlOverride for Debugged {
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

impl SingleRegisterAccess<()> for Debugged {
    fn read_register(
        &mut self,
        _tid: (),
        register: RiscvRegId<u64>,
        out: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let hart = self.machine.node_mut(self.node).hart();
        let value = match register {
            RiscvRegId::Gpr(number) => Some(hart.x(number)),
            RiscvRegId::Pc => Some(hart.pc()),
            RiscvRegId::Fpr(number) => Some(hart.f(number)),
            RiscvRegId::Csr(number) => match extended(number) {
                Some(number) => Some(hart.e(number)),
                None => hart.csr(number),
            },
            _ => None,
        };
        let bytes = value.ok_or(TargetError::NonFatal)?.to_le_bytes();
        let place = out.get_mut(..bytes.len()).ok_or(TargetError::NonFatal)?;
        place.copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn write_register(
        &mut self,
        _tid: (),
        register: RiscvRegId<u64>,
        bytes: &[u8],
    ) -> TargetResult<(), Self> {
        let mut value = [0; 8];
        let n_bytes = bytes.len().min(8);
        value[..n_bytes].copy_from_slice(&bytes[..n_bytes]);
        let value = u64::from_le_bytes(value);
        let hart = self.machine.node_mut(self.node).hart_mut();
        match register {
            RiscvRegId::Gpr(number) => hart.set_x(number, value),
            RiscvRegId::Pc => hart.set_pc(value),
            RiscvRegId::Fpr(number) => hart.set_f(number, value),
            RiscvRegId::Csr(number) => match extended(number) {
                Some(number) => hart.set_e(number, value),
                None if hart.set_csr(number, value) => {}
                None => return Err(TargetError::NonFatal),
            },
            _ => return Err(TargetError::NonFatal),
        }
        Ok(())
    }
}

impl SingleThreadBase for Debugged {
    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, (), Self>> {
        Some(self)
    }

    fn read_registers(&mut self, registers: &mut RiscvCoreRegs<u64>) -> TargetResult<(), Self> {
        let hart = self.machine.node_mut(self.node).hart();
        for (number, register) in (0..).zip(&mut registers.x) {
            *register = hart.x(number);
        }
        registers.pc = hart.pc();
        Ok(())
    }

    fn write_registers(&mut self, registers: &RiscvCoreRegs<u64>) -> TargetResult<(), Self> {
        let hart = self.machine.node_mut(self.node).hart_mut();
        for (number, register) in (0..).zip(&registers.x) {
            hart.set_x(number, *register);
        }
        hart.set_pc(registers.pc);
        Ok(())
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8]) -> TargetResult<usize, Self> {
        let ram = self.machine.node_mut(self.node).ram();
        let bytes = ram.slice(start, data.len() as u64);
        data.copy_from_slice(bytes.ok_or(TargetError::NonFatal)?);
        Ok(data.len())
    }

    fn write_addrs(&mut self, start: u64, data: &[u8]) -> TargetResult<(), Self> {
        let node = self.machine.node_mut(self.node);
        let place = node.ram_mut().slice_mut(start, data.len() as u64);
        place.ok_or(TargetError::NonFatal)?.copy_from_slice(data);
        node.hart_mut().forget_code();
        Ok(())
    }

    fn support_resume(&mut self) -> Option<SingleThreadResumeOps<'_, Self>> {
        Some(self)
    }
}

impl SingleThreadResume for Debugged {
    fn resume(&mut self, _signal: Option<Signal>) -> Result<()> {
        self.steps = false;
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<SingleThreadSingleStepOps<'_, Self>> {
        Some(self)
    }
}

impl SingleThreadSingleStep for Debugged {
    fn step(&mut self, _signal: Option<Signal>) -> Result<()> {
        self.steps = true;
        Ok(())
    }
}

impl Breakpoints for Debugged {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debugged {
    fn add_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        self.breakpoints.insert(address);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        Ok(self.breakpoints.remove(&address))
    }
}

impl Debugged {
    /// Runs on; `None` if there is no reason to stop yet.
    fn go_on(&mut self) -> Result<Option<SingleThreadStopReason<u64>>> {
        let halt = self
            .machine
            .debug(self.node, self.steps, &self.breakpoints)?;
        Ok(match halt {
            Halt::Turn if self.steps => Some(SingleThreadStopReason::DoneStep),
            Halt::Turn => None,
            Halt::Breakpoint => Some(SingleThreadStopReason::SwBreak(())),
            Halt::Fault(fault) => Some(SingleThreadStopReason::Signal(match fault.trap.cause {
                Cause::IllegalInstruction => Signal::SIGILL,
                Cause::Breakpoint => Signal::SIGTRAP,
                _ => Signal::SIGSEGV,
            })),
            Halt::Ended { code, .. } => {
                let code = u8::try_from(code).unwrap_or(u8::MAX);
                Some(SingleThreadStopReason::Exited(code))
            }
        })
    }
}

/// Runs the node, and looks between its turns whether the debugger has something to say.
struct Loop;

impl BlockingEventLoop for Loop {
    type Target = Debugged;
    type Connection = TcpStream;
    type StopReason = SingleThreadStopReason<u64>;

    fn wait_for_stop_reason(
        target: &mut Debugged,
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
            if let Some(reason) = target.go_on().map_err(WaitForStopReasonError::Target)? {
                return Ok(Event::TargetStopped(reason));
            }
        }
    }

    fn on_interrupt(_target: &mut Debugged) -> Result<Option<Self::StopReason>> {
        Ok(Some(SingleThreadStopReason::Signal(Signal::SIGINT)))
    }
}
