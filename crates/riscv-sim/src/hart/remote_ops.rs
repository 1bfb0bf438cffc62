//! The remote instructions: object 0 is this node, and done here; any other becomes a request.

use super::context::{Context, signed};
use super::trap::{Break, Cause, Trap};
use super::{Aggregate, CompareSwapForm, Observer};
use crate::isa::Decoded;
use crate::remote::{Action, AtomicOp, Destination, Direction, RemoteRequest, Width};

const fn atomic_width(n_bytes: u64) -> Width {
    if n_bytes == 4 { Width::I32 } else { Width::I64 }
}

impl<O: Observer> Context<'_, O> {
    fn request(
        &mut self,
        object: u64,
        address: u64,
        action: Action,
        destination: Destination,
    ) -> Result<(), Break> {
        self.core.request = Some(RemoteRequest {
            object,
            address,
            action,
            destination,
        });
        Err(Break::Remote)
    }

    fn answer(&mut self, destination: Destination, value: u64) {
        match destination {
            Destination::None => {}
            Destination::Integer(rd) => self.set_x(rd, value),
            Destination::Extended(ed) => self.set_e(ed, value),
        }
    }

    pub(super) fn remote_load(
        &mut self,
        i: &Decoded,
        object: u64,
        address: u64,
        width: Width,
    ) -> Result<(), Break> {
        let destination = match width {
            Width::Extended => Destination::Extended(i.rd),
            _ => Destination::Integer(i.rd),
        };
        if let Some(prefix) = self.core.aggregate {
            return self.move_all(prefix, Direction::Load, (object, address), width);
        }
        // A register takes the low half of sixteen bytes.
        let width = match width {
            Width::Quad => Width::I64,
            width => width,
        };
        if object != 0 {
            Self::aligned(address, width.bytes(), Cause::LoadMisaligned)?;
            return self.request(object, address, Action::Load(width), destination);
        }
        self.observer.access(address, width.bytes(), false);
        let raw = self.ram.read(address, width.bytes());
        let raw = raw.ok_or(Trap::new(Cause::LoadFault, address))?;
        self.answer(destination, width.extend(raw));
        Ok(())
    }

    pub(super) fn remote_store(
        &mut self,
        _i: &Decoded,
        object: u64,
        address: u64,
        value: u64,
        width: Width,
    ) -> Result<(), Break> {
        if let Some(prefix) = self.core.aggregate {
            return self.move_all(prefix, Direction::Store, (object, address), width);
        }
        if object != 0 {
            Self::aligned(address, width.bytes(), Cause::StoreMisaligned)?;
            let action = Action::Store(width, value);
            return self.request(object, address, action, Destination::None);
        }
        match width.bytes() {
            1 => self.store(address, (value as u8).to_le_bytes()),
            2 => self.store(address, (value as u16).to_le_bytes()),
            4 => self.store(address, (value as u32).to_le_bytes()),
            16 => self.store(address, u128::from(value).to_le_bytes()),
            _ => self.store(address, value.to_le_bytes()),
        }
    }

    /// The next remote load or store moves `x[rs1]` elements between the object and this node's
    /// memory from `x[rs2]` on.
    pub(super) fn aggregate(&mut self, i: &Decoded) {
        self.core.aggregate = Some(Aggregate {
            n_elements: self.x(i.rs1),
            local: self.x(i.rs2),
            is_asked: false,
        });
        self.set_x(i.rd, 0);
    }

    /// What a load or store behind `eag` does. It keeps its prefix until it is complete.
    fn move_all(
        &mut self,
        prefix: Aggregate,
        direction: Direction,
        (object, address): (u64, u64),
        width: Width,
    ) -> Result<(), Break> {
        // Sixteen bytes are two words one after the other.
        let (n_elements, width) = match width.bytes() {
            16 => (prefix.n_elements.saturating_mul(2), 8),
            n_bytes => (prefix.n_elements, n_bytes),
        };
        let local = prefix.local;
        Self::both_aligned(direction, local, address, width)?;
        self.core.aggregate = Some(Aggregate {
            is_asked: true,
            ..prefix
        });
        let action = Action::Bulk {
            direction,
            local,
            width,
            n_elements,
            stride: 1,
        };
        self.request(object, address, action, Destination::None)
    }

    pub(super) fn remote_atomic(
        &mut self,
        i: &Decoded,
        op: AtomicOp,
        n_bytes: u64,
    ) -> Result<(), Break> {
        let object = self.e(i.rs1);
        if object == 0 {
            return match n_bytes {
                4 => self.amo_w(i, op),
                _ => self.amo_d(i, op),
            };
        }
        let address = self.x(i.rs1);
        Self::aligned(address, n_bytes, Cause::StoreMisaligned)?;
        let width = atomic_width(n_bytes);
        let action = Action::Atomic(op, width, width.extend(self.x(i.rs2)));
        self.request(object, address, action, Destination::Integer(i.rd))
    }

    pub(super) fn remote_cas(&mut self, i: &Decoded, n_bytes: u64) -> Result<(), Break> {
        let (object, address) = (self.e(i.rs1), self.x(i.rs1));
        let width = atomic_width(n_bytes);
        Self::aligned(address, n_bytes, Cause::StoreMisaligned)?;
        let (expected, new) = match self.core.compare_swap {
            CompareSwapForm::LocalWord => {
                self.observer.access(address, n_bytes, false);
                let local = self.ram.read(address, n_bytes);
                let local = local.ok_or(Trap::new(Cause::StoreFault, address))?;
                (self.x(i.rs2), local)
            }
            CompareSwapForm::Registers => {
                // Register 0 as destination is the sink, which was never read: it stands for 0.
                let expected = if i.rd < 32 { self.x(i.rd) } else { 0 };
                (expected, self.x(i.rs2))
            }
        };
        let (expected, new) = (width.extend(expected), width.extend(new));
        if object != 0 {
            let action = Action::CompareSwap(width, expected, new);
            return self.request(object, address, action, Destination::Integer(i.rd));
        }
        let old = match n_bytes {
            4 => signed(self.atomic_load::<4>(address)?),
            _ => signed(self.atomic_load::<8>(address)?),
        };
        self.core.n_atomics += 1;
        let stored = match n_bytes {
            _ if old != expected => Ok(()),
            4 => self.store(address, (new as u32).to_le_bytes()),
            _ => self.store(address, new.to_le_bytes()),
        };
        self.set_after(stored, i.rd, old)
    }

    pub(super) fn remote_load_reserved(&mut self, i: &Decoded, n_bytes: u64) -> Result<(), Break> {
        let object = self.e(i.rs1);
        if object == 0 {
            return match n_bytes {
                4 => self.load_reserved::<4>(i),
                _ => self.load_reserved::<8>(i),
            };
        }
        let address = self.x(i.rs1);
        Self::aligned(address, n_bytes, Cause::LoadMisaligned)?;
        let action = Action::LoadReserved(atomic_width(n_bytes));
        self.request(object, address, action, Destination::Integer(i.rd))
    }

    pub(super) fn remote_store_conditional(
        &mut self,
        i: &Decoded,
        n_bytes: u64,
    ) -> Result<(), Break> {
        let object = self.e(i.rs1);
        if object == 0 {
            return match n_bytes {
                4 => self.store_conditional::<4>(i),
                _ => self.store_conditional::<8>(i),
            };
        }
        let address = self.x(i.rs1);
        Self::aligned(address, n_bytes, Cause::StoreMisaligned)?;
        let action = Action::StoreConditional(atomic_width(n_bytes), self.x(i.rs2));
        self.request(object, address, action, Destination::Integer(i.rd))
    }

    /// Elements are loaded at one of the two addresses, and stored at the other one.
    fn both_aligned(
        direction: Direction,
        local: u64,
        address: u64,
        width: u64,
    ) -> Result<(), Break> {
        let (from, to) = match direction {
            Direction::Load => (address, local),
            Direction::Store => (local, address),
        };
        Self::aligned(from, width, Cause::LoadMisaligned)?;
        Self::aligned(to, width, Cause::StoreMisaligned)
    }

    /// Moves `x[rs2]` elements, `x[rs3]` elements apart, between `x[rd]` here and `x[rs1]` in the
    /// object of `e[rs1]`.
    pub(super) fn bulk(
        &mut self,
        i: &Decoded,
        direction: Direction,
        width: u64,
    ) -> Result<(), Break> {
        let (local, address) = (self.x(i.rd), self.x(i.rs1));
        Self::both_aligned(direction, local, address, width)?;
        let action = Action::Bulk {
            direction,
            local,
            width,
            n_elements: self.x(i.rs2),
            stride: self.x(i.rs3),
        };
        // Object 0 goes to the machine as well, which moves elements between any two memories.
        self.request(self.e(i.rs1), address, action, Destination::None)
    }
}
