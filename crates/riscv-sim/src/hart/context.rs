//! What the meanings of the instructions are written in: registers, memory, control flow.

use super::csr::{CsrWrite, REGION};
use super::trap::{Break, Cause, Trap};
use super::{Core, Mode, Observer};
use crate::isa::Decoded;
use crate::memory::Ram;
use crate::remote::AtomicOp;

/// A core in the middle of an instruction.
pub(super) struct Context<'a, O> {
    pub(super) core: &'a mut Core,
    pub(super) ram: &'a mut Ram,
    pub(super) observer: &'a mut O,
}

impl<O: Observer> Context<'_, O> {
    #[inline(always)]
    pub(super) fn x(&self, register: u8) -> u64 {
        self.core.x[register as usize]
    }

    /// The register as a signed number.
    #[inline(always)]
    pub(super) fn s(&self, register: u8) -> i64 {
        self.x(register).cast_signed()
    }

    /// The low half of the register.
    #[inline(always)]
    pub(super) fn w(&self, register: u8) -> i32 {
        self.x(register) as i32
    }

    #[inline(always)]
    pub(super) fn set_x(&mut self, register: u8, value: u64) {
        self.core.x[register as usize] = value;
    }

    /// Sets the register to a sign-extended word.
    #[inline(always)]
    pub(super) fn set_w(&mut self, register: u8, value: i32) {
        self.set_x(register, i64::from(value).cast_unsigned());
    }

    #[inline(always)]
    pub(super) fn e(&self, register: u8) -> u64 {
        self.core.e[(register & 31) as usize]
    }

    #[inline(always)]
    pub(super) fn set_e(&mut self, register: u8, value: u64) {
        self.core.e[(register & 31) as usize] = value;
    }

    /// Base register plus immediate.
    #[inline(always)]
    pub(super) fn address(&self, i: &Decoded) -> u64 {
        self.x(i.rs1).wrapping_add(i.imm())
    }

    /// The address of the instruction after this one.
    #[inline(always)]
    pub(super) fn next(&self, i: &Decoded) -> u64 {
        i.pc().wrapping_add(i.n_bytes.into())
    }

    #[inline(always)]
    pub(super) fn load<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Break> {
        self.observer.access(address, N as u64, false);
        let offset = self.ram.offset(address);
        match self.ram.load_at(offset) {
            Some(bytes) => Ok(bytes),
            None => Err(fault(self.ram, offset, Cause::LoadFault)),
        }
    }

    #[inline(always)]
    pub(super) fn store<const N: usize>(
        &mut self,
        address: u64,
        value: [u8; N],
    ) -> Result<(), Break> {
        self.observer.access(address, N as u64, true);
        let offset = self.ram.offset(address);
        if !self.ram.store_at(offset, value) {
            return Err(fault(self.ram, offset, Cause::StoreFault));
        }
        // The upper half of `tohost` written alone asks for nothing yet.
        if offset == self.core.tohost {
            return Err(Break::Host);
        }
        Ok(())
    }

    pub(super) fn aligned(address: u64, n_bytes: u64, cause: Cause) -> Result<(), Break> {
        if address.is_multiple_of(n_bytes) {
            Ok(())
        } else {
            Err(Trap::new(cause, address).into())
        }
    }

    pub(super) fn load_reserved<const N: usize>(&mut self, i: &Decoded) -> Result<(), Break> {
        let address = self.x(i.rs1);
        Self::aligned(address, N as u64, Cause::LoadMisaligned)?;
        let value = signed(self.load::<N>(address)?);
        self.core.reservation = Some((address, N as u64));
        self.set_x(i.rd, value);
        Ok(())
    }

    pub(super) fn store_conditional<const N: usize>(&mut self, i: &Decoded) -> Result<(), Break> {
        let address = self.x(i.rs1);
        Self::aligned(address, N as u64, Cause::StoreMisaligned)?;
        let reserved = self.core.reservation.take() == Some((address, N as u64));
        let mut stored = Ok(());
        if reserved {
            self.core.n_atomics += 1;
            let value = self.x(i.rs2);
            stored = match N {
                4 => self.store(address, (value as u32).to_le_bytes()),
                _ => self.store(address, value.to_le_bytes()),
            };
        } else if !self.ram.contains(address, N as u64) {
            return Err(Trap::new(Cause::StoreFault, address).into());
        }
        self.set_after(stored, i.rd, (!reserved).into())
    }

    pub(super) fn amo_w(&mut self, i: &Decoded, op: AtomicOp) -> Result<(), Break> {
        let address = self.x(i.rs1);
        Self::aligned(address, 4, Cause::StoreMisaligned)?;
        let old = self.atomic_load::<4>(address)?;
        self.core.n_atomics += 1;
        // Sign-extended operands keep their order, signed and unsigned.
        let new = op.apply(signed(old), i64::from(self.w(i.rs2)).cast_unsigned());
        let stored = self.store(address, (new as u32).to_le_bytes());
        self.set_after(stored, i.rd, signed(old))
    }

    pub(super) fn amo_d(&mut self, i: &Decoded, op: AtomicOp) -> Result<(), Break> {
        let address = self.x(i.rs1);
        Self::aligned(address, 8, Cause::StoreMisaligned)?;
        let old = u64::from_le_bytes(self.atomic_load(address)?);
        self.core.n_atomics += 1;
        let stored = self.store(address, op.apply(old, self.x(i.rs2)).to_le_bytes());
        self.set_after(stored, i.rd, old)
    }

    /// Sets the register of an instruction that stored: not if it trapped, but also if it asks the
    /// host for something.
    #[inline(always)]
    pub(super) fn set_after(
        &mut self,
        stored: Result<(), Break>,
        register: u8,
        value: u64,
    ) -> Result<(), Break> {
        if !matches!(stored, Err(Break::Trap(_))) {
            self.set_x(register, value);
        }
        stored
    }

    /// The load of an atomic, whose fault is a store's.
    pub(super) fn atomic_load<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Break> {
        self.observer.access(address, N as u64, false);
        let fault = || Trap::new(Cause::StoreFault, address).into();
        self.ram.load(address).ok_or_else(fault)
    }

    /// Instructions of one core take effect in order, so no fence has anything to do.
    #[inline(always)]
    pub(super) fn fence(&self, _i: &Decoded) {}

    pub(super) fn fence_i(&self, _i: &Decoded) -> Result<u64, Break> {
        Err(Break::FenceI)
    }

    pub(super) fn ecall(&self, _i: &Decoded) -> Result<u64, Break> {
        let cause = match self.core.csrs.mode {
            Mode::User => Cause::UserCall,
            Mode::Machine => Cause::MachineCall,
        };
        Err(Trap::new(cause, 0).into())
    }

    pub(super) fn ebreak(&self, i: &Decoded) -> Result<u64, Break> {
        Err(Trap::new(Cause::Breakpoint, i.pc()).into())
    }

    pub(super) fn mret(&mut self, _i: &Decoded) -> Result<u64, Break> {
        self.privileged()?;
        Ok(self.core.leave_trap())
    }

    pub(super) fn wfi(&self, _i: &Decoded) -> Result<u64, Break> {
        self.privileged()?;
        Err(Break::Wait)
    }

    /// There is no supervisor mode.
    pub(super) fn no_supervisor(&self, _i: &Decoded) -> Result<u64, Break> {
        Err(Trap::ILLEGAL.into())
    }

    fn privileged(&self) -> Result<(), Break> {
        match self.core.csrs.mode {
            Mode::Machine => Ok(()),
            Mode::User => Err(Trap::ILLEGAL.into()),
        }
    }

    pub(super) fn csr(&mut self, i: &Decoded, write: CsrWrite) -> Result<u64, Break> {
        let was_inside = self.core.csrs.region != 0;
        let number = i.imm as u16;
        let old = self.core.csr_access(number, write)?;
        self.set_x(i.rd, old);
        if number == REGION && was_inside != (self.core.csrs.region != 0) {
            return Err(Break::Region);
        }
        Ok(self.next(i))
    }
}

/// There is no memory at an offset. Apart from the access, which so needs the address no more when
/// it has the offset.
#[cold]
#[inline(never)]
fn fault(ram: &Ram, offset: u64, cause: Cause) -> Break {
    Trap::new(cause, ram.start().wrapping_add(offset)).into()
}

/// Little-endian bytes as a sign-extended register.
pub(super) fn signed<const N: usize>(bytes: [u8; N]) -> u64 {
    let fill = if bytes.last().is_some_and(|top| top & 0x80 != 0) {
        0xff
    } else {
        0
    };
    let mut word = [fill; 8];
    for (place, byte) in word.iter_mut().zip(bytes) {
        *place = byte;
    }
    u64::from_le_bytes(word)
}
