//! The floor: libfabric's calls in loops, with nothing around them.
#![expect(
    unsafe_code,
    clippy::multiple_unsafe_ops_per_block,
    clippy::too_many_lines,
    clippy::wildcard_imports,
    reason = "calls libfabric as a program in C does"
)]

use std::ffi::{CString, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::time::{Duration, Instant};

use pgas_core::{Rank, Result, World};
use pgas_libfabric_sys::bindings::*;
use pgas_libfabric_sys::calls::*;
use pgas_libfabric_sys::load;

/// Bytes of the longest transfer.
pub(crate) const LONG: usize = 4 << 20;
/// Operations that may be in flight.
const N_CONTEXTS: usize = 1 << 16;
/// Completions that are taken at a time.
const A_LOOK: usize = 16;

/// Words of a short message.
const MESSAGE: usize = 5;
/// Receives that are posted.
const N_RECEIVES: usize = 8;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Put,
    Get,
    FetchAdd,
    CompareSwap,
    /// A message and its answer.
    Message,
    /// As many transfers as this, of so many bytes, in flight together.
    Flood(usize, usize),
}

impl Operation {
    /// What the transfers of a flood are written from. There are as many as transfers: one alone
    /// would stay in a cache.
    pub(crate) fn sources(self) -> Vec<Vec<u8>> {
        match self {
            Self::Flood(n, bytes) => vec![vec![7; bytes]; n],
            _ => Vec::new(),
        }
    }
}

/// Address, base and key of a rank's memory, for a message of fixed length.
type Address = [u8; 128];

/// An endpoint, and memory that the other rank reaches.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) endpoint: *mut fid_ep,
    cq: *mut fid_cq,
    av: *mut fid_av,
    pub(crate) memory: Vec<u64>,
    base: u64,
    key: u64,
    /// The longest message that libfabric copies when it is sent.
    pub(crate) inject_bytes: usize,
    pub(crate) there: Remote,
    contexts: Vec<fi_context2>,
    /// Where messages arrive, whose words nobody reads.
    arrived: Box<[u64; MESSAGE]>,
    n_posted: usize,
    n_rounds: u64,
    /// The number of messages that have come.
    pub(crate) n_received: usize,
    /// The number of other operations that are complete and were not waited for yet.
    n_done: usize,
}

fn ok(code: i32) {
    assert!(code >= 0, "libfabric's error {code}");
}

fn zeroed<T>() -> T {
    // SAFETY: structures of numbers and raw pointers.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

impl Raw {
    /// Opens an endpoint at this host's address `node`, and registers memory.
    pub(crate) fn open(provider: &str, node: &str, bytes: usize) -> Self {
        let library = load().expect("libfabric is installed");
        let none = ptr::null_mut();
        // SAFETY: makes an empty structure.
        let hints = unsafe { (library.dupinfo)(ptr::null()) };
        // SAFETY: it has all its parts.
        unsafe {
            (*hints).caps = u64::from(FI_MSG | FI_RMA | FI_ATOMIC);
            (*hints).mode = FI_CONTEXT | FI_CONTEXT2;
            (*(*hints).ep_attr).type_ = FI_EP_RDM;
            (*(*hints).domain_attr).mr_mode =
                (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY).cast_signed();
            (*(*hints).domain_attr).threading = FI_THREAD_DOMAIN;
            let name = CString::new(provider).expect("a name");
            (*(*hints).fabric_attr).prov_name = libc::strdup(name.as_ptr());
        }
        let mut info = ptr::null_mut();
        let node = CString::new(node).expect("an address");
        let (node, flags) = if provider.starts_with("tcp") {
            (node.as_ptr(), FI_SOURCE)
        } else {
            (ptr::null(), 0)
        };
        let version = FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION;
        // SAFETY: texts end with zeros, hints are libfabric's.
        ok(unsafe { (library.getinfo)(version, node, ptr::null(), flags, hints, &raw mut info) });
        let (mut fabric, mut domain, mut av, mut cq, mut endpoint, mut mr) = (
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
        );
        let mut table: fi_av_attr = zeroed();
        table.type_ = FI_AV_TABLE;
        let mut queue: fi_cq_attr = zeroed();
        queue.format = FI_CQ_FORMAT_MSG;
        let mut memory = vec![0_u64; bytes / 8 + 8];
        let registered = Memory {
            start: memory.as_mut_ptr().cast(),
            len: memory.len() * 8,
            access: u64::from(FI_REMOTE_READ | FI_REMOTE_WRITE),
            requested_key: 1,
            flags: 0,
        };
        // SAFETY: each object is made of those before it; the memory stays where it is.
        unsafe {
            ok((library.fabric)((*info).fabric_attr, &raw mut fabric, none));
            ok(fi_domain(fabric, info, &raw mut domain, none));
            ok(fi_av_open(domain, &raw mut table, &raw mut av, none));
            ok(fi_cq_open(domain, &raw mut queue, &raw mut cq, none));
            ok(fi_endpoint(domain, info, &raw mut endpoint, none));
            ok(fi_bind(endpoint.cast(), av.cast(), 0));
            ok(fi_bind(
                endpoint.cast(),
                cq.cast(),
                u64::from(FI_TRANSMIT) | u64::from(FI_RECV),
            ));
            ok(fi_control(endpoint.cast(), FI_ENABLE.cast_signed(), none));
            ok(fi_mr_reg(domain, registered, &raw mut mr, none));
        }
        // SAFETY: libfabric fills all parts.
        let mode = unsafe { (*(*info).domain_attr).mr_mode };
        let by_address = mode & FI_MR_VIRT_ADDR.cast_signed() != 0;
        let base = if by_address {
            memory.as_ptr().addr() as u64
        } else {
            0
        };
        Self {
            endpoint,
            cq,
            av,
            memory,
            base,
            // SAFETY: it is open.
            key: unsafe { fi_mr_key(mr) },
            // SAFETY: libfabric fills all parts.
            inject_bytes: unsafe { (*(*info).tx_attr).inject_size },
            there: Remote {
                rank: 0,
                address: 0,
                key: 0,
            },
            contexts: vec![zeroed(); N_CONTEXTS],
            arrived: Box::new([0; MESSAGE]),
            n_posted: 0,
            n_rounds: 0,
            n_received: 0,
            n_done: 0,
        }
    }

    /// Connects both ranks. Collective.
    pub(crate) fn meet(&mut self, world: &World) -> Result<()> {
        let (own, mut all) = (self.address(), Vec::new());
        for rank in 0..2 {
            all.push(world.broadcast(Rank::new(rank), own)?);
        }
        self.connect(&all[1 - world.rank().index()]);
        Ok(())
    }

    fn address(&self) -> Address {
        let mut address = [0; 128];
        let mut len = address.len() - 16;
        // SAFETY: there is so much room.
        ok(unsafe {
            fi_getname(
                self.endpoint,
                address[16..].as_mut_ptr().cast(),
                &raw mut len,
            )
        });
        address[..8].copy_from_slice(&self.base.to_ne_bytes());
        address[8..16].copy_from_slice(&self.key.to_ne_bytes());
        address
    }

    fn connect(&mut self, other: &Address) {
        let (mut place, none) = (0, ptr::null_mut());
        // SAFETY: one address is read, which is one of this provider's.
        ok(unsafe {
            fi_av_insert(
                self.av,
                other[16..].as_ptr().cast(),
                1,
                &raw mut place,
                0,
                none,
            )
        });
        let word =
            |at: usize| u64::from_ne_bytes(other[at..at + 8].try_into().expect("eight bytes"));
        self.there = Remote {
            rank: place,
            address: word(0),
            key: word(8),
        };
    }

    /// The time of one operation, while the other rank makes progress.
    pub(crate) fn sample(
        &mut self,
        is_first: bool,
        operation: Operation,
        n_times: usize,
    ) -> Duration {
        self.n_rounds += 1;
        if matches!(operation, Operation::Message) {
            self.post_receives();
        }
        if !is_first {
            let last = self.memory.len() - 1;
            // SAFETY: the word is this process's memory, which libfabric writes in `poll`.
            while unsafe { self.memory.as_ptr().add(last).read_volatile() } != self.n_rounds {
                self.poll();
                if self.n_received > 0 {
                    self.take_message();
                    self.send_message();
                }
            }
            return Duration::ZERO;
        }
        let mut word = 7_u64;
        let (mut former, mut expected) = (0_u64, 0_u64);
        let sources = operation.sources();
        let began = Instant::now();
        for _ in 0..n_times {
            match operation {
                Operation::Put => self.write((&raw mut word).cast(), 8, 0, 0),
                Operation::Get => self.begin(|raw| {
                    let (local, context) = (local((&raw mut word).cast(), 8), raw.context(0));
                    // SAFETY: the word lives until the completion.
                    unsafe { fi_read(raw.endpoint, local, raw.there, context) }
                }),
                Operation::FetchAdd => self.begin(|raw| {
                    let operand = local((&raw mut word).cast(), 8);
                    let result = local((&raw mut former).cast(), 8);
                    let kind = Kind {
                        datatype: FI_UINT64,
                        op: FI_SUM,
                    };
                    // SAFETY: the words live until the completion.
                    unsafe {
                        fi_fetch_atomic(
                            raw.endpoint,
                            operand,
                            result,
                            raw.there,
                            kind,
                            raw.context(0),
                        )
                    }
                }),
                Operation::CompareSwap => self.begin(|raw| {
                    let operand = local((&raw mut word).cast(), 8);
                    let compare = local((&raw mut expected).cast(), 8);
                    let result = local((&raw mut former).cast(), 8);
                    let kind = Kind {
                        datatype: FI_UINT64,
                        op: FI_CSWAP,
                    };
                    let (there, context) = (raw.there, raw.context(0));
                    // SAFETY: the words live until the completion.
                    unsafe {
                        fi_compare_atomic(
                            raw.endpoint,
                            [compare, operand],
                            result,
                            there,
                            kind,
                            context,
                        )
                    }
                }),
                Operation::Message => {
                    self.send_message();
                    while self.n_received == 0 {
                        self.poll();
                    }
                    self.take_message();
                    continue;
                }
                Operation::Flood(..) => {
                    for (slot, source) in sources.iter().enumerate() {
                        self.write(source.as_ptr().cast_mut().cast(), source.len(), 0, slot);
                    }
                    self.complete(sources.len());
                    continue;
                }
            }
            self.complete(1);
        }
        let took = began.elapsed();
        let mut round = self.n_rounds;
        let last = (self.memory.len() - 1) * 8;
        self.write((&raw mut round).cast(), 8, last as u64, 0);
        self.complete(1);
        took / u32::try_from(n_times).expect("few")
    }

    /// Posts receives until there are enough.
    fn post_receives(&mut self) {
        while self.n_posted < N_RECEIVES {
            let to = local(self.arrived.as_mut_ptr().cast(), MESSAGE * 8);
            self.n_posted += 1;
            let slot = self.n_posted;
            // SAFETY: the words live as long as the endpoint is used.
            self.begin(|raw| unsafe { fi_recv(raw.endpoint, to, u64::MAX, raw.context(slot)) });
        }
    }

    /// Takes a message that has come, and posts another receive.
    fn take_message(&mut self) {
        self.n_received -= 1;
        self.n_posted -= 1;
        self.post_receives();
    }

    fn send_message(&mut self) {
        let words = [7_u64; MESSAGE];
        let (start, len) = (words.as_ptr().cast(), MESSAGE * 8);
        // SAFETY: the words are copied before the call returns.
        self.begin(|raw| unsafe { fi_inject(raw.endpoint, start, len, raw.there.rank) });
    }

    pub(crate) fn context(&mut self, slot: usize) -> *mut c_void {
        (&raw mut self.contexts[slot % N_CONTEXTS]).cast()
    }

    /// Begins a write that is complete when it is delivered.
    pub(crate) fn write(&mut self, start: *mut c_void, len: usize, offset: u64, slot: usize) {
        self.begin(|raw| {
            let part = iovec {
                iov_base: start,
                iov_len: len,
            };
            let there = fi_rma_iov {
                addr: raw.there.address + offset,
                len,
                key: raw.there.key,
            };
            let message = fi_msg_rma {
                msg_iov: &raw const part,
                desc: ptr::null_mut(),
                iov_count: 1,
                addr: raw.there.rank,
                rma_iov: &raw const there,
                rma_iov_count: 1,
                context: raw.context(slot),
                data: 0,
            };
            // SAFETY: the lists live through the call, the bytes until the completion.
            unsafe {
                fi_writemsg(
                    raw.endpoint,
                    &raw const message,
                    u64::from(FI_DELIVERY_COMPLETE),
                )
            }
        });
    }

    pub(crate) fn begin(&mut self, mut issue: impl FnMut(&mut Self) -> isize) {
        loop {
            match issue(self) {
                0 => return,
                -11 => self.poll(),
                code => panic!("libfabric's error {code}"),
            }
        }
    }

    /// Waits for `n` operations of this rank.
    pub(crate) fn complete(&mut self, n: usize) {
        while self.n_done < n {
            self.poll();
        }
        self.n_done -= n;
    }

    /// Makes progress, and counts what is complete.
    pub(crate) fn poll(&mut self) {
        let mut entries = [MaybeUninit::<fi_cq_msg_entry>::uninit(); A_LOOK];
        // SAFETY: there is room for so many.
        let n = unsafe { fi_cq_read(self.cq, entries.as_mut_ptr().cast(), A_LOOK) };
        assert!(n >= 0 || n == -11, "libfabric's error {n}");
        for entry in &entries[..usize::try_from(n).unwrap_or(0)] {
            // SAFETY: libfabric has written so many.
            let is_message = unsafe { entry.assume_init() }.flags & u64::from(FI_RECV) != 0;
            self.n_received += usize::from(is_message);
            self.n_done += usize::from(!is_message);
        }
    }
}

pub(crate) fn local(start: *mut c_void, len: usize) -> Local {
    Local {
        start,
        len,
        desc: ptr::null_mut(),
    }
}
