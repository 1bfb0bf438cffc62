//! An endpoint, with its fabric, domain, table of addresses and queue of completions.
//!
//! All methods take it by exclusive reference: one thread at a time is inside of libfabric, which
//! therefore needs no locks of its own (`FI_THREAD_DOMAIN`).
#![expect(
    unsafe_code,
    reason = "lends libfabric buffers, and reads what it writes"
)]

use std::ffi::{CStr, c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::ops::Range;
use std::{process, ptr};

use pgas_core::{Error, Result};
use pgas_libfabric_sys::bindings::{
    FI_AV_TABLE, FI_CQ_FORMAT_DATA, FI_DELIVERY_COMPLETE, FI_EAGAIN, FI_EAVAIL, FI_ENABLE,
    FI_MULTI_RECV, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, FI_READ, FI_RECV, FI_REMOTE_READ,
    FI_REMOTE_WRITE, FI_SEND, FI_TRANSMIT, FI_WAIT_NONE, FI_WRITE, fi_av_attr, fi_cq_attr,
    fi_cq_data_entry, fi_cq_err_entry, fi_msg, fi_msg_rma, fi_rma_iov, fid, fid_av, fid_cq,
    fid_domain, fid_ep, fid_fabric, iovec,
};
use pgas_libfabric_sys::calls::{
    Local, Memory, Remote, fi_av_insert, fi_av_open, fi_bind, fi_close, fi_control, fi_cq_open,
    fi_cq_read, fi_cq_readerr, fi_cq_strerror, fi_domain, fi_endpoint, fi_getname, fi_inject,
    fi_mr_reg, fi_read, fi_recv, fi_recvmsg, fi_send, fi_sendmsg, fi_setopt, fi_writemsg,
};

use pgas_smp::launcher;

use super::info::Info;
use super::memory::{Buffer, Context, Region};
use super::{check, failed, library};

/// Whether libfabric has accepted an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an operation that was not taken has to be begun again"]
pub(crate) enum Begun {
    Yes,
    /// There is no room now: make progress, then begin it again.
    NoRoom,
}

/// One completed operation.
#[derive(Debug)]
pub(crate) struct Completion {
    /// The number of its context.
    pub(crate) number: u64,
    /// Received bytes.
    pub(crate) len: usize,
    /// Their address, if the receive takes many messages.
    pub(crate) address: usize,
    /// Whether a message was received.
    pub(crate) is_received: bool,
    /// Whether a receive of many messages takes no more of them.
    pub(crate) is_released: bool,
    /// The error, if there is one.
    pub(crate) error: Option<String>,
}

impl Completion {
    /// In the place of a number: a send that has none, as it was complete on return, has failed.
    pub(crate) const WITHOUT_CONTEXT: u64 = 3;

    /// The number of the trial with this index, before the job begins. Each has its own: an error of
    /// one may be reported once more when the next one has begun.
    pub(crate) fn of_trial(index: u64) -> u64 {
        (index + 1) << 2 | Self::WITHOUT_CONTEXT
    }

    /// Whether it is of a trial: then it comes too late, or once more.
    pub(crate) fn is_of_trial(&self) -> bool {
        self.number & 3 == Self::WITHOUT_CONTEXT && self.number != Self::WITHOUT_CONTEXT
    }
}

/// Memory of a peer: the peer's place in the table of addresses, the address, and the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) peer: u64,
    pub(crate) address: u64,
    pub(crate) key: u64,
}

impl From<Target> for Remote {
    fn from(target: Target) -> Self {
        Self {
            rank: target.peer,
            address: target.address,
            key: target.key,
        }
    }
}

/// There is no room, or nothing to take.
const AGAIN: isize = -FI_EAGAIN.cast_signed() as isize;
/// There is a failed completion to take.
const AVAILABLE: isize = -FI_EAVAIL.cast_signed() as isize;

/// Completions that are taken at a time.
const PER_POLL: usize = 16;

/// An open endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Null after [`shut`](Self::shut).
    endpoint: *mut fid_ep,
    /// Why it was closed, for who calls it later.
    closed_by: Option<Error>,
    cq: *mut fid_cq,
    av: *mut fid_av,
    domain: *mut fid_domain,
    fabric: *mut fid_fabric,
    info: Info,
    /// Whether a receive can take many messages.
    receives_many: bool,
    next_key: u64,
}

// SAFETY: the objects are this value's alone, and libfabric does not care which thread calls it as
// long as it is one at a time, as exclusive references see to.
unsafe impl Send for Endpoint {}

impl Endpoint {
    /// Opens a fabric and an endpoint for about `n_ranks` peers, with room for `n_completions`, and
    /// for messages of at most `max_message` bytes.
    pub(crate) fn open(
        info: Info,
        n_ranks: u32,
        n_completions: usize,
        max_message: usize,
    ) -> Result<Self> {
        let library = library()?;
        let info = info.receiving_many();
        let mut this = Self {
            endpoint: ptr::null_mut(),
            closed_by: None,
            cq: ptr::null_mut(),
            av: ptr::null_mut(),
            domain: ptr::null_mut(),
            fabric: ptr::null_mut(),
            receives_many: false,
            info,
            next_key: 1,
        };
        let info = this.info.as_ptr();
        let none = ptr::null_mut();
        // SAFETY: libfabric fills all parts of what it gives.
        let attr = unsafe { (*info).fabric_attr };
        // SAFETY: the structure is libfabric's own, and the place for the object is there.
        let code = unsafe { (library.fabric)(attr, &raw mut this.fabric, none) };
        check("fi_fabric", code)?;
        // SAFETY: the fabric is open, and the structure is one of its.
        let code = unsafe { fi_domain(this.fabric, info, &raw mut this.domain, none) };
        check("fi_domain", code)?;
        let mut table: fi_av_attr = zeroed();
        table.type_ = FI_AV_TABLE;
        table.count = n_ranks as usize;
        // SAFETY: the domain is open, and the attributes are read during the call.
        let code = unsafe { fi_av_open(this.domain, &raw mut table, &raw mut this.av, none) };
        check("fi_av_open", code)?;
        let mut queue: fi_cq_attr = zeroed();
        queue.size = n_completions;
        queue.format = FI_CQ_FORMAT_DATA;
        queue.wait_obj = FI_WAIT_NONE;
        // SAFETY: as for the table.
        let code = unsafe { fi_cq_open(this.domain, &raw mut queue, &raw mut this.cq, none) };
        check("fi_cq_open", code)?;
        // SAFETY: the domain is open, and the structure is one of its.
        let code = unsafe { fi_endpoint(this.domain, info, &raw mut this.endpoint, none) };
        check("fi_endpoint", code)?;
        this.join(this.av.cast(), 0, "fi_ep_bind of the addresses")?;
        let both = u64::from(FI_TRANSMIT) | u64::from(FI_RECV);
        this.join(this.cq.cast(), both, "fi_ep_bind of the completions")?;
        // SAFETY: the endpoint is open; to enable it takes no argument.
        let code = unsafe { fi_control(this.endpoint.cast(), FI_ENABLE.cast_signed(), none) };
        check("fi_enable", code)?;
        // `shm` of libfabric 1.17 does not survive this before the endpoint is enabled.
        // `opx` writes words of its own between the messages of a receive, whose lengths then do not
        // tell whether all have come.
        let has_gaps = this.info.provider().starts_with("opx");
        this.receives_many = this.info.receives_many() && !has_gaps && this.reserve(max_message);
        Ok(this)
    }

    fn join(&mut self, other: *mut fid, flags: u64, call: &'static str) -> Result<()> {
        // SAFETY: both are open objects of this endpoint's domain.
        check(call, unsafe { fi_bind(self.endpoint.cast(), other, flags) })
    }

    /// Has receives of many messages end when there is less room than for `bytes`. Returns whether
    /// the provider obeys.
    fn reserve(&mut self, bytes: usize) -> bool {
        let (level, option) = (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV);
        let (level, option) = (level.cast_signed(), option.cast_signed());
        let (value, len) = ((&raw const bytes).cast(), size_of_val(&bytes));
        // SAFETY: the endpoint is open, and the option is a number of this type.
        unsafe { fi_setopt(self.endpoint, level, option, value, len) == 0 }
    }

    /// Whether a receive can take many messages.
    pub(crate) fn receives_many(&self) -> bool {
        self.receives_many
    }

    pub(crate) fn info(&self) -> &Info {
        &self.info
    }

    /// The address by which peers reach it.
    pub(crate) fn address(&mut self) -> Result<Vec<u8>> {
        let mut address = vec![0; 512];
        let mut len = address.len();
        let at = address.as_mut_ptr().cast();
        // SAFETY: the endpoint is open, and there are `len` bytes at `at`.
        let code = unsafe { fi_getname(self.endpoint, at, &raw mut len) };
        check("fi_getname", code)?;
        address.truncate(len);
        Ok(address)
    }

    /// Adds a peer's address, which has the length of the provider's addresses, and returns its
    /// place.
    pub(crate) fn insert(&mut self, address: &[u8]) -> Result<u64> {
        let mut place = 0;
        let at = address.as_ptr().cast();
        // SAFETY: the table is open, and one address is read, which is as long as this endpoint's
        // own, as `segment.rs` sees to.
        let n = unsafe { fi_av_insert(self.av, at, 1, &raw mut place, 0, ptr::null_mut()) };
        check("fi_av_insert", n)?;
        if n != 1 {
            let text = "a peer's address is not valid here";
            return Err(Error::backend("fi_av_insert", n.into(), text));
        }
        Ok(place)
    }

    /// Registers memory for peers.
    ///
    /// # Safety
    ///
    /// It stays for as long as the registration, and peers may read and write it at any time.
    pub(crate) unsafe fn expose(&mut self, start: *mut u8, len: usize) -> Result<Region> {
        let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
        // SAFETY: as the caller promises.
        unsafe { self.register(start, len, u64::from(access)) }
    }

    /// A buffer of `len` bytes, whose operations `number` names.
    pub(crate) fn buffer(&mut self, len: usize, number: u64) -> Result<Buffer> {
        let mut buffer = Buffer::new(len, number);
        let (start, len) = buffer.range();
        // SAFETY: the buffer has its registration, which is closed before its memory is freed.
        if let Some(region) = unsafe { self.prepare(start, len) }? {
            buffer.keep(region);
        }
        Ok(buffer)
    }

    /// Registers memory that operations of this process read and write, if the provider wants that.
    ///
    /// # Safety
    ///
    /// It stays for as long as the registration.
    pub(crate) unsafe fn prepare(&mut self, start: *mut u8, len: usize) -> Result<Option<Region>> {
        // SAFETY: as the caller promises.
        unsafe { self.prepare_for(start, len, FI_SEND | FI_RECV | FI_READ | FI_WRITE) }
    }

    /// As [`prepare`](Self::prepare), for memory that puts read. It may be a constant of the
    /// program, whose pages the processor does not let anybody write.
    ///
    /// # Safety
    ///
    /// As for that.
    pub(crate) unsafe fn prepare_source(
        &mut self,
        start: *const u8,
        len: usize,
    ) -> Result<Option<Region>> {
        // SAFETY: as the caller promises. With this access the provider only reads it.
        unsafe { self.prepare_for(start.cast_mut(), len, FI_SEND | FI_WRITE) }
    }

    /// # Safety
    ///
    /// As for [`prepare`](Self::prepare). It is writable if `access` lets the provider write it.
    unsafe fn prepare_for(
        &mut self,
        start: *mut u8,
        len: usize,
        access: u32,
    ) -> Result<Option<Region>> {
        if !self.info.registers_local() {
            return Ok(None);
        }
        // SAFETY: as the caller promises.
        unsafe { self.register(start, len, u64::from(access)) }.map(Some)
    }

    /// # Safety
    ///
    /// As for [`expose`](Self::expose).
    unsafe fn register(&mut self, start: *mut u8, len: usize, access: u64) -> Result<Region> {
        self.check_open()?;
        let memory = Memory {
            start: start.cast(),
            len,
            access,
            requested_key: self.next_key,
            flags: 0,
        };
        self.next_key += 1;
        let (mut mr, none) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the domain is open, and the caller promises that the memory stays.
        let code = unsafe { fi_mr_reg(self.domain, memory, &raw mut mr, none) };
        if code < 0 {
            return Err(not_registered(len, code));
        }
        // SAFETY: it was just made.
        let region = unsafe { Region::new(mr) };
        if self.info.by_endpoint() {
            let at: *mut fid = region.as_ptr().cast();
            // SAFETY: both are open.
            check("fi_mr_bind", unsafe {
                fi_bind(at, self.endpoint.cast(), 0)
            })?;
            // SAFETY: the registration is open; to enable it takes no argument.
            let code = unsafe { fi_control(at, FI_ENABLE.cast_signed(), none) };
            check("fi_mr_enable", code)?;
        }
        Ok(region)
    }

    /// Posts a receive.
    ///
    /// # Safety
    ///
    /// The buffer lives and is left alone until its completion has come, or the endpoint is shut.
    pub(crate) unsafe fn receive(&mut self, buffer: &Buffer) -> Result<Begun> {
        self.check_open()?;
        let (local, context) = (buffer.local(usize::MAX), buffer.context.as_ptr());
        // SAFETY: the endpoint is open, and the caller promises the rest. It receives messages of
        // any peer.
        begun("fi_recv", unsafe {
            fi_recv(self.endpoint, local, u64::MAX, context)
        })
    }

    /// Posts a receive of many messages, one behind the other. Each has a completion of its own,
    /// and one of them or a further one says that the receive takes no more.
    ///
    /// # Safety
    ///
    /// As for [`receive`](Self::receive), up to the last completion. The bytes of a message are the
    /// caller's when its own completion has come.
    pub(crate) unsafe fn receive_many(&mut self, buffer: &Buffer) -> Result<Begun> {
        self.check_open()?;
        let mut local = buffer.local(usize::MAX);
        let part = part_of(local);
        let message = fi_msg {
            msg_iov: &raw const part,
            desc: &raw mut local.desc,
            iov_count: 1,
            addr: u64::MAX,
            context: buffer.context.as_ptr(),
            data: 0,
        };
        // SAFETY: the endpoint is open, the lists live through the call, and the caller promises
        // the rest. It receives messages of any peer.
        begun("fi_recvmsg", unsafe {
            fi_recvmsg(self.endpoint, &raw const message, u64::from(FI_MULTI_RECV))
        })
    }

    /// Sends these bytes of a buffer.
    ///
    /// # Safety
    ///
    /// As for [`receive`](Self::receive).
    pub(crate) unsafe fn send(
        &mut self,
        buffer: &Buffer,
        bytes: Range<usize>,
        peer: u64,
    ) -> Result<Begun> {
        self.check_open()?;
        let (local, context) = (buffer.part(bytes), buffer.context.as_ptr());
        // SAFETY: the endpoint is open, and the caller promises the rest.
        begun("fi_send", unsafe {
            fi_send(self.endpoint, local, peer, context)
        })
    }

    /// As [`send`](Self::send), complete when the peer has it.
    ///
    /// # Safety
    ///
    /// As for [`receive`](Self::receive).
    pub(crate) unsafe fn send_surely(
        &mut self,
        buffer: &Buffer,
        len: usize,
        peer: u64,
    ) -> Result<Begun> {
        self.check_open()?;
        let mut local = buffer.local(len);
        let part = part_of(local);
        let message = fi_msg {
            msg_iov: &raw const part,
            desc: &raw mut local.desc,
            iov_count: 1,
            addr: peer,
            context: buffer.context.as_ptr(),
            data: 0,
        };
        let flags = u64::from(FI_DELIVERY_COMPLETE);
        // SAFETY: the endpoint is open, the lists live through the call, and the caller promises
        // the rest.
        begun("fi_sendmsg", unsafe {
            fi_sendmsg(self.endpoint, &raw const message, flags)
        })
    }

    /// Sends bytes, no more than the provider's limit for this. There is no completion.
    pub(crate) fn inject(&mut self, bytes: &[u8], peer: u64) -> Result<Begun> {
        self.check_open()?;
        let (start, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the endpoint is open, and the bytes are copied before the call returns.
        begun("fi_inject", unsafe {
            fi_inject(self.endpoint, start, len, peer)
        })
    }

    /// Begins to read `len` bytes of a peer.
    ///
    /// # Safety
    ///
    /// They lie in what the peer has registered, and as many are writable at `start`, and nobody
    /// else's until the completion has come, or the endpoint is shut. `region` is of these, and it
    /// and the context live as long.
    pub(crate) unsafe fn read(
        &mut self,
        (start, len): (*mut u8, usize),
        region: Option<&Region>,
        source: Target,
        context: &Context,
    ) -> Result<Begun> {
        self.check_open()?;
        let local = local(start, len, region);
        let context = context.as_ptr();
        // SAFETY: the endpoint is open, and the caller promises the rest.
        begun("fi_read", unsafe {
            fi_read(self.endpoint, local, source.into(), context)
        })
    }

    /// Begins to write `len` bytes of a peer; complete when the peer has them.
    ///
    /// # Safety
    ///
    /// As for [`read`](Self::read), where the bytes at `start` are readable and nobody writes them.
    pub(crate) unsafe fn write(
        &mut self,
        (start, len): (*const u8, usize),
        region: Option<&Region>,
        target: Target,
        context: &Context,
    ) -> Result<Begun> {
        let local = local(start.cast_mut(), len, region);
        // SAFETY: as the caller promises.
        unsafe { self.write_local(local, target, context.as_ptr()) }
    }

    /// As [`write`](Self::write), the first `len` bytes of a buffer.
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write); the buffer lives and is left alone as long.
    pub(crate) unsafe fn write_buffer(
        &mut self,
        buffer: &Buffer,
        len: usize,
        target: Target,
        context: &Context,
    ) -> Result<Begun> {
        // SAFETY: as the caller promises.
        unsafe { self.write_local(buffer.local(len), target, context.as_ptr()) }
    }

    /// # Safety
    ///
    /// As for [`write`](Self::write).
    unsafe fn write_local(
        &mut self,
        mut local: Local,
        target: Target,
        context: *mut c_void,
    ) -> Result<Begun> {
        self.check_open()?;
        let part = part_of(local);
        let there = fi_rma_iov {
            addr: target.address,
            len: local.len,
            key: target.key,
        };
        let message = fi_msg_rma {
            msg_iov: &raw const part,
            desc: &raw mut local.desc,
            iov_count: 1,
            addr: target.peer,
            rma_iov: &raw const there,
            rma_iov_count: 1,
            context,
            data: 0,
        };
        let flags = u64::from(FI_DELIVERY_COMPLETE);
        // SAFETY: the endpoint is open, the lists live through the call, and the caller promises
        // the rest.
        begun("fi_writemsg", unsafe {
            fi_writemsg(self.endpoint, &raw const message, flags)
        })
    }

    /// Makes progress, and adds completed operations to `completions`.
    pub(crate) fn poll(&mut self, completions: &mut Vec<Completion>) -> Result<()> {
        self.check_open()?;
        let mut entries = [MaybeUninit::<fi_cq_data_entry>::uninit(); PER_POLL];
        let at = entries.as_mut_ptr().cast();
        // SAFETY: the queue is open, its entries have this type, and there is room for `PER_POLL`.
        let n = unsafe { fi_cq_read(self.cq, at, PER_POLL) };
        if n == AGAIN {
            return Ok(());
        }
        if n == AVAILABLE {
            return self.poll_error(completions);
        }
        let Ok(n) = usize::try_from(n) else {
            return Err(failed("fi_cq_read", code_of(n)));
        };
        for entry in &entries[..n.min(PER_POLL)] {
            // SAFETY: libfabric has written the first `n`.
            let entry = unsafe { entry.assume_init() };
            if entry.op_context.is_null() {
                continue;
            }
            completions.push(Completion {
                // SAFETY: all operations of this endpoint have such contexts, which live until now.
                number: unsafe { Context::number_of(entry.op_context) },
                len: entry.len,
                address: entry.buf.addr(),
                is_received: entry.flags & u64::from(FI_RECV) != 0,
                is_released: entry.flags & u64::from(FI_MULTI_RECV) != 0,
                error: None,
            });
        }
        Ok(())
    }

    /// Takes the failed completion.
    #[cold]
    fn poll_error(&mut self, completions: &mut Vec<Completion>) -> Result<()> {
        // Later versions have longer entries, which they fill if they are asked for that version
        // alone.
        let mut entry: fi_cq_err_entry = zeroed();
        // SAFETY: the queue is open, and the entry is of this version of the interface.
        let n = unsafe { fi_cq_readerr(self.cq, &raw mut entry, 0) };
        if n == AGAIN {
            return Ok(());
        }
        if n < 0 {
            return Err(failed("fi_cq_readerr", code_of(n)));
        }
        let number = if entry.op_context.is_null() {
            Completion::WITHOUT_CONTEXT
        } else {
            // SAFETY: as for other completions.
            unsafe { Context::number_of(entry.op_context) }
        };
        completions.push(Completion {
            number,
            len: 0,
            address: 0,
            is_received: false,
            is_released: entry.flags & u64::from(FI_MULTI_RECV) != 0,
            error: Some(self.text_of(&entry)),
        });
        Ok(())
    }

    /// The text of an error: libfabric's, and the provider's.
    fn text_of(&self, entry: &fi_cq_err_entry) -> String {
        let text = library().map_or_else(|_| String::new(), |it| it.error_text(entry.err));
        let (err_data, none) = (entry.err_data.cast_const(), ptr::null_mut());
        // SAFETY: the queue is open, and the data is that of the entry. Without a place for the
        // text it is a constant.
        let own = unsafe { fi_cq_strerror(self.cq, entry.prov_errno, err_data, none, 0) };
        if own.is_null() {
            return text;
        }
        // SAFETY: it is a text that ends with a zero.
        let own = unsafe { CStr::from_ptr(own) }.to_string_lossy();
        if own == text {
            text
        } else {
            format!("{text}: {own}")
        }
    }

    /// Closes the endpoint: from here on libfabric reads and writes nothing that was lent to it,
    /// and every call is the error `why`. If libfabric cannot close it, ends the process, since the
    /// memory that it uses may be freed next.
    pub(crate) fn shut(&mut self, why: Option<Error>) {
        self.closed_by = self.closed_by.take().or(why);
        let code = close(mem::replace(&mut self.endpoint, ptr::null_mut()));
        if let Err(error) = check("fi_close of the endpoint", code) {
            launcher::tell(&format!(
                "{error}; libfabric may still use memory of this rank"
            ));
            process::abort();
        }
    }

    #[inline]
    fn check_open(&self) -> Result<()> {
        if self.endpoint.is_null() {
            return Err(self.is_closed());
        }
        Ok(())
    }

    #[cold]
    fn is_closed(&self) -> Error {
        let closed = || Error::backend("libfabric", 0, "the endpoint is closed");
        self.closed_by.clone().unwrap_or_else(closed)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shut(None);
        // None of these uses memory of this process: an error of closing changes nothing.
        close(self.cq);
        close(self.av);
        close(self.domain);
        close(self.fabric);
    }
}

/// Closes an object that is not used any more, if there is one, and returns libfabric's code.
fn close<T>(object: *mut T) -> c_int {
    if object.is_null() {
        return 0;
    }
    // SAFETY: all objects begin with the structure that `fi_close` takes, this one is open, and the
    // objects made with it are closed.
    unsafe { fi_close(object.cast()) }
}

/// The error of a registration that libfabric has refused.
#[cold]
fn not_registered(len: usize, code: c_int) -> Error {
    let text = library().map_or_else(|_| String::new(), |it| it.error_text(code));
    let text = format!("{text}; {len} bytes more may be over the limit of `ulimit -l`");
    Error::backend("fi_mr_reg", code.into(), text)
}

/// Decodes the result of beginning an operation.
fn begun(call: &'static str, outcome: isize) -> Result<Begun> {
    if outcome >= 0 {
        return Ok(Begun::Yes);
    }
    if outcome == AGAIN {
        return Ok(Begun::NoRoom);
    }
    Err(failed(call, code_of(outcome)))
}

fn code_of(outcome: isize) -> c_int {
    c_int::try_from(outcome).unwrap_or(c_int::MIN)
}

fn local(start: *mut u8, len: usize, region: Option<&Region>) -> Local {
    Local {
        start: start.cast(),
        len,
        desc: region.map_or(ptr::null_mut(), Region::desc),
    }
}

fn part_of(local: Local) -> iovec {
    iovec {
        iov_base: local.start,
        iov_len: local.len,
    }
}

/// A structure of C's with zeros.
fn zeroed<T: OfC>() -> T {
    // SAFETY: the trait promises that zeros are a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// # Safety
///
/// A structure of numbers and raw pointers, of which zeros are a value.
unsafe trait OfC {}
// SAFETY: numbers and raw pointers.
unsafe impl OfC for fi_av_attr {}
// SAFETY: numbers and raw pointers.
unsafe impl OfC for fi_cq_attr {}
// SAFETY: numbers and raw pointers.
unsafe impl OfC for fi_cq_err_entry {}

mod atomics;

#[cfg(test)]
mod floats;

#[cfg(test)]
mod tests;
