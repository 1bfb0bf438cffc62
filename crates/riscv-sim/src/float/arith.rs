//! Addition, multiplication, division, square root, and multiply and add at once.

use super::round::{Exact, round};
use super::{
    DZ, Env, Format, Host, Rounding, Value, infinity, invalid, is_nan, is_negative, is_normal,
    propagate, unpack, zero,
};

/// `a + b`
pub fn add<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    easy::<F>(Host::Add, a, b, env).unwrap_or_else(|| exact_add::<F>(a, b, env))
}

/// `a - b`
pub fn sub<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    easy::<F>(Host::Sub, a, b, env).unwrap_or_else(|| {
        let negated = if is_nan::<F>(b) { b } else { b ^ F::SIGN };
        exact_add::<F>(a, negated, env)
    })
}

/// `a * b`
pub fn mul<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    easy::<F>(Host::Mul, a, b, env).unwrap_or_else(|| {
        let negative = is_negative::<F>(a) != is_negative::<F>(b);
        match (unpack::<F>(a), unpack::<F>(b)) {
            (Value::Nan, _) | (_, Value::Nan) => propagate::<F>(&[a, b], env),
            (Value::Infinity, Value::Zero) | (Value::Zero, Value::Infinity) => invalid::<F>(env),
            (Value::Infinity, _) | (_, Value::Infinity) => infinity::<F>(negative),
            (Value::Zero, _) | (_, Value::Zero) => zero::<F>(negative),
            (
                Value::Finite {
                    significand: m,
                    exponent: p,
                },
                Value::Finite {
                    significand: n,
                    exponent: q,
                },
            ) => {
                let product = Exact {
                    negative,
                    significand: u128::from(m) * u128::from(n),
                    exponent: p + q,
                    sticky: false,
                };
                round::<F>(&product, env)
            }
        }
    })
}

/// `a / b`
pub fn div<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    easy::<F>(Host::Div, a, b, env).unwrap_or_else(|| {
        let negative = is_negative::<F>(a) != is_negative::<F>(b);
        match (unpack::<F>(a), unpack::<F>(b)) {
            (Value::Nan, _) | (_, Value::Nan) => propagate::<F>(&[a, b], env),
            (Value::Infinity, Value::Infinity) | (Value::Zero, Value::Zero) => invalid::<F>(env),
            (Value::Infinity, _) => infinity::<F>(negative),
            (Value::Zero, _) | (_, Value::Infinity) => zero::<F>(negative),
            (_, Value::Zero) => {
                env.flags |= DZ;
                infinity::<F>(negative)
            }
            (
                Value::Finite {
                    significand: m,
                    exponent: p,
                },
                Value::Finite {
                    significand: n,
                    exponent: q,
                },
            ) => {
                let (m, p) = normalized(m, p);
                let (n, q) = normalized(n, q);
                // Both have 64 bits, so the quotient has 63 or 64: enough to drop some.
                let (dividend, divisor) = (u128::from(m) << 63, u128::from(n));
                let quotient = dividend / divisor;
                let sticky = quotient * divisor != dividend;
                round::<F>(
                    &Exact {
                        negative,
                        significand: quotient,
                        exponent: p - q - 63,
                        sticky,
                    },
                    env,
                )
            }
        }
    })
}

/// The square root of `a`.
pub fn sqrt<F: Format>(a: u64, env: &mut Env) -> u64 {
    easy::<F>(Host::Sqrt, a, a, env).unwrap_or_else(|| {
        match (unpack::<F>(a), is_negative::<F>(a)) {
            (Value::Nan, _) => propagate::<F>(&[a], env),
            (Value::Zero, _) => a,
            (_, true) => invalid::<F>(env),
            (Value::Infinity, false) => a,
            (
                Value::Finite {
                    significand,
                    exponent,
                },
                false,
            ) => {
                let (m, p) = normalized(significand, exponent);
                // An even exponent halves. 126 or 127 bits have a root of 63 or 64.
                let even = p & 1;
                let square = u128::from(m) << (62 + even);
                let root = square.isqrt();
                let sticky = root * root != square;
                let exponent = (p - 62 - even) / 2;
                round::<F>(
                    &Exact {
                        negative: false,
                        significand: root,
                        exponent,
                        sticky,
                    },
                    env,
                )
            }
        }
    })
}

/// `a * b + c`, rounded once.
pub fn fused_multiply_add<F: Format>(a: u64, b: u64, c: u64, env: &mut Env) -> u64 {
    if env.is_easy() && is_normal::<F>(a) && is_normal::<F>(b) && is_normal::<F>(c) {
        let result = F::host_fma(a, b, c);
        if is_normal::<F>(result) {
            return result;
        }
    }
    let negative = is_negative::<F>(a) != is_negative::<F>(b);
    let product = match (unpack::<F>(a), unpack::<F>(b), unpack::<F>(c)) {
        (Value::Infinity, Value::Zero, _) | (Value::Zero, Value::Infinity, _) => {
            return invalid::<F>(env);
        }
        (Value::Nan, ..) | (_, Value::Nan, _) | (.., Value::Nan) => {
            return propagate::<F>(&[a, b, c], env);
        }
        (Value::Infinity, ..) | (_, Value::Infinity, _) => {
            return if unpack::<F>(c) == Value::Infinity && is_negative::<F>(c) != negative {
                invalid::<F>(env)
            } else {
                infinity::<F>(negative)
            };
        }
        (.., Value::Infinity) => return c,
        (Value::Zero, ..) | (_, Value::Zero, _) => {
            return exact_add::<F>(zero::<F>(negative), c, env);
        }
        (
            Value::Finite {
                significand: m,
                exponent: p,
            },
            Value::Finite {
                significand: n,
                exponent: q,
            },
            _,
        ) => Exact {
            negative,
            significand: u128::from(m) * u128::from(n),
            exponent: p + q,
            sticky: false,
        },
    };
    match unpack::<F>(c) {
        Value::Finite {
            significand,
            exponent,
        } => {
            let addend = Exact {
                negative: is_negative::<F>(c),
                significand: significand.into(),
                exponent,
                sticky: false,
            };
            sum::<F>(&product, &addend, env)
        }
        _ => round::<F>(&product, env),
    }
}

fn exact_add<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    let (negative_a, negative_b) = (is_negative::<F>(a), is_negative::<F>(b));
    match (unpack::<F>(a), unpack::<F>(b)) {
        (Value::Nan, _) | (_, Value::Nan) => propagate::<F>(&[a, b], env),
        (Value::Infinity, Value::Infinity) if negative_a != negative_b => invalid::<F>(env),
        (Value::Infinity, _) => a,
        (_, Value::Infinity) => b,
        (Value::Zero, Value::Zero) if negative_a == negative_b => a,
        (Value::Zero, Value::Zero) => zero::<F>(env.rounding == Rounding::Down),
        (Value::Zero, _) => b,
        (_, Value::Zero) => a,
        (
            Value::Finite {
                significand: m,
                exponent: p,
            },
            Value::Finite {
                significand: n,
                exponent: q,
            },
        ) => {
            let a = Exact {
                negative: negative_a,
                significand: m.into(),
                exponent: p,
                sticky: false,
            };
            let b = Exact {
                negative: negative_b,
                significand: n.into(),
                exponent: q,
                sticky: false,
            };
            sum::<F>(&a, &b, env)
        }
    }
}

/// The sum of two numbers without a sticky bit, of at most 106 bits each.
fn sum<F: Format>(a: &Exact, b: &Exact, env: &mut Env) -> u64 {
    // Both with their top bit in bit 125, which leaves room for a carry; the smaller one is then
    // shifted down to the larger one.
    let (a, b) = (lifted(a), lifted(b));
    let (large, small) = if (a.exponent, a.significand) >= (b.exponent, b.significand) {
        (a, b)
    } else {
        (b, a)
    };
    let distance = large.exponent.abs_diff(small.exponent);
    let shifted = small.significand.checked_shr(distance).unwrap_or(0);
    let sticky = shifted.checked_shl(distance).unwrap_or(0) != small.significand;
    let significand = if large.negative == small.negative {
        large.significand + shifted
    } else {
        // What was cut off is taken away as well: one more, and the rest of that one comes back as
        // the sticky bit.
        large.significand - shifted - u128::from(sticky)
    };
    if significand == 0 {
        return zero::<F>(env.rounding == Rounding::Down);
    }
    round::<F>(
        &Exact {
            negative: large.negative,
            significand,
            exponent: large.exponent,
            sticky,
        },
        env,
    )
}

fn lifted(exact: &Exact) -> Exact {
    let by = exact.significand.leading_zeros() - 2;
    Exact {
        significand: exact.significand << by,
        exponent: exact.exponent - by.cast_signed(),
        ..*exact
    }
}

/// The same number with the top bit of its significand set.
const fn normalized(significand: u64, exponent: i32) -> (u64, i32) {
    let by = significand.leading_zeros();
    (significand << by, exponent - by.cast_signed())
}

/// The host's result, if nobody can tell the difference.
#[inline]
fn easy<F: Format>(op: Host, a: u64, b: u64, env: &Env) -> Option<u64> {
    if !(env.is_easy() && is_normal::<F>(a) && is_normal::<F>(b)) {
        return None;
    }
    let result = F::host2(op, a, b);
    is_normal::<F>(result).then_some(result)
}
