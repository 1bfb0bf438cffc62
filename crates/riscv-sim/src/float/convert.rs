//! Conversions between formats, and from and to integers.

use super::round::{Exact, round, shift_and_round};
use super::{Env, Format, NV, NX, Value, infinity, is_negative, propagate, unpack, zero};

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Integer {
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 64 bits.
    U64,
}

impl Integer {
    const fn range(self) -> (i128, i128) {
        match self {
            Self::I32 => (i32::MIN as i128, i32::MAX as i128),
            Self::U32 => (0, u32::MAX as i128),
            Self::I64 => (i64::MIN as i128, i64::MAX as i128),
            Self::U64 => (0, u64::MAX as i128),
        }
    }

    /// The value of a register as this type.
    const fn read(self, register: u64) -> i128 {
        match self {
            Self::I32 => register as i32 as i128,
            Self::U32 => register as u32 as i128,
            Self::I64 => register as i64 as i128,
            Self::U64 => register as i128,
        }
    }

    /// The register that holds the value: 32-bit results are sign-extended, unsigned ones too.
    const fn write(self, value: i128) -> u64 {
        match self {
            Self::I32 | Self::U32 => (value as i32 as i64).cast_unsigned(),
            Self::I64 | Self::U64 => value as u64,
        }
    }
}

/// The number `bits` of format `From` in format `To`.
pub fn between<From: Format, To: Format>(bits: u64, env: &mut Env) -> u64 {
    let negative = is_negative::<From>(bits);
    match unpack::<From>(bits) {
        Value::Nan => {
            propagate::<From>(&[bits], env);
            To::NAN
        }
        Value::Infinity => infinity::<To>(negative),
        Value::Zero => zero::<To>(negative),
        Value::Finite {
            significand,
            exponent,
        } => {
            let exact = Exact {
                negative,
                significand: significand.into(),
                exponent,
                sticky: false,
            };
            round::<To>(&exact, env)
        }
    }
}

/// A register's integer as a floating-point number.
pub fn from_integer<F: Format>(register: u64, kind: Integer, env: &mut Env) -> u64 {
    let value = kind.read(register);
    if value == 0 {
        return 0;
    }
    let exact = Exact {
        negative: value < 0,
        significand: value.unsigned_abs(),
        exponent: 0,
        sticky: false,
    };
    round::<F>(&exact, env)
}

/// A floating-point number as a register's integer. What does not fit is invalid and gives the
/// nearest end of the range; a NaN gives the upper end.
pub fn to_integer<F: Format>(bits: u64, kind: Integer, env: &mut Env) -> u64 {
    let (low, high) = kind.range();
    let negative = is_negative::<F>(bits);
    let (value, inexact) = match unpack::<F>(bits) {
        Value::Nan => (i128::MAX, false),
        Value::Infinity if negative => (i128::MIN, false),
        Value::Infinity => (i128::MAX, false),
        Value::Zero => (0, false),
        Value::Finite { exponent, .. } if exponent > 64 => {
            (if negative { i128::MIN } else { i128::MAX }, false)
        }
        Value::Finite {
            significand,
            exponent,
        } => {
            let exact = Exact {
                negative,
                significand: significand.into(),
                exponent,
                sticky: false,
            };
            let (magnitude, inexact) = shift_and_round(&exact, -exponent, env.rounding);
            let magnitude = magnitude.cast_signed();
            (if negative { -magnitude } else { magnitude }, inexact)
        }
    };
    if value < low || value > high {
        env.flags |= NV;
        return kind.write(value.clamp(low, high));
    }
    if inexact {
        env.flags |= NX;
    }
    kind.write(value)
}
