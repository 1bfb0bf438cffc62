//! Against the host's arithmetic, which rounds to nearest even, and against what the standard says
//! at the edges.

use proptest::prelude::*;

use super::*;

fn env(rounding: Rounding) -> Env {
    Env { rounding, flags: 0 }
}

const ROUNDINGS: [Rounding; 5] = [
    Rounding::NearestEven,
    Rounding::TowardZero,
    Rounding::Down,
    Rounding::Up,
    Rounding::NearestAway,
];

/// Doubles of all kinds, many of them close to one another or to an edge.
fn double() -> impl Strategy<Value = u64> {
    let edges = prop::sample::select(vec![
        0,
        1,
        0x000f_ffff_ffff_ffff,
        0x0010_0000_0000_0000,
        0x0010_0000_0000_0001,
        0x3ff0_0000_0000_0000,
        0x3fef_ffff_ffff_ffff,
        0x7fef_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0x7ff8_0000_0000_0000,
        0x7ff0_0000_0000_0001,
    ]);
    let near_one = (0x3e0_u64..0x420, any::<u64>()).prop_map(|(e, f)| e << 52 | (f >> 12));
    prop_oneof![any::<u64>(), edges, near_one]
        .prop_flat_map(|bits| prop_oneof![Just(bits), Just(bits ^ (1 << 63))])
}

fn single() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u32>(),
        Just(0),
        Just(1),
        Just(0x007f_ffff),
        Just(0x0080_0000),
        Just(0x7f7f_ffff),
        Just(0x7f80_0000),
        0x3e00_0000_u32..0x4200_0000
    ]
    .prop_map(u64::from)
}

/// The same number, and the simulated processor's NaN for every other one. It compares bits: an
/// optimizing compiler may take one NaN for another where it knows that a float was computed.
fn canonical(bits: u64) -> u64 {
    if bits << 1 > f64::INFINITY.to_bits() << 1 {
        Double::NAN
    } else {
        bits
    }
}

/// As [`canonical`].
fn canonical_single(bits: u32) -> u64 {
    if bits << 1 > f32::INFINITY.to_bits() << 1 {
        Single::NAN
    } else {
        bits.into()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn doubles_rounded_to_nearest_are_the_hosts(a in double(), b in double(), c in double()) {
        let [x, y, z] = [a, b, c].map(f64::from_bits);
        let mut env = env(Rounding::NearestEven);
        prop_assert_eq!(add::<Double>(a, b, &mut Env { flags: 0, ..env }), canonical((x + y).to_bits()));
        prop_assert_eq!(sub::<Double>(a, b, &mut Env { flags: 0, ..env }), canonical((x - y).to_bits()));
        prop_assert_eq!(mul::<Double>(a, b, &mut Env { flags: 0, ..env }), canonical((x * y).to_bits()));
        prop_assert_eq!(div::<Double>(a, b, &mut Env { flags: 0, ..env }), canonical((x / y).to_bits()));
        prop_assert_eq!(sqrt::<Double>(a, &mut Env { flags: 0, ..env }), canonical(x.sqrt().to_bits()));
        prop_assert_eq!(fused_multiply_add::<Double>(a, b, c, &mut env), canonical(x.mul_add(y, z).to_bits()));
    }

    #[test]
    fn singles_rounded_to_nearest_are_the_hosts(a in single(), b in single(), c in single()) {
        let [x, y, z] = [a, b, c].map(|bits| f32::from_bits(bits as u32));
        let mut env = env(Rounding::NearestEven);
        prop_assert_eq!(add::<Single>(a, b, &mut Env { flags: 0, ..env }), canonical_single((x + y).to_bits()));
        prop_assert_eq!(mul::<Single>(a, b, &mut Env { flags: 0, ..env }), canonical_single((x * y).to_bits()));
        prop_assert_eq!(div::<Single>(a, b, &mut Env { flags: 0, ..env }), canonical_single((x / y).to_bits()));
        prop_assert_eq!(sqrt::<Single>(a, &mut Env { flags: 0, ..env }), canonical_single(x.sqrt().to_bits()));
        prop_assert_eq!(fused_multiply_add::<Single>(a, b, c, &mut env), canonical_single(x.mul_add(y, z).to_bits()));
    }

    #[test]
    fn conversions_are_the_hosts(a in double(), n in any::<u64>()) {
        let mut env = env(Rounding::NearestEven);
        prop_assert_eq!(between::<Double, Single>(a, &mut env), canonical_single((f64::from_bits(a) as f32).to_bits()));
        prop_assert_eq!(from_integer::<Double>(n, Integer::U64, &mut env), (n as f64).to_bits());
        prop_assert_eq!(from_integer::<Double>(n, Integer::I64, &mut env), (n as i64 as f64).to_bits());
        prop_assert_eq!(from_integer::<Single>(n, Integer::U64, &mut env), u64::from((n as f32).to_bits()));
        env.rounding = Rounding::TowardZero;
        if !f64::from_bits(a).is_nan() {
            prop_assert_eq!(to_integer::<Double>(a, Integer::I64, &mut env), (f64::from_bits(a) as i64) as u64);
            prop_assert_eq!(to_integer::<Double>(a, Integer::U64, &mut env), f64::from_bits(a) as u64);
        }
    }

    /// The host's arithmetic is used only where it gives what exact arithmetic gives, flags
    /// included.
    #[test]
    fn the_easy_way_and_the_exact_one_agree(a in double(), b in double(), c in double()) {
        type Op = fn(u64, u64, u64, &mut Env) -> u64;
        let ops: [Op; 5] = [
            |a, b, _, env| add::<Double>(a, b, env),
            |a, b, _, env| mul::<Double>(a, b, env),
            |a, b, _, env| div::<Double>(a, b, env),
            |a, _, _, env| sqrt::<Double>(a, env),
            |a, b, c, env| fused_multiply_add::<Double>(a, b, c, env),
        ];
        for op in ops {
            let (mut easy, mut exact) = (Env { flags: NX, ..env(Rounding::NearestEven) }, env(Rounding::NearestEven));
            prop_assert_eq!(op(a, b, c, &mut easy), op(a, b, c, &mut exact));
            prop_assert_eq!(easy.flags, exact.flags | NX);
        }
    }

    /// Rounding down and up enclose the exact result, and meet if and only if it is exact.
    #[test]
    fn directed_roundings_enclose_the_result(a in double(), b in double()) {
        let ops = [add::<Double>, mul::<Double>, div::<Double>];
        for op in ops {
            let results = ROUNDINGS.map(|rounding| {
                let mut env = env(rounding);
                (f64::from_bits(op(a, b, &mut env)), env.flags)
            });
            let [(nearest, flags), (toward_zero, _), (down, _), (up, _), (away, _)] = results;
            if nearest.is_nan() {
                continue;
            }
            prop_assert!(down <= nearest && nearest <= up);
            prop_assert_eq!(down == up, flags & NX == 0);
            let inward = if nearest.is_sign_negative() { up } else { down };
            prop_assert!(toward_zero == inward || nearest == 0.0);
            prop_assert!(away == down || away == up);
        }
    }
}

#[test]
fn underflow_is_what_is_tiny_after_rounding() {
    // The largest subnormal plus a half rounds to the smallest normal number: inexact, and with
    // this many bits not tiny.
    let (min, half) = (0x0010_0000_0000_0000, 0x3fe0_0000_0000_0000);
    let mut exact = env(Rounding::NearestEven);
    assert_eq!(mul::<Double>(min, half, &mut exact), 0x0008_0000_0000_0000);
    assert_eq!(exact.flags, 0);
    let mut tiny = env(Rounding::NearestEven);
    mul::<Double>(0x0010_0000_0000_0001, half, &mut tiny);
    assert_eq!(tiny.flags, NX | UF);
    // (1 - 2^-53) * 2^-1022 rounds to 2^-1022 with an unlimited exponent as well.
    let mut not_tiny = env(Rounding::NearestEven);
    let almost = fused_multiply_add::<Double>(
        0x3ff0_0000_0000_0000,
        min,
        0x8000_0000_0000_0000,
        &mut not_tiny,
    );
    assert_eq!((almost, not_tiny.flags), (min, 0));
}

#[test]
fn overflow_goes_to_infinity_or_to_the_largest_number() {
    let max = 0x7fef_ffff_ffff_ffff;
    for (rounding, expected) in [
        (Rounding::NearestEven, Double::INFINITY),
        (Rounding::TowardZero, max),
        (Rounding::Down, max),
        (Rounding::Up, Double::INFINITY),
        (Rounding::NearestAway, Double::INFINITY),
    ] {
        let mut env = env(rounding);
        assert_eq!(add::<Double>(max, max, &mut env), expected);
        assert_eq!(env.flags, OF | NX);
    }
}

#[test]
fn a_division_by_zero_says_so_and_zero_by_zero_is_invalid() {
    let one = 0x3ff0_0000_0000_0000;
    let mut divided = env(Rounding::NearestEven);
    assert_eq!(
        div::<Double>(one, 1 << 63, &mut divided),
        Double::INFINITY | 1 << 63
    );
    assert_eq!(divided.flags, DZ);
    let mut nothing = env(Rounding::NearestEven);
    assert_eq!(div::<Double>(0, 0, &mut nothing), Double::NAN);
    assert_eq!(nothing.flags, NV);
}

#[test]
fn what_does_not_fit_into_an_integer_is_invalid_and_nothing_else() {
    for (value, kind, expected) in [
        (f64::NAN, Integer::I32, i32::MAX as u64),
        (f64::INFINITY, Integer::U32, u64::MAX),
        (-1.0, Integer::U64, 0),
        (1e300, Integer::I64, i64::MAX as u64),
        (-1e300, Integer::I64, i64::MIN as u64),
    ] {
        let mut env = env(Rounding::NearestEven);
        assert_eq!(
            to_integer::<Double>(value.to_bits(), kind, &mut env),
            expected,
            "{value} {kind:?}"
        );
        assert_eq!(env.flags, NV);
    }
}

#[test]
fn minimum_and_maximum_know_signed_zeros_and_prefer_numbers() {
    let (zero, minus) = (0, 1 << 63);
    let mut quiet = env(Rounding::NearestEven);
    assert_eq!(min::<Double>(zero, minus, &mut quiet), minus);
    assert_eq!(max::<Double>(minus, zero, &mut quiet), zero);
    assert_eq!(min::<Double>(Double::NAN, minus, &mut quiet), minus);
    assert_eq!(quiet.flags, 0);
    min::<Double>(0x7ff0_0000_0000_0001, zero, &mut quiet);
    assert_eq!(quiet.flags, NV);
}
