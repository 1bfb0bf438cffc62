//! Who executes the atomics of a job: the rank that holds the word, or the provider. Decided when the
//! network is opened, for all ranks and all atomics.
//!
//! # One executor
//!
//! Atomics of two executors on one word lose updates. So if the provider executes atomics, it
//! executes all of them: those on words of this host and of this rank, too, and the loads of waits.
//! `Capabilities::atomics` says so, and core then uses no CPU atomic on a segment. What the provider
//! lacks is made from its own compare-and-swap (`steps.rs`), and short types are parts of a word of
//! four bytes.
//!
//! No provider is taken to be coherent with CPU atomics, although some are: `tcp;ofi_rxm`, `shm` and
//! others change words by the target's instructions (`prov/util/src/util_atomic.c`). But a libfabric
//! that was built without the compiler's atomics does so by plain loads and stores, and one cannot
//! ask it. With network cards it is the manual (`fi_atomic(3)`) that forbids the mixture.
//!
//! Puts and gets stay as they are: by this host's memory, or over the network. None is atomic. What
//! a program orders (put, flush, atomic; or atomic, flush, get) is right by each way, because an
//! atomic that changes a word is complete when the target's processors see it, and a flush waits for
//! the atomics on ranks of the same host as well.
//!
//! # Which one
//!
//! Without the user's choice (`Config::ofi_atomics`) the provider executes atomics only if that
//! spares the target's processor. Providers of software execute them in calls of the target, where
//! one message with several related atomics does better. So:
//!
//! 1. The provider says that it makes progress by itself, or is known to leave atomics to the card
//!    (`provider.rs`).
//! 2. Each rank asks its provider for atomics (`FI_ATOMIC`, the queries), and tries all that it
//!    says to have on a word of its own: some providers refuse what they say they have.
//! 3. All ranks tell each other. If one lacks something, none uses the provider.
//! 4. Rank 0 reads a word of the last rank, which calls nothing of libfabric meanwhile. Some
//!    providers only say that they make progress by themselves.

use pgas_core::backend::{AtomicCall, AtomicOp, AtomicType, RemoteAddr, SwapCall};
use pgas_core::config::OfiAtomics;
use pgas_core::raw::word;
use pgas_core::{Error, Rank, Result};
use pgas_network::note::Order;

use crate::bootstrap::{Way, gather};
use crate::native::{Native, OPS, Provider, TYPES};
use crate::network::State;
use crate::provider::needs_no_target;
use crate::segment::Segments;
use crate::steps::Steps;
use crate::sys::Info;
use crate::trial::{Answer, Examined, OwnWord, Tried, attempt};

const SETTING: &str = "PGAS_OFI_ATOMICS";

/// What a rank has found out about its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Finding {
    /// It can execute all atomics, and needs no processor at the target, as it says.
    Alone,
    /// It can execute all atomics.
    Able,
    /// What it lacks.
    Lacks(String),
}

/// The fabric, asked for atomics if the provider may execute them.
pub(crate) fn prepared(info: Info, asked: Option<OfiAtomics>) -> Info {
    let is_wanted = match asked {
        Some(OfiAtomics::Provider) => true,
        Some(OfiAtomics::Target) => false,
        None => needs_no_target(&info),
    };
    if is_wanted { info.with_atomics() } else { info }
}

/// Decides, and gives `state` what atomics of the provider need; collective.
pub(crate) fn decide(
    way: &mut dyn Way,
    state: Result<State>,
    (segments, rank): (&Segments, u32),
    asked: Option<OfiAtomics>,
) -> Result<State> {
    let examined = state.and_then(|mut state| {
        let finding = examine_own(&mut state, (segments, rank), asked)?;
        Ok((state, finding))
    });
    let told = examined.as_ref();
    let told = told.map(|(_, finding)| encoded(asked, finding));
    let all = gather(way, told.map_err(Clone::clone))?;
    let (mut state, _) = examined?;
    let all: Vec<_> = all.iter().map(|told| decoded(told)).collect();
    if let Some(is_alone) = agreed(asked, &all)? {
        let may_be_idle = is_alone && serves_idly(way, &mut state, (segments, rank))?;
        if let Some(provider) = &mut state.provider {
            provider.needs_target = !may_be_idle;
            provider.is_executor = may_be_idle || asked.is_some();
        }
    }
    // The provider may still write the result of an atomic that it has not answered.
    let is_needed = |it: &Provider| it.is_executor || !it.words.are_free();
    state.provider = state.provider.take().filter(is_needed);
    Ok(state)
}

/// Examines this rank's provider, as far as its answer matters.
fn examine_own(
    state: &mut State,
    (segments, rank): (&Segments, u32),
    asked: Option<OfiAtomics>,
) -> Result<Finding> {
    let info = state.endpoint.info();
    let (name, is_alone) = (info.provider(), needs_no_target(info));
    if asked == Some(OfiAtomics::Target) {
        return Ok(Finding::Lacks("was not asked".to_owned()));
    }
    if asked.is_none() && !is_alone {
        let text = format!("{name} needs the target's processor");
        return Ok(Finding::Lacks(text));
    }
    let provider = Provider::new(&mut state.endpoint)?;
    let provider = state.provider.insert(provider);
    let peer = segments.peer(rank);
    let mut own = OwnWord::open(&mut state.endpoint, &mut provider.words, peer)?;
    let (finding, native) = examined(&name, &mut own);
    state.exposed.extend(own.close());
    provider.native = native;
    Ok(finding)
}

/// Examines a provider.
fn examined(name: &str, provider: &mut impl Examined) -> (Finding, Native) {
    let mut native = Native::default();
    if !provider.has_atomics() {
        return (
            Finding::Lacks(format!("{name} has no atomics (FI_ATOMIC)")),
            native,
        );
    }
    let outcome = has_swaps(provider).and_then(|()| {
        for (ty, op) in TYPES.iter().flat_map(|ty| OPS.map(|op| (*ty, op))) {
            let call = AtomicCall {
                op,
                ty,
                operand: OPERAND & mask(ty),
            };
            if has(provider, Order::Fetch(call))?.is_ok() {
                native.add(call);
            }
        }
        Ok(())
    });
    let finding = match outcome {
        Err(lacked) => Finding::Lacks(format!("{name} {lacked}")),
        Ok(()) if provider.says_alone() => Finding::Alone,
        Ok(()) => Finding::Able,
    };
    (finding, native)
}

/// The bits of a word before a trial, and an operand. With a sign, words of both widths have another
/// order than without.
const BEFORE: u64 = 0x8765_4321_8421_1248;
const OPERAND: u64 = 0x0123_4567_0fed_cba9;

fn mask(ty: AtomicType) -> u64 {
    u64::MAX >> (64 - 8 * ty.bytes())
}

/// Compare-and-swap of both widths, in which the word is the expected one, and is not. What is
/// lacking is an error.
fn has_swaps(provider: &mut impl Examined) -> Result<(), String> {
    for ty in [AtomicType::U64, AtomicType::U32] {
        for expected in [BEFORE & mask(ty), !BEFORE & mask(ty)] {
            let swap = SwapCall {
                ty,
                expected,
                desired: OPERAND & mask(ty),
            };
            has(provider, Order::Swap(swap))?.map_err(|why| {
                let bytes = ty.bytes();
                format!("has no compare-and-swap of {bytes} bytes (FI_CSWAP: {why})")
            })?;
        }
    }
    Ok(())
}

/// Whether the provider has an atomic, and it does what it should; the inner error is why not. The
/// outer one is a provider that does not answer, which can be asked nothing more.
fn has(provider: &mut impl Examined, step: Order) -> Result<Result<(), String>, String> {
    if !provider.has(step) {
        return Ok(Err("it says so".to_owned()));
    }
    let before = BEFORE & mask(step.ty());
    let after = match step {
        Order::Fetch(call) => word::apply(before, call),
        Order::Swap(swap) if swap.expected == before => swap.desired,
        Order::Swap(_) => before,
    };
    let right = Tried {
        found: before,
        after,
    };
    match provider.try_on(before, step) {
        Answer::Is(tried) if tried == right => Ok(Ok(())),
        Answer::Is(tried) => Ok(Err(format!("{tried:x?} instead of {right:x?}"))),
        Answer::Refused(why) => Ok(Err(why)),
        Answer::Missing => Err(format!("does not answer {step:x?}")),
    }
}

/// What all ranks do by what they have told: `None` if targets execute atomics. Otherwise whether the
/// provider says that it needs no processor at the target.
fn agreed(
    asked: Option<OfiAtomics>,
    told: &[(Option<OfiAtomics>, Finding)],
) -> Result<Option<bool>> {
    let refused = |text: String| Err(Error::setting(SETTING, text_of(asked), text));
    if let Some(other) = told.iter().position(|(setting, _)| *setting != told[0].0) {
        let (first, second) = (text_of(told[0].0), text_of(told[other].0));
        return refused(format!(
            "all ranks must have the same, but rank 0 has {first} and rank {other} has {second}"
        ));
    }
    let lacking = told
        .iter()
        .enumerate()
        .find_map(|(rank, (_, finding))| match finding {
            Finding::Lacks(what) => Some((rank, what)),
            Finding::Alone | Finding::Able => None,
        });
    match (asked, lacking) {
        (Some(OfiAtomics::Target), _) | (None, Some(_)) => Ok(None),
        (Some(OfiAtomics::Provider), Some((rank, what))) => {
            refused(format!("at rank {rank} {what}"))
        }
        (_, None) => Ok(Some(told.iter().all(|(_, it)| *it == Finding::Alone))),
    }
}

/// Whether an atomic is complete although its target does nothing for it; collective.
fn serves_idly(
    way: &mut dyn Way,
    state: &mut State,
    (segments, rank): (&Segments, u32),
) -> Result<bool> {
    let last = segments.n_ranks() - 1;
    let mut is_served = true;
    // Meanwhile all others are in the exchange below, which calls nothing of libfabric.
    if rank == 0
        && last > 0
        && let Some(provider) = &mut state.provider
    {
        let load = AtomicCall {
            op: AtomicOp::Load,
            ty: AtomicType::U64,
            operand: 0,
        };
        let step = Steps::new(Order::Fetch(load), 0, provider.native).step();
        let at = RemoteAddr {
            rank: Rank::new(last),
            offset: 0,
        };
        let answer = attempt(
            &mut state.endpoint,
            &mut provider.words,
            segments.target(at),
            step,
        );
        is_served = matches!(answer, Answer::Is(_));
    }
    let all = gather(way, Ok(vec![u8::from(is_served)]))?;
    Ok(all.first().is_some_and(|first| first == &[1]))
}

/// A setting and a finding as a message.
fn encoded(asked: Option<OfiAtomics>, finding: &Finding) -> Vec<u8> {
    let setting = match asked {
        None => 0,
        Some(OfiAtomics::Provider) => 1,
        Some(OfiAtomics::Target) => 2,
    };
    let (kind, text) = match finding {
        Finding::Alone => (0, ""),
        Finding::Able => (1, ""),
        Finding::Lacks(what) => (2, what.as_str()),
    };
    [&[setting, kind], text.as_bytes()].concat()
}

/// The message of another rank, decoded.
fn decoded(told: &[u8]) -> (Option<OfiAtomics>, Finding) {
    let (setting, rest) = told.split_first().unwrap_or((&0, &[]));
    let asked = match setting {
        1 => Some(OfiAtomics::Provider),
        2 => Some(OfiAtomics::Target),
        _ => None,
    };
    let finding = match rest.split_first() {
        Some((0, _)) => Finding::Alone,
        Some((1, _)) => Finding::Able,
        other => {
            let text = other.map_or(&[][..], |(_, text)| text);
            Finding::Lacks(String::from_utf8_lossy(text).into_owned())
        }
    };
    (asked, finding)
}

fn text_of(asked: Option<OfiAtomics>) -> &'static str {
    match asked {
        None => "not set",
        Some(OfiAtomics::Provider) => "provider",
        Some(OfiAtomics::Target) => "target",
    }
}

#[cfg(test)]
mod tests;
