//! The floating-point instructions: registers, boxed single precision, rounding modes and flags
//! around `float`.

use super::Observer;
use super::context::Context;
use super::trap::{Break, Trap};
use crate::float::{self, Double, Env, Format, Integer, Rounding, Single};
use crate::isa::Decoded;

/// A format as it lies in the 64-bit registers.
pub(super) trait Boxed: Format {
    /// The number in a register; a single that is not boxed is a NaN.
    fn unboxed(register: u64) -> u64;
    /// The register that holds the number.
    fn boxed(bits: u64) -> u64;
}

const BOX: u64 = 0xffff_ffff_0000_0000;

impl Boxed for Single {
    fn unboxed(register: u64) -> u64 {
        if register & BOX == BOX {
            register & !BOX
        } else {
            Self::NAN
        }
    }

    fn boxed(bits: u64) -> u64 {
        bits | BOX
    }
}

impl Boxed for Double {
    fn unboxed(register: u64) -> u64 {
        register
    }

    fn boxed(bits: u64) -> u64 {
        bits
    }
}

impl<O: Observer> Context<'_, O> {
    pub(super) fn f(&self, register: u8) -> u64 {
        self.core.f[(register & 31) as usize]
    }

    pub(super) fn set_fs(&mut self, register: u8, bits: u32) {
        self.core.f[(register & 31) as usize] = Single::boxed(bits.into());
    }

    pub(super) fn set_fd(&mut self, register: u8, bits: u64) {
        self.core.f[(register & 31) as usize] = bits;
    }

    /// Traps if floating point is off.
    #[inline(always)]
    pub(super) fn check_fp(&self, _i: &Decoded) -> Result<(), Break> {
        if self.core.csrs.has_fp() {
            Ok(())
        } else {
            Err(Trap::ILLEGAL.into())
        }
    }

    /// The environment of an instruction without a rounding mode.
    fn env(&self, i: &Decoded) -> Result<Env, Break> {
        self.check_fp(i)?;
        let (rounding, flags) = (Rounding::NearestEven, self.core.csrs.fflags);
        Ok(Env { rounding, flags })
    }

    /// The environment of an instruction with one, static or dynamic.
    fn rounding_env(&self, i: &Decoded) -> Result<Env, Break> {
        let bits = match i.rm {
            7 => self.core.csrs.frm,
            bits => bits,
        };
        let rounding = Rounding::from_bits(bits).ok_or(Trap::ILLEGAL)?;
        Ok(Env {
            rounding,
            ..self.env(i)?
        })
    }

    fn operand<F: Boxed>(&self, register: u8) -> u64 {
        F::unboxed(self.f(register))
    }

    fn finish<F: Boxed>(&mut self, i: &Decoded, result: u64, env: Env) -> Result<(), Break> {
        self.core.csrs.fflags = env.flags;
        self.set_fd(i.rd, F::boxed(result));
        Ok(())
    }

    #[inline(always)]
    pub(super) fn binary<F: Boxed>(
        &mut self,
        i: &Decoded,
        op: impl Fn(u64, u64, &mut Env) -> u64,
    ) -> Result<(), Break> {
        let mut env = self.rounding_env(i)?;
        let result = op(self.operand::<F>(i.rs1), self.operand::<F>(i.rs2), &mut env);
        self.finish::<F>(i, result, env)
    }

    pub(super) fn unary<F: Boxed>(&mut self, i: &Decoded) -> Result<(), Break> {
        let mut env = self.rounding_env(i)?;
        let result = float::sqrt::<F>(self.operand::<F>(i.rs1), &mut env);
        self.finish::<F>(i, result, env)
    }

    /// `rs1 * rs2 + rs3`, with the product's and the addend's sign turned as asked.
    pub(super) fn fused<F: Boxed>(
        &mut self,
        i: &Decoded,
        negate_product: bool,
        negate_addend: bool,
    ) -> Result<(), Break> {
        let mut env = self.rounding_env(i)?;
        let sign = |negate: bool| if negate { F::SIGN } else { 0 };
        let a = self.operand::<F>(i.rs1) ^ sign(negate_product);
        let c = self.operand::<F>(i.rs3) ^ sign(negate_addend);
        let result = float::fused_multiply_add::<F>(a, self.operand::<F>(i.rs2), c, &mut env);
        self.finish::<F>(i, result, env)
    }

    /// `rs1` with the sign that `choose` makes of the signs of `rs1` and `rs2`.
    pub(super) fn sign_inject<F: Boxed>(
        &mut self,
        i: &Decoded,
        choose: impl Fn(bool, bool) -> bool,
    ) -> Result<(), Break> {
        let env = self.env(i)?;
        let (a, b) = (self.operand::<F>(i.rs1), self.operand::<F>(i.rs2));
        let sign = choose(a & F::SIGN != 0, b & F::SIGN != 0);
        let result = (a & !F::SIGN) | if sign { F::SIGN } else { 0 };
        self.finish::<F>(i, result, env)
    }

    pub(super) fn min_max<F: Boxed>(
        &mut self,
        i: &Decoded,
        op: impl Fn(u64, u64, &mut Env) -> u64,
    ) -> Result<(), Break> {
        let mut env = self.env(i)?;
        let result = op(self.operand::<F>(i.rs1), self.operand::<F>(i.rs2), &mut env);
        self.finish::<F>(i, result, env)
    }

    pub(super) fn compare<F: Boxed>(
        &mut self,
        i: &Decoded,
        op: impl Fn(u64, u64, &mut Env) -> bool,
    ) -> Result<(), Break> {
        let mut env = self.env(i)?;
        let result = op(self.operand::<F>(i.rs1), self.operand::<F>(i.rs2), &mut env);
        self.core.csrs.fflags = env.flags;
        self.set_x(i.rd, result.into());
        Ok(())
    }

    pub(super) fn classify<F: Boxed>(&mut self, i: &Decoded) -> Result<(), Break> {
        self.check_fp(i)?;
        self.set_x(i.rd, float::classify::<F>(self.operand::<F>(i.rs1)));
        Ok(())
    }

    pub(super) fn convert<From: Boxed, To: Boxed>(&mut self, i: &Decoded) -> Result<(), Break> {
        let mut env = self.rounding_env(i)?;
        let result = float::between::<From, To>(self.operand::<From>(i.rs1), &mut env);
        self.finish::<To>(i, result, env)
    }

    pub(super) fn convert_to_integer<F: Boxed>(
        &mut self,
        i: &Decoded,
        kind: Integer,
    ) -> Result<(), Break> {
        let mut env = self.rounding_env(i)?;
        let result = float::to_integer::<F>(self.operand::<F>(i.rs1), kind, &mut env);
        self.core.csrs.fflags = env.flags;
        self.set_x(i.rd, result);
        Ok(())
    }

    pub(super) fn convert_from_integer<F: Boxed>(
        &mut self,
        i: &Decoded,
        kind: Integer,
    ) -> Result<(), Break> {
        let mut env = self.rounding_env(i)?;
        let result = float::from_integer::<F>(self.x(i.rs1), kind, &mut env);
        self.finish::<F>(i, result, env)
    }
}
