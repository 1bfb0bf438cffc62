//! The inline functions of libfabric's headers, by their names in C: each calls what the table of
//! its object has.
//!
//! An object that lacks the function gives `-FI_ENOSYS`. Where C has long lists of arguments, those
//! that belong together are one value here.
//!
//! # Safety
//!
//! For every function here: the object is open and lives through the call. Pointers are what the
//! manual page of the function in C asks for, for as long as it says.
#![expect(
    unsafe_code,
    clippy::missing_safety_doc,
    reason = "the interface is C's; the module's docs have what all functions ask"
)]

use std::ffi::{c_char, c_int, c_void};

use crate::bindings::{
    FI_ENOSYS, fi_addr_t, fi_av_attr, fi_cq_attr, fi_cq_err_entry, fi_info, fi_ioc, fi_msg,
    fi_msg_atomic, fi_msg_rma, fid, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric, fid_mr,
};

/// What an object without the function gives.
const NO_FUNCTION: c_int = -FI_ENOSYS.cast_signed();
const NOTHING_DONE: isize = NO_FUNCTION as isize;

/// Memory to register.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Where it begins.
    pub start: *const c_void,
    /// How many bytes.
    pub len: usize,
    /// What may be done with it: `FI_REMOTE_READ` and the like.
    pub access: u64,
    /// The key that peers shall name it by, where the provider does not choose.
    pub requested_key: u64,
    /// Flags.
    pub flags: u64,
}

/// Memory of this process that an operation uses.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// Where it begins.
    pub start: *mut c_void,
    /// How many bytes.
    pub len: usize,
    /// What its registration is called here, if it needs one.
    pub desc: *mut c_void,
}

/// Memory of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// The peer's place in the table of addresses.
    pub rank: fi_addr_t,
    /// Where it begins: an address of the peer's, or an offset in what it has registered.
    pub address: u64,
    /// The key of the peer's registration.
    pub key: u64,
}

/// What an atomic does, and on what: `FI_UINT64`, `FI_SUM` and the like.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The type of the words.
    pub datatype: u32,
    /// The operation.
    pub op: u32,
}

/// Calls a function of an object's table, or gives the other value where there is none.
macro_rules! call {
    ($object:ident.$table:ident.$function:ident($($argument:expr),*), or $missing:expr) => {{
        // SAFETY: the caller promises that the object is open, and so has its tables.
        let table = unsafe { (*$object).$table };
        if table.is_null() {
            return $missing;
        }
        // SAFETY: tables live as long as their object, and begin with what the headers of 1.17
        // have.
        let function = unsafe { (*table).$function };
        match function {
            // SAFETY: the caller promises what the function asks for.
            Some(function) => unsafe { function($($argument),*) },
            None => $missing,
        }
    }};
}

/// Closes an object. None that was made with it may be open still.
pub unsafe fn fi_close(fid: *mut fid) -> c_int {
    call!(fid.ops.close(fid), or - FI_ENOSYS.cast_signed())
}

/// Opens a domain of a fabric.
pub unsafe fn fi_domain(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    call!(
        fabric.ops.domain(fabric, info, domain, context),
        or - FI_ENOSYS.cast_signed()
    )
}

/// Makes an endpoint.
pub unsafe fn fi_endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    endpoint: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    call!(
        domain.ops.endpoint(domain, info, endpoint, context),
        or - FI_ENOSYS.cast_signed()
    )
}

/// Makes a table of addresses.
pub unsafe fn fi_av_open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    call!(
        domain.ops.av_open(domain, attr, av, context),
        or - FI_ENOSYS.cast_signed()
    )
}

/// Adds addresses to a table.
pub unsafe fn fi_av_insert(
    av: *mut fid_av,
    addresses: *const c_void,
    count: usize,
    places: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    call!(
        av.ops.insert(av, addresses, count, places, flags, context),
        or - FI_ENOSYS.cast_signed()
    )
}

/// Makes a queue of completions.
pub unsafe fn fi_cq_open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    call!(
        domain.ops.cq_open(domain, attr, cq, context),
        or - FI_ENOSYS.cast_signed()
    )
}

/// Takes completions, at most `count`, and makes progress.
pub unsafe fn fi_cq_read(cq: *mut fid_cq, entries: *mut c_void, count: usize) -> isize {
    call!(cq.ops.read(cq, entries, count), or NOTHING_DONE)
}

/// Takes the failed completion.
pub unsafe fn fi_cq_readerr(cq: *mut fid_cq, entry: *mut fi_cq_err_entry, flags: u64) -> isize {
    call!(cq.ops.readerr(cq, entry, flags), or NOTHING_DONE)
}

/// The provider's text for its own error code.
pub unsafe fn fi_cq_strerror(
    cq: *mut fid_cq,
    prov_errno: c_int,
    err_data: *const c_void,
    text: *mut c_char,
    len: usize,
) -> *const c_char {
    call!(cq.ops.strerror(cq, prov_errno, err_data, text, len), or std::ptr::null())
}

/// Joins two objects: `fi_ep_bind`, `fi_mr_bind`.
pub unsafe fn fi_bind(object: *mut fid, other: *mut fid, flags: u64) -> c_int {
    call!(
        object.ops.bind(object, other, flags),
        or - FI_ENOSYS.cast_signed()
    )
}

/// Has an object do something: `fi_enable`, `fi_mr_enable`.
pub unsafe fn fi_control(object: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    call!(
        object.ops.control(object, command, argument),
        or - FI_ENOSYS.cast_signed()
    )
}

/// The address of an endpoint.
pub unsafe fn fi_getname(endpoint: *mut fid_ep, address: *mut c_void, len: *mut usize) -> c_int {
    call!(
        endpoint.cm.getname(endpoint.cast::<fid>(), address, len),
        or - FI_ENOSYS.cast_signed()
    )
}

/// Registers memory.
pub unsafe fn fi_mr_reg(
    domain: *mut fid_domain,
    memory: Memory,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    call!(
        domain.mr.reg(
            domain.cast::<fid>(),
            memory.start,
            memory.len,
            memory.access,
            0,
            memory.requested_key,
            memory.flags,
            mr,
            context
        ),
        or - FI_ENOSYS.cast_signed()
    )
}

/// Sets an option of an endpoint.
pub unsafe fn fi_setopt(
    endpoint: *mut fid_ep,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    call!(
        endpoint
            .ops
            .setopt(endpoint.cast::<fid>(), level, option, value, len),
        or - FI_ENOSYS.cast_signed()
    )
}

/// Posts a receive.
pub unsafe fn fi_recv(
    endpoint: *mut fid_ep,
    buffer: Local,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    call!(
        endpoint.msg.recv(
            endpoint,
            buffer.start,
            buffer.len,
            buffer.desc,
            from,
            context
        ),
        or NOTHING_DONE
    )
}

/// Posts a receive as `flags` say.
pub unsafe fn fi_recvmsg(endpoint: *mut fid_ep, message: *const fi_msg, flags: u64) -> isize {
    call!(
        endpoint.msg.recvmsg(endpoint, message, flags),
        or NOTHING_DONE
    )
}

/// Sends a message.
pub unsafe fn fi_send(
    endpoint: *mut fid_ep,
    buffer: Local,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    call!(
        endpoint
            .msg
            .send(endpoint, buffer.start, buffer.len, buffer.desc, to, context),
        or NOTHING_DONE
    )
}

/// Sends a message as `flags` say.
pub unsafe fn fi_sendmsg(endpoint: *mut fid_ep, message: *const fi_msg, flags: u64) -> isize {
    call!(
        endpoint.msg.sendmsg(endpoint, message, flags),
        or NOTHING_DONE
    )
}

/// Sends a short message whose buffer is free at once, without a completion.
pub unsafe fn fi_inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    len: usize,
    to: fi_addr_t,
) -> isize {
    call!(
        endpoint.msg.inject(endpoint, buffer, len, to),
        or NOTHING_DONE
    )
}

/// Reads remote memory.
pub unsafe fn fi_read(
    endpoint: *mut fid_ep,
    buffer: Local,
    remote: Remote,
    context: *mut c_void,
) -> isize {
    call!(
        endpoint.rma.read(
            endpoint,
            buffer.start,
            buffer.len,
            buffer.desc,
            remote.rank,
            remote.address,
            remote.key,
            context
        ),
        or NOTHING_DONE
    )
}

/// Writes remote memory.
pub unsafe fn fi_write(
    endpoint: *mut fid_ep,
    buffer: Local,
    remote: Remote,
    context: *mut c_void,
) -> isize {
    call!(
        endpoint.rma.write(
            endpoint,
            buffer.start,
            buffer.len,
            buffer.desc,
            remote.rank,
            remote.address,
            remote.key,
            context
        ),
        or NOTHING_DONE
    )
}

/// Writes remote memory as `flags` say.
pub unsafe fn fi_writemsg(endpoint: *mut fid_ep, message: *const fi_msg_rma, flags: u64) -> isize {
    call!(
        endpoint.rma.writemsg(endpoint, message, flags),
        or NOTHING_DONE
    )
}

/// An atomic with its result.
pub unsafe fn fi_fetch_atomic(
    endpoint: *mut fid_ep,
    operand: Local,
    result: Local,
    remote: Remote,
    kind: Kind,
    context: *mut c_void,
) -> isize {
    call!(
        endpoint.atomic.readwrite(
            endpoint,
            operand.start,
            1,
            operand.desc,
            result.start,
            result.desc,
            remote.rank,
            remote.address,
            remote.key,
            kind.datatype,
            kind.op,
            context
        ),
        or NOTHING_DONE
    )
}

/// A compare and swap with its result: of the word that is expected, and the one that replaces it.
pub unsafe fn fi_compare_atomic(
    endpoint: *mut fid_ep,
    [compare, operand]: [Local; 2],
    result: Local,
    remote: Remote,
    kind: Kind,
    context: *mut c_void,
) -> isize {
    call!(
        endpoint.atomic.compwrite(
            endpoint,
            operand.start,
            1,
            operand.desc,
            compare.start,
            compare.desc,
            result.start,
            result.desc,
            remote.rank,
            remote.address,
            remote.key,
            kind.datatype,
            kind.op,
            context
        ),
        or NOTHING_DONE
    )
}

/// An atomic with its result, as `flags` say.
pub unsafe fn fi_fetch_atomicmsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    result: Local,
    flags: u64,
) -> isize {
    let (mut words, mut desc) = (one_word(result), result.desc);
    call!(
        endpoint.atomic.readwritemsg(
            endpoint,
            message,
            &raw mut words,
            &raw mut desc,
            1,
            flags
        ),
        or NOTHING_DONE
    )
}

/// A compare and swap with its result, as `flags` say. The message has the words that replace those
/// of `compare`.
pub unsafe fn fi_compare_atomicmsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    compare: Local,
    result: Local,
    flags: u64,
) -> isize {
    let (expected, mut expected_desc) = (one_word(compare), compare.desc);
    let (mut words, mut desc) = (one_word(result), result.desc);
    call!(
        endpoint.atomic.compwritemsg(
            endpoint,
            message,
            &raw const expected,
            &raw mut expected_desc,
            1,
            &raw mut words,
            &raw mut desc,
            1,
            flags
        ),
        or NOTHING_DONE
    )
}

/// A list of one word.
fn one_word(local: Local) -> fi_ioc {
    fi_ioc {
        addr: local.start,
        count: 1,
    }
}

/// Whether there is such an atomic with a result, and for how many words at once.
pub unsafe fn fi_fetch_atomicvalid(endpoint: *mut fid_ep, kind: Kind, count: *mut usize) -> c_int {
    call!(
        endpoint
            .atomic
            .readwritevalid(endpoint, kind.datatype, kind.op, count),
        or - FI_ENOSYS.cast_signed()
    )
}

/// Whether there is such a compare and swap, and for how many words at once.
pub unsafe fn fi_compare_atomicvalid(
    endpoint: *mut fid_ep,
    kind: Kind,
    count: *mut usize,
) -> c_int {
    call!(
        endpoint
            .atomic
            .compwritevalid(endpoint, kind.datatype, kind.op, count),
        or - FI_ENOSYS.cast_signed()
    )
}

/// The key of registered memory, or `FI_KEY_NOTAVAIL`.
pub unsafe fn fi_mr_key(mr: *mut fid_mr) -> u64 {
    // SAFETY: the caller promises that the object is open.
    unsafe { (*mr).key }
}

/// What registered memory is called in calls of this process.
pub unsafe fn fi_mr_desc(mr: *mut fid_mr) -> *mut c_void {
    // SAFETY: as above.
    unsafe { (*mr).mem_desc }
}
