//! The one place where numbers are rounded.

use super::{Env, Format, NX, OF, Rounding, UF, infinity, zero};

/// An exact number: `(significand + a bit) * 2^exponent`, the bit there if `sticky`, more than
/// nothing and less than one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    pub(super) negative: bool,
    pub(super) significand: u128,
    pub(super) exponent: i32,
    pub(super) sticky: bool,
}

/// Whether what was cut off lifts the significand by one.
pub(super) const fn rounds_up(
    rounding: Rounding,
    negative: bool,
    odd: bool,
    half: bool,
    rest: bool,
) -> bool {
    match rounding {
        Rounding::NearestEven => half && (rest || odd),
        Rounding::NearestAway => half,
        Rounding::TowardZero => false,
        Rounding::Down => negative && (half || rest),
        Rounding::Up => !negative && (half || rest),
    }
}

/// The significand without its `drop` low bits, rounded, and whether that was inexact. A `sticky`
/// number must have a bit to drop.
pub(super) fn shift_and_round(exact: &Exact, drop: i32, rounding: Rounding) -> (u128, bool) {
    let Exact {
        negative,
        significand,
        sticky,
        ..
    } = *exact;
    if drop <= 0 {
        return (significand << drop.unsigned_abs(), false);
    }
    let drop = drop.unsigned_abs();
    let (kept, half, rest) = if drop > 128 {
        (0, false, true)
    } else {
        let kept = significand.checked_shr(drop).unwrap_or(0);
        let half = significand >> (drop - 1) & 1 != 0;
        let below = significand & ((1 << (drop - 1)) - 1);
        (kept, half, below != 0 || sticky)
    };
    let up = rounds_up(rounding, negative, kept & 1 != 0, half, rest);
    (kept + u128::from(up), half || rest)
}

/// Rounds to a format. The significand must not be zero.
pub(super) fn round<F: Format>(exact: &Exact, env: &mut Env) -> u64 {
    let top = 127 - exact.significand.leading_zeros().cast_signed() + exact.exponent;
    let last = |exponent: i32| exponent - (F::PRECISION.cast_signed() - 1);
    let exponent = top.max(F::EMIN);
    let drop = last(exponent) - exact.exponent;
    let (kept, inexact) = shift_and_round(exact, drop, env.rounding);
    if inexact {
        env.flags |= NX;
        // Tiny is what would still be too small if the exponent had no limit.
        let tiny = top < F::EMIN && {
            let (unlimited, _) = shift_and_round(exact, last(top) - exact.exponent, env.rounding);
            top < F::EMIN - 1 || unlimited >> F::PRECISION == 0
        };
        if tiny {
            env.flags |= UF;
        }
    }
    // A carry out of the significand, and out of the subnormal numbers, is an addition to the
    // exponent.
    let hidden = 1_u128 << (F::PRECISION - 1);
    let biased = if kept < hidden {
        kept
    } else {
        let exponent = (exponent + F::EMAX - 1).cast_unsigned();
        (u128::from(exponent) << (F::PRECISION - 1)) + kept
    };
    if biased >= F::INFINITY.into() {
        env.flags |= OF | NX;
        let away = match env.rounding {
            Rounding::NearestEven | Rounding::NearestAway => true,
            Rounding::TowardZero => false,
            Rounding::Down => exact.negative,
            Rounding::Up => !exact.negative,
        };
        return infinity::<F>(exact.negative) - u64::from(!away);
    }
    biased as u64 | zero::<F>(exact.negative)
}
