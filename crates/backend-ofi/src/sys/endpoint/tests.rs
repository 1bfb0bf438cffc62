//! Endpoints over the providers of this host.

use pgas_core::Rank;

use super::*;
use crate::sys::find;

const BYTES: usize = 4096;

/// Two endpoints, the first one with the place of the second, and memory of the second one as
/// the first knows it.
pub(super) fn pair(
    provider: &str,
    node: Option<&str>,
    change: impl Fn(Info) -> Info,
) -> (Endpoint, Endpoint, Buffer, Region, Target) {
    let open = || {
        let mut found = find(Some(provider), node).unwrap();
        let info = change(found.swap_remove(0));
        Endpoint::open(info, 2, 64, BYTES).unwrap()
    };
    let (mut one, mut other) = (open(), open());
    let memory = other.buffer(BYTES, 0).unwrap();
    let (start, len) = memory.range();
    // SAFETY: the test keeps the memory until the registration is closed, and looks at it when
    // nothing is in flight.
    let region = unsafe { other.expose(start, len) }.unwrap();
    let base = if other.info().by_address() {
        start.addr() as u64
    } else {
        0
    };
    let target = Target {
        peer: one.insert(&other.address().unwrap()).unwrap(),
        address: base,
        key: region.key(),
    };
    (one, other, memory, region, target)
}

/// Drives both ends until the first one has a completion.
pub(super) fn complete(one: &mut Endpoint, other: &mut Endpoint) -> Completion {
    let mut completions = Vec::new();
    loop {
        other.poll(&mut Vec::new()).unwrap();
        one.poll(&mut completions).unwrap();
        if let Some(completion) = completions.pop() {
            return completion;
        }
    }
}

fn bytes_go_there_and_back(provider: &str, node: Option<&str>, local: bool) {
    let (mut one, mut other, memory, region, target) = pair(provider, node, |mut info| {
        if local {
            info.pretend_local();
        }
        info
    });
    assert_eq!(one.info().registers_local(), local);
    let mut source = one.buffer(64, 7).unwrap();
    source.bytes_mut().fill(9);
    let there = Target {
        address: target.address + 128,
        ..target
    };
    // SAFETY: both memories stay until the completion, and the place lies in what is
    // registered.
    while unsafe { one.write_buffer(&source, 64, there, &source.context) }.unwrap() == Begun::NoRoom
    {
        one.poll(&mut Vec::new()).unwrap();
        other.poll(&mut Vec::new()).unwrap();
    }
    let completion = complete(&mut one, &mut other);
    assert_eq!((completion.number, completion.error), (7, None));
    assert_eq!(
        memory.bytes()[127..193],
        [&[0][..], &[9; 64], &[0]].concat()
    );
    let back = one.buffer(66, 8).unwrap();
    let (start, len) = back.range();
    // SAFETY: the memory stays until its registration is closed, below.
    let own = unsafe { one.prepare(start, len) }.unwrap();
    assert_eq!(own.is_some(), local);
    let from = Target {
        address: target.address + 127,
        ..target
    };
    // SAFETY: as above.
    while unsafe { one.read((start, len), own.as_ref(), from, &back.context) }.unwrap()
        == Begun::NoRoom
    {
        one.poll(&mut Vec::new()).unwrap();
        other.poll(&mut Vec::new()).unwrap();
    }
    let completion = complete(&mut one, &mut other);
    assert_eq!((completion.number, completion.error), (8, None));
    assert_eq!(back.bytes(), [&[0][..], &[9; 64], &[0]].concat());
    drop(own);
    drop((source, back, region, memory));
}

#[test]
fn bytes_go_there_and_back_by_offset() {
    bytes_go_there_and_back("tcp;ofi_rxm", Some("127.0.0.1"), false);
}

#[test]
fn bytes_go_there_and_back_by_address() {
    bytes_go_there_and_back("shm", None, false);
}

#[test]
fn bytes_go_there_and_back_with_local_memory_registered() {
    bytes_go_there_and_back("tcp;ofi_rxm", Some("127.0.0.1"), true);
}

#[test]
fn a_closed_endpoint_refuses_everything_with_what_closed_it() {
    let (mut one, _other, memory, region, target) =
        pair("tcp;ofi_rxm", Some("127.0.0.1"), |info| info);
    let why = Error::rank_failed(Rank::new(1), "ended early");
    one.shut(Some(why.clone()));
    one.shut(None);
    let refused = [
        one.poll(&mut Vec::new()).map(drop),
        one.inject(&[1], target.peer).map(drop),
    ];
    for error in refused.map(Result::unwrap_err) {
        assert_eq!(error.to_string(), why.to_string());
    }
    assert!(
        one.buffer(1, 0).is_ok(),
        "without registrations it is memory alone"
    );
    drop((region, memory));
}
