//! Decisions about providers that lack something.

use super::*;

/// A provider.
struct Fake {
    has_atomics: bool,
    says_alone: bool,
    /// Whether it says that it has an atomic.
    has: fn(Order) -> bool,
    /// Its answer, where that is not what it should be.
    answers: fn(Order) -> Option<Answer<Tried>>,
}

impl Examined for Fake {
    fn has_atomics(&self) -> bool {
        self.has_atomics
    }

    fn says_alone(&self) -> bool {
        self.says_alone
    }

    fn has(&mut self, step: Order) -> bool {
        (self.has)(step)
    }

    fn try_on(&mut self, before: u64, step: Order) -> Answer<Tried> {
        assert_eq!(before & mask(step.ty()), before);
        let after = match step {
            Order::Fetch(call) => word::apply(before, call),
            Order::Swap(swap) if before == swap.expected => swap.desired,
            Order::Swap(_) => before,
        };
        let found = before;
        (self.answers)(step).unwrap_or(Answer::Is(Tried { found, after }))
    }
}

/// A card with everything.
const CARD: Fake = Fake {
    has_atomics: true,
    says_alone: true,
    has: |_| true,
    answers: |_| None,
};

fn refused() -> Option<Answer<Tried>> {
    Some(Answer::Refused("Function not implemented".to_owned()))
}

fn is_swap(step: Order) -> bool {
    matches!(step, Order::Swap(_))
}

fn is(step: Order, op: AtomicOp) -> bool {
    matches!(step, Order::Fetch(call) if call.op == op)
}

#[track_caller]
fn assert_lacks(mut provider: Fake, what: &str) {
    let (finding, _) = examined("card", &mut provider);
    assert_eq!(finding, Finding::Lacks(what.to_owned()));
}

fn native_adds(mut provider: Fake) -> (Finding, [bool; 3]) {
    let (finding, native) = examined("card", &mut provider);
    let has = |op, ty| native.equal(AtomicCall { op, ty, operand: 1 }).is_some();
    let added = [
        has(AtomicOp::Add, AtomicType::U32),
        has(AtomicOp::Add, AtomicType::I64),
        has(AtomicOp::Max, AtomicType::I64),
    ];
    (finding, added)
}

#[test]
fn a_provider_with_everything_is_able() {
    assert_eq!(native_adds(CARD), (Finding::Alone, [true; 3]));
    let software = Fake {
        says_alone: false,
        ..CARD
    };
    assert_eq!(native_adds(software), (Finding::Able, [true; 3]));
}

#[test]
fn without_compare_and_swap_of_both_widths_there_is_nothing() {
    let none = Fake {
        has_atomics: false,
        ..CARD
    };
    assert_lacks(none, "card has no atomics (FI_ATOMIC)");
    let says_none = Fake {
        has: |_| false,
        ..CARD
    };
    assert_lacks(
        says_none,
        "card has no compare-and-swap of 8 bytes (FI_CSWAP: it says so)",
    );
    let long_ones = Fake {
        has: |step| step.ty().bytes() == 8,
        ..CARD
    };
    assert_lacks(
        long_ones,
        "card has no compare-and-swap of 4 bytes (FI_CSWAP: it says so)",
    );
    let refusing = Fake {
        answers: |_| refused(),
        ..CARD
    };
    assert_lacks(
        refusing,
        "card has no compare-and-swap of 8 bytes (FI_CSWAP: Function not implemented)",
    );
}

#[test]
fn what_is_missing_refused_or_wrong_is_made_by_compare_and_swap() {
    let swaps = Fake {
        has: is_swap,
        ..CARD
    };
    assert_eq!(native_adds(swaps), (Finding::Alone, [false; 3]));
    let refusing = Fake {
        answers: |step| is(step, AtomicOp::Add).then(refused).flatten(),
        ..CARD
    };
    assert_eq!(native_adds(refusing).1, [false, false, true]);
    let wrong = Fake {
        answers: |step| {
            let nothing_done = Tried {
                found: BEFORE,
                after: BEFORE,
            };
            let is_wrong = is(step, AtomicOp::Max) && step.ty() == AtomicType::I64;
            is_wrong.then_some(Answer::Is(nothing_done))
        },
        ..CARD
    };
    assert_eq!(native_adds(wrong).1, [true, true, false]);
}

#[test]
fn a_wrong_compare_and_swap_is_none_and_a_silent_provider_is_not_asked_again() {
    let changes_always = Fake {
        answers: |step| match step {
            Order::Swap(swap) if swap.expected != BEFORE & mask(swap.ty) => {
                let found = BEFORE & mask(swap.ty);
                let after = swap.desired;
                Some(Answer::Is(Tried { found, after }))
            }
            _ => None,
        },
        ..CARD
    };
    let (finding, _) = examined("card", &mut { changes_always });
    let Finding::Lacks(what) = finding else {
        panic!("{finding:?}");
    };
    assert!(what.starts_with("card has no compare-and-swap of 8 bytes (FI_CSWAP: Tried"));
    let silent = Fake {
        answers: |step| {
            assert!(!is(step, AtomicOp::Max), "asked again");
            is(step, AtomicOp::Xor).then_some(Answer::Missing)
        },
        ..CARD
    };
    let (finding, _) = examined("card", &mut { silent });
    let text = format!("{finding:?}");
    assert!(text.contains("card does not answer Fetch(AtomicCall { op: Xor"));
}

const PROVIDER: Option<OfiAtomics> = Some(OfiAtomics::Provider);
const TARGET: Option<OfiAtomics> = Some(OfiAtomics::Target);

fn lacks() -> Finding {
    Finding::Lacks("tcp has none".to_owned())
}

/// The decision of ranks that have found these.
fn decision(asked: Option<OfiAtomics>, findings: &[Finding]) -> Result<Option<bool>, String> {
    let told: Vec<_> = findings
        .iter()
        .map(|finding| decoded(&encoded(asked, finding)))
        .collect();
    agreed(asked, &told).map_err(|error| error.to_string())
}

#[test]
fn all_ranks_use_the_provider_or_none_does() {
    let (alone, able) = (Finding::Alone, Finding::Able);
    for asked in [None, PROVIDER] {
        assert_eq!(
            decision(asked, &[alone.clone(), alone.clone()]),
            Ok(Some(true))
        );
        assert_eq!(
            decision(asked, &[alone.clone(), able.clone()]),
            Ok(Some(false))
        );
    }
    let mixed = [alone, able, lacks()];
    assert_eq!(decision(None, &mixed), Ok(None));
    assert_eq!(decision(TARGET, &mixed), Ok(None));
    let why = "PGAS_OFI_ATOMICS=provider: at rank 2 tcp has none";
    assert_eq!(decision(PROVIDER, &mixed), Err(why.to_owned()));
}

#[test]
fn ranks_with_other_settings_are_refused() {
    let told = [(PROVIDER, Finding::Able), (None, lacks())];
    for asked in [PROVIDER, None] {
        let error = agreed(asked, &told).unwrap_err().to_string();
        let both = "rank 0 has provider and rank 1 has not set";
        assert!(error.contains(both), "{error}");
    }
}
