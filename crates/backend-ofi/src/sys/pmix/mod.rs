//! Every call of PMIx's client library, which is loaded when a launcher that speaks it has started
//! the ranks, as Open MPI's `mpirun`, PRRTE and `srun --mpi=pmix` do.
//!
//! The bindings are these few lines; a test has a C compiler say the same of the installed headers.
#![expect(unsafe_code, reason = "loads a library and calls it")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use pgas_core::{Error, Result};
use pgas_libfabric_sys::dynamic::Loaded;

/// The library's name, by the version of its interface since version 2 of the standard.
const NAME: &CStr = c"libpmix.so.2";

const SUCCESS: c_int = 0;
/// The status of an operation that is complete on return, and will not be reported.
const OPERATION_SUCCEEDED: c_int = -157;
/// All ranks of a name space.
const WILDCARD: u32 = u32::MAX - 1;
/// The scope of values for ranks of all hosts.
const GLOBAL: u8 = 3;
const BOOL: u16 = 1;
const UINT32: u16 = 14;
const BYTE_OBJECT: u16 = 27;
/// The key of the job's number of ranks.
const JOB_SIZE: &CStr = c"pmix.job.size";
/// The name of the directive by which a fence distributes what the ranks have put.
const COLLECT_DATA: &CStr = c"pmix.collect";

/// A rank.
#[repr(C)]
#[derive(Clone, Copy)]
struct Proc {
    nspace: [c_char; 256],
    rank: u32,
}

/// A number of bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct ByteObject {
    bytes: *mut c_char,
    size: usize,
}

#[repr(C)]
union Data {
    flag: bool,
    uint32: u32,
    bytes: ByteObject,
    /// As long as the longest kind of value.
    _longest: [usize; 3],
}

#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

type OpCallback = unsafe extern "C" fn(c_int, *mut c_void);

type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type FenceNb = unsafe extern "C" fn(
    *const Proc,
    usize,
    *const Info,
    usize,
    Option<OpCallback>,
    *mut c_void,
) -> c_int;
type Get =
    unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// The functions that are used. The library stays loaded.
struct Library {
    init: Init,
    finalize: Finalize,
    put: Put,
    commit: Commit,
    fence_nb: FenceNb,
    get: Get,
    error_string: ErrorString,
}

impl Library {
    /// Loads it by the ordinary library path, once. Later calls return the same result.
    fn load() -> Result<&'static Self> {
        static LOADED: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
        let loaded = LOADED.get_or_init(|| Self::open(NAME));
        loaded.as_ref().map_err(|cause| {
            let text = format!("PMIx cannot be loaded ({cause}); install it (Debian: libpmix2)");
            Error::backend("dlopen", 0, text)
        })
    }

    fn open(name: &CStr) -> std::result::Result<Self, String> {
        // SAFETY: what initializers of the library do is what programs linked with it rely on.
        // Its plugins find its functions where they look for them, among those of the process.
        let loaded = unsafe { Loaded::open(name, libc::RTLD_NOW | libc::RTLD_GLOBAL) }?;
        let function = |name| loaded.function(name, None);
        let init = function(c"PMIx_Init")?;
        let finalize = function(c"PMIx_Finalize")?;
        let put = function(c"PMIx_Put")?;
        let commit = function(c"PMIx_Commit")?;
        let fence_nb = function(c"PMIx_Fence_nb")?;
        let get = function(c"PMIx_Get")?;
        let error_string = function(c"PMIx_Error_string")?;
        Ok(Self {
            // SAFETY: this is the function's type in the headers; a test has a compiler check it.
            init: unsafe { mem::transmute_copy::<NonNull<c_void>, Init>(&init) },
            // SAFETY: as above.
            finalize: unsafe { mem::transmute_copy::<NonNull<c_void>, Finalize>(&finalize) },
            // SAFETY: as above.
            put: unsafe { mem::transmute_copy::<NonNull<c_void>, Put>(&put) },
            // SAFETY: as above.
            commit: unsafe { mem::transmute_copy::<NonNull<c_void>, Commit>(&commit) },
            // SAFETY: as above.
            fence_nb: unsafe { mem::transmute_copy::<NonNull<c_void>, FenceNb>(&fence_nb) },
            // SAFETY: as above.
            get: unsafe { mem::transmute_copy::<NonNull<c_void>, Get>(&get) },
            // SAFETY: as above.
            error_string: unsafe {
                mem::transmute_copy::<NonNull<c_void>, ErrorString>(&error_string)
            },
        })
    }

    /// An error with the name of the call and PMIx's text, unless the call has succeeded.
    fn check(&self, call: &'static str, status: c_int) -> Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: any number may be asked for.
        let text = unsafe { (self.error_string)(status) };
        let text = if text.is_null() {
            format!("error {status}")
        } else {
            // SAFETY: it is a constant text that ends with a zero.
            unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned()
        };
        Err(Error::backend(call, status.into(), text))
    }
}

/// This process as its launcher's client.
pub(crate) struct Client {
    library: &'static Library,
    own: Proc,
}

impl Client {
    /// Introduces this process to its launcher.
    pub(crate) fn start() -> Result<Self> {
        let library = Library::load()?;
        let mut own = Proc {
            nspace: [0; 256],
            rank: 0,
        };
        // SAFETY: the place for the name is there, and there are no directives.
        let status = unsafe { (library.init)(&raw mut own, ptr::null_mut(), 0) };
        library.check("PMIx_Init", status)?;
        Ok(Self { library, own })
    }

    pub(crate) fn rank(&self) -> u32 {
        self.own.rank
    }

    pub(crate) fn n_ranks(&self) -> Result<u32> {
        self.get_value(WILDCARD, JOB_SIZE, |value| match value.kind {
            // SAFETY: the value says that it is of this kind.
            UINT32 => Some(unsafe { value.data.uint32 }),
            _ => None,
        })
    }

    /// Puts bytes under a key. Other ranks may get them after the next fence.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let key = c_text(key);
        let mut value = Value {
            kind: BYTE_OBJECT,
            data: Data {
                bytes: ByteObject {
                    bytes: bytes.as_ptr().cast_mut().cast(),
                    size: bytes.len(),
                },
            },
        };
        // SAFETY: the key ends with a zero, and the library copies the bytes during the call.
        let status = unsafe { (self.library.put)(GLOBAL, key.as_ptr(), &raw mut value) };
        self.library.check("PMIx_Put", status)?;
        // SAFETY: the client has started.
        let status = unsafe { (self.library.commit)() };
        self.library.check("PMIx_Commit", status)
    }

    /// Gets the bytes that `rank` has put under a key.
    pub(crate) fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>> {
        self.get_value(rank, &c_text(key), |value| {
            if value.kind != BYTE_OBJECT {
                return None;
            }
            // SAFETY: the value says that it is of this kind.
            let object = unsafe { value.data.bytes };
            if object.size == 0 {
                return Some(Vec::new());
            }
            // SAFETY: the library has written `object.size` bytes there, which are the value's.
            let bytes = unsafe { std::slice::from_raw_parts(object.bytes.cast(), object.size) };
            Some(bytes.to_vec())
        })
    }

    /// Decodes a value of the expected kind by `read`.
    fn get_value<T>(
        &self,
        rank: u32,
        key: &CStr,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T> {
        let from = Proc { rank, ..self.own };
        let mut value: *mut Value = ptr::null_mut();
        let (at, none) = (key.as_ptr(), ptr::null());
        // SAFETY: the rank, the place for the value and the key live through the call.
        let status = unsafe { (self.library.get)(&raw const from, at, none, 0, &raw mut value) };
        self.library.check("PMIx_Get", status)?;
        let wrong = || {
            let text = format!("rank {rank} has {} of another kind", key.to_string_lossy());
            Error::backend("PMIx_Get", 0, text)
        };
        if value.is_null() {
            return Err(wrong());
        }
        // SAFETY: the library has made the value, which is this caller's now.
        let read = read(unsafe { &*value });
        // SAFETY: as above.
        unsafe { free(value) };
        read.ok_or_else(wrong)
    }

    /// Begins a fence of all ranks, after which they get what was put before.
    pub(crate) fn begin_fence(&self) -> Result<Fence> {
        let (sender, outcome) = sync_channel(1);
        let told = Box::into_raw(Box::new(Told {
            sender,
            directive: Info {
                key: key_of(COLLECT_DATA),
                flags: 0,
                value: Value {
                    kind: BOOL,
                    data: Data { flag: true },
                },
            },
        }));
        // SAFETY: the box was made just now.
        let directive = unsafe { &raw const (*told).directive };
        let call = self.library.fence_nb;
        // SAFETY: no list of ranks means all; the directive lives until the report takes its box.
        let status = unsafe { call(ptr::null(), 0, directive, 1, Some(report), told.cast()) };
        if status != SUCCESS {
            // SAFETY: a fence that has not begun, or is over by now, is not reported: the box is
            // still ours.
            let told = unsafe { Box::from_raw(told) };
            if status != OPERATION_SUCCEEDED {
                self.library.check("PMIx_Fence_nb", status)?;
            }
            // The channel has room for it.
            let _ = told.sender.try_send(SUCCESS);
        }
        Ok(Fence(outcome))
    }

    /// Checks the result of a fence.
    pub(crate) fn check_fence(&self, status: c_int) -> Result<()> {
        self.library.check("PMIx_Fence_nb", status)
    }

    /// Says good-bye, so that the end of this process does not end the job.
    pub(crate) fn finish(self) -> Result<()> {
        // SAFETY: the client has started, and is not used any more. There are no directives.
        let status = unsafe { (self.library.finalize)(ptr::null(), 0) };
        self.library.check("PMIx_Finalize", status)
    }
}

/// A fence that has begun: its status comes.
pub(crate) struct Fence(pub(crate) Receiver<c_int>);

/// The state of a fence until its result is reported.
struct Told {
    sender: SyncSender<c_int>,
    directive: Info,
}

/// Called by the library's own thread when a fence is over.
///
/// # Safety
///
/// `told` is the box that [`Client::begin_fence`] has made for this fence.
unsafe extern "C" fn report(status: c_int, told: *mut c_void) {
    // SAFETY: as the caller promises; a fence is reported once.
    let told = unsafe { Box::from_raw(told.cast::<Told>()) };
    // A rank that has given up waiting does not receive it.
    let _ = told.sender.try_send(status);
}

/// # Safety
///
/// `value` was made by the library, and nobody has it any more.
unsafe fn free(value: *mut Value) {
    // SAFETY: as the caller promises.
    let value_there = unsafe { &*value };
    if value_there.kind == BYTE_OBJECT {
        // SAFETY: the value says that it is of this kind.
        let object = unsafe { value_there.data.bytes };
        // SAFETY: the bytes are the value's; the library allocates by `malloc`.
        unsafe { libc::free(object.bytes.cast()) };
    }
    // SAFETY: as above. Numbers have nothing of their own.
    unsafe { libc::free(value.cast()) };
}

fn c_text(text: &str) -> CString {
    CString::new(text).expect("keys are made here, without zeros")
}

/// A key in a structure, with zeros behind it.
fn key_of(name: &CStr) -> [c_char; 512] {
    let mut key = [0; 512];
    for (to, from) in key.iter_mut().zip(name.to_bytes()) {
        *to = from.cast_signed();
    }
    key
}

#[cfg(test)]
mod tests;
