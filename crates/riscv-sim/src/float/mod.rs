//! Floating-point arithmetic as RISC-V defines it: every rounding mode, every flag, canonical NaNs.
//!
//! Results are computed exactly in integers and rounded once. Where that cannot be told apart from
//! it, the host's own arithmetic does the work: rounding to nearest even, with the inexact flag set
//! already, and a result that is a normal number.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers are taken apart and put together as bits"
)]

mod arith;
mod convert;
mod round;
#[cfg(test)]
mod tests;

pub use arith::{add, div, fused_multiply_add, mul, sqrt, sub};
pub use convert::{Integer, between, from_integer, to_integer};

/// A rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// To nearest, ties to even.
    NearestEven,
    /// Towards zero.
    TowardZero,
    /// Down.
    Down,
    /// Up.
    Up,
    /// To nearest, ties away from zero.
    NearestAway,
}

impl Rounding {
    /// The mode with this number in an instruction or in `frm`.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::NearestEven),
            1 => Some(Self::TowardZero),
            2 => Some(Self::Down),
            3 => Some(Self::Up),
            4 => Some(Self::NearestAway),
            _ => None,
        }
    }
}

/// Inexact.
pub const NX: u8 = 1;
/// Underflow.
pub const UF: u8 = 2;
/// Overflow.
pub const OF: u8 = 4;
/// Division by zero.
pub const DZ: u8 = 8;
/// Invalid operation.
pub const NV: u8 = 16;

/// How to round, and what happened so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Env {
    /// How to round.
    pub rounding: Rounding,
    /// The flags raised: [`NX`], [`UF`], [`OF`], [`DZ`] and [`NV`].
    pub flags: u8,
}

impl Env {
    /// Whether the host's arithmetic may be used.
    const fn is_easy(&self) -> bool {
        matches!(self.rounding, Rounding::NearestEven) && self.flags & NX != 0
    }
}

/// A floating-point format of at most 64 bits.
pub trait Format: Copy {
    /// Bits in all.
    const BITS: u32;
    /// Bits of the significand, with the hidden one.
    const PRECISION: u32;
    /// Host arithmetic on two numbers.
    fn host2(op: Host, a: u64, b: u64) -> u64;
    /// The host's fused multiply and add.
    fn host_fma(a: u64, b: u64, c: u64) -> u64;

    /// The largest exponent of a normal number.
    const EMAX: i32 = (1 << (Self::BITS - Self::PRECISION - 1)) - 1;
    /// The smallest.
    const EMIN: i32 = 1 - Self::EMAX;
    /// The sign bit.
    const SIGN: u64 = 1 << (Self::BITS - 1);
    /// Plus infinity.
    const INFINITY: u64 = (Self::EXPONENT) << (Self::PRECISION - 1);
    /// The quiet NaN that results are.
    const NAN: u64 = Self::INFINITY | (1 << (Self::PRECISION - 2));
    /// The exponent field's largest value.
    const EXPONENT: u64 = (1 << (Self::BITS - Self::PRECISION)) - 1;
    /// The fraction field's largest value.
    const FRACTION: u64 = (1 << (Self::PRECISION - 1)) - 1;
}

/// An operation that the host's arithmetic has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Addition.
    Add,
    /// Subtraction.
    Sub,
    /// Multiplication.
    Mul,
    /// Division.
    Div,
    /// Square root of the first operand.
    Sqrt,
}

/// IEEE binary32.
#[derive(Clone, Copy, Debug)]
pub struct Single;

/// IEEE binary64.
#[derive(Clone, Copy, Debug)]
pub struct Double;

macro_rules! host {
    ($from_bits:expr) => {
        #[inline]
        fn host2(op: Host, a: u64, b: u64) -> u64 {
            let [a, b] = [a, b].map($from_bits);
            let result = match op {
                Host::Add => a + b,
                Host::Sub => a - b,
                Host::Mul => a * b,
                Host::Div => a / b,
                Host::Sqrt => a.sqrt(),
            };
            result.to_bits().into()
        }

        #[inline]
        fn host_fma(a: u64, b: u64, c: u64) -> u64 {
            let [a, b, c] = [a, b, c].map($from_bits);
            a.mul_add(b, c).to_bits().into()
        }
    };
}

impl Format for Single {
    const BITS: u32 = 32;
    const PRECISION: u32 = 24;
    host!(|bits| f32::from_bits(bits as u32));
}

impl Format for Double {
    const BITS: u32 = 64;
    const PRECISION: u32 = 53;
    host!(f64::from_bits);
}

/// A number taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Nan,
    Infinity,
    Zero,
    /// `significand * 2^exponent`, the significand not zero.
    Finite {
        significand: u64,
        exponent: i32,
    },
}

const fn is_negative<F: Format>(bits: u64) -> bool {
    bits & F::SIGN != 0
}

const fn is_nan<F: Format>(bits: u64) -> bool {
    bits & (F::SIGN - 1) > F::INFINITY
}

const fn is_signaling<F: Format>(bits: u64) -> bool {
    is_nan::<F>(bits) && bits & (1 << (F::PRECISION - 2)) == 0
}

/// Whether the host's arithmetic would give this number without an exception other than inexact.
const fn is_normal<F: Format>(bits: u64) -> bool {
    let exponent = (bits >> (F::PRECISION - 1)) & F::EXPONENT;
    exponent > 1 && exponent < F::EXPONENT
}

fn unpack<F: Format>(bits: u64) -> Value {
    let exponent = (bits >> (F::PRECISION - 1)) & F::EXPONENT;
    let fraction = bits & F::FRACTION;
    match (exponent, fraction) {
        (0, 0) => Value::Zero,
        (0, _) => Value::Finite {
            significand: fraction,
            exponent: F::EMIN - (F::PRECISION as i32 - 1),
        },
        (all_ones, 0) if all_ones == F::EXPONENT => Value::Infinity,
        (all_ones, _) if all_ones == F::EXPONENT => Value::Nan,
        _ => Value::Finite {
            significand: fraction | (F::FRACTION + 1),
            exponent: exponent as i32 - F::EMAX - (F::PRECISION as i32 - 1),
        },
    }
}

/// The canonical NaN; raises the invalid flag if an operand is a signaling NaN.
fn propagate<F: Format>(operands: &[u64], env: &mut Env) -> u64 {
    if operands.iter().any(|bits| is_signaling::<F>(*bits)) {
        env.flags |= NV;
    }
    F::NAN
}

fn invalid<F: Format>(env: &mut Env) -> u64 {
    env.flags |= NV;
    F::NAN
}

const fn zero<F: Format>(negative: bool) -> u64 {
    if negative { F::SIGN } else { 0 }
}

const fn infinity<F: Format>(negative: bool) -> u64 {
    F::INFINITY | zero::<F>(negative)
}

/// A number whose order as an integer is that of the floating-point number; both zeros are 0. Not
/// for NaNs.
const fn ordinal<F: Format>(bits: u64) -> i64 {
    let magnitude = (bits & (F::SIGN - 1)).cast_signed();
    if is_negative::<F>(bits) {
        -magnitude
    } else {
        magnitude
    }
}

/// Whether `a == b`. Only signaling NaNs are invalid.
pub fn eq<F: Format>(a: u64, b: u64, env: &mut Env) -> bool {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        propagate::<F>(&[a, b], env);
        return false;
    }
    ordinal::<F>(a) == ordinal::<F>(b)
}

/// Whether `a < b`. Every NaN is invalid.
pub fn lt<F: Format>(a: u64, b: u64, env: &mut Env) -> bool {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        env.flags |= NV;
        return false;
    }
    ordinal::<F>(a) < ordinal::<F>(b)
}

/// Whether `a <= b`. Every NaN is invalid.
pub fn le<F: Format>(a: u64, b: u64, env: &mut Env) -> bool {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        env.flags |= NV;
        return false;
    }
    ordinal::<F>(a) <= ordinal::<F>(b)
}

/// The smaller number; -0 is smaller than 0, and a number is preferred to a NaN.
pub fn min<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    pick::<F>(a, b, env, |a, b| {
        (ordinal::<F>(a), !is_negative::<F>(a)) <= (ordinal::<F>(b), !is_negative::<F>(b))
    })
}

/// The larger number; 0 is larger than -0, and a number is preferred to a NaN.
pub fn max<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    pick::<F>(a, b, env, |a, b| {
        (ordinal::<F>(a), !is_negative::<F>(a)) >= (ordinal::<F>(b), !is_negative::<F>(b))
    })
}

fn pick<F: Format>(a: u64, b: u64, env: &mut Env, first: fn(u64, u64) -> bool) -> u64 {
    match (is_nan::<F>(a), is_nan::<F>(b)) {
        (false, false) => {
            if first(a, b) {
                a
            } else {
                b
            }
        }
        (nan_a, nan_b) => {
            propagate::<F>(&[a, b], env);
            match (nan_a, nan_b) {
                (true, true) => F::NAN,
                (true, false) => b,
                _ => a,
            }
        }
    }
}

/// The class of a number: one bit of ten, as `fclass` gives it.
#[must_use]
pub fn classify<F: Format>(bits: u64) -> u64 {
    let subnormal = (bits >> (F::PRECISION - 1)) & F::EXPONENT == 0;
    let class = match (unpack::<F>(bits), is_negative::<F>(bits)) {
        (Value::Infinity, true) => 0,
        (Value::Finite { .. }, true) if !subnormal => 1,
        (Value::Finite { .. }, true) => 2,
        (Value::Zero, true) => 3,
        (Value::Zero, false) => 4,
        (Value::Finite { .. }, false) if subnormal => 5,
        (Value::Finite { .. }, false) => 6,
        (Value::Infinity, false) => 7,
        (Value::Nan, _) if is_signaling::<F>(bits) => 8,
        (Value::Nan, _) => 9,
    };
    1 << class
}
