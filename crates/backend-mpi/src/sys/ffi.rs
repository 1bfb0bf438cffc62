//! Safe declarations of MPI: its constants, and functions whose argument types express all that the
//! C function relies on.
//!
//! Each kind of handle has a type of its own here, whose values come from MPI alone: they are
//! constants of the library, or were written by one of its functions. The owner of a handle ends it
//! by the function for that, which leaves the null handle in its place; other code borrows the
//! owner. A pointer is a reference, and a text is one that C can read. The functions that are used
//! from the crate `mpi`, in an `unsafe` block, read or write buffers whose length or lifetime no
//! type expresses.
#![expect(unsafe_code, reason = "declares functions of a C library")]

use std::convert::Infallible;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::mem::zeroed;

use mpi::ffi;
use mpi::ffi::MPI_Aint;

/// A kind of MPI's objects.
pub(crate) trait Kind {
    /// The C type of an object: a number or a pointer.
    type Raw: Copy + Debug + PartialEq;
}

/// The kinds, as names.
#[derive(Debug, PartialEq)]
pub(crate) struct Communicators;
#[derive(Debug, PartialEq)]
pub(crate) struct Groups;
#[derive(Debug, PartialEq)]
pub(crate) struct Hints;
#[derive(Debug, PartialEq)]
pub(crate) struct Windows;
#[derive(Debug, PartialEq)]
pub(crate) struct Types;
#[derive(Debug, PartialEq)]
pub(crate) struct Requests;
#[derive(Debug, PartialEq)]
pub(crate) struct Operators;
#[derive(Debug, PartialEq)]
pub(crate) struct Errors;

impl Kind for Communicators {
    type Raw = ffi::MPI_Comm;
}
impl Kind for Groups {
    type Raw = ffi::MPI_Group;
}
impl Kind for Hints {
    type Raw = ffi::MPI_Info;
}
impl Kind for Windows {
    type Raw = ffi::MPI_Win;
}
impl Kind for Types {
    type Raw = ffi::MPI_Datatype;
}
impl Kind for Requests {
    type Raw = ffi::MPI_Request;
}
impl Kind for Operators {
    type Raw = ffi::MPI_Op;
}
impl Kind for Errors {
    type Raw = ffi::MPI_Errhandler;
}

/// An object of MPI that its owner has to end, or that lives as long as MPI, or none.
#[derive(Debug, PartialEq)]
#[repr(transparent)]
pub(crate) struct Object<K: Kind>(K::Raw);

// SAFETY: a handle is a name for something inside of MPI, which is the same for every thread, and
// the name alone gives no access: the calls that use it come from one thread at a time, which
// `Mpi` proves.
unsafe impl<K: Kind> Send for Object<K> {}
// SAFETY: as for `Send`; what is behind a shared reference is never written.
unsafe impl<K: Kind> Sync for Object<K> {}

/// A borrowed name of an object that another value owns.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Handle<'a, K: Kind>(K::Raw, PhantomData<&'a Object<K>>);

impl<K: Kind> Object<K> {
    /// The name, for as long as the object is not ended.
    #[inline]
    pub(super) fn handle(&self) -> Handle<'_, K> {
        Handle(self.0, PhantomData)
    }

    /// The name as the crate `mpi` has it.
    #[inline]
    pub(super) fn raw(&self) -> K::Raw {
        self.0
    }

    /// The place where a function of the crate `mpi` writes the name of a new object.
    #[inline]
    pub(super) fn place(&mut self) -> *mut K::Raw {
        &raw mut self.0
    }

    /// An object that other code has made.
    ///
    /// # Safety
    ///
    /// It exists for as long as what is returned is used, and is ended by nobody else.
    pub(super) unsafe fn of(raw: K::Raw) -> Self {
        Self(raw)
    }
}

/// A communicator: of this crate's own, whose errors come back as codes, or MPI's world.
pub(crate) type Comm = Object<Communicators>;
/// The processes of a communicator.
pub(super) type Group = Object<Groups>;
/// Pairs of a key and a value.
pub(crate) type Info = Object<Hints>;
/// A window over each rank's segment, locked for all ranks from its creation to its end.
pub(super) type Window = Object<Windows>;
/// A type of MPI; those that were made here are freed by [`type_free`](super::type_free).
pub(crate) type Datatype = Object<Types>;
/// Something that MPI has in flight, or nothing.
pub(crate) type Request = Object<Requests>;

impl Comm {
    pub(super) fn null() -> Self {
        Self(RSMPI_COMM_NULL.0)
    }
}

impl Group {
    pub(super) fn null() -> Self {
        Self(RSMPI_GROUP_NULL.0)
    }
}

impl Info {
    pub(super) fn null() -> Self {
        Self(RSMPI_INFO_NULL.0)
    }
}

impl Window {
    pub(super) fn null() -> Self {
        Self(RSMPI_WIN_NULL.0)
    }
}

impl Datatype {
    pub(super) fn null() -> Self {
        Self(RSMPI_DATATYPE_NULL.0)
    }

    #[inline]
    pub(crate) fn byte() -> &'static Self {
        &RSMPI_UINT8_T
    }
}

impl Request {
    #[inline]
    pub(crate) fn null() -> Self {
        Self(RSMPI_REQUEST_NULL.0)
    }

    pub(crate) fn is_null(&self) -> bool {
        *self == Self::null()
    }
}

/// A text that C can read.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> From<&'a CStr> for Text<'a> {
    fn from(text: &'a CStr) -> Self {
        Self(text.as_ptr(), PhantomData)
    }
}

/// The null status: no status of a request is wanted.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct NoStatus(*mut ffi::MPI_Status);

/// `MPI_IN_PLACE`: the input is at the place of the result.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct InPlace(*const c_void);

impl InPlace {
    pub(super) fn raw(self) -> *const c_void {
        self.0
    }
}

/// A status that nothing was written to.
pub(super) fn empty_status() -> ffi::MPI_Status {
    // SAFETY: a status is integers in each library, of which zero is a value.
    unsafe { zeroed() }
}

/// A setting of the library, between its lookup and its end.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Setting(ffi::MPI_T_cvar_handle);

impl Setting {
    pub(super) fn none() -> Self {
        Self(std::ptr::null_mut())
    }
}

/// An argument of C that is a null pointer.
pub(super) type Nothing<'a> = Option<&'a mut Infallible>;

/// As long as MPI's text for an error gets, and its final zero.
pub(super) const LONGEST_ERROR: usize = ffi::MPI_MAX_ERROR_STRING as usize + 1;
/// As long as the library's description of itself gets, and its final zero. MPICH's is longer than
/// a page.
pub(super) const LONGEST_VERSION: usize = ffi::MPI_MAX_LIBRARY_VERSION_STRING as usize + 1;

// The declarations hold: they are the standard's binding for C has them (MPI-3.1, appendix A.2),
// with types that have the same layout: a transparent one around a handle is that handle, a
// reference is a pointer that is not null, and a null pointer is the `None` of one. The constants
// are `const` in the shims that define them, of which `mpi` compiles one for the same library, and
// this crate's `shim.c` is the other. That a function may be called by anyone:
// - What it reads or writes by a pointer is a number, a handle or an array of the length that the
//   standard gives, and only during the call: no buffer that stays MPI's is among its arguments.
// - A handle names an object that exists, or none: `Object` and `Handle` are made by MPI alone, the
//   borrow keeps the owner from ending it meanwhile, and who ends it leaves the null handle, which
//   MPI refuses.
// - Where MPI was not started yet or has ended, both libraries say so and end the process.
// - One thread at a time is inside: each wrapper asks for an `Mpi`, but for those of texts and of
//   `MPI_Abort`, which both libraries let any thread call.
unsafe extern "C" {
    pub(super) safe static RSMPI_COMM_WORLD: Comm;
    pub(super) safe static RSMPI_COMM_NULL: Comm;
    pub(super) safe static RSMPI_GROUP_NULL: Group;
    pub(super) safe static RSMPI_INFO_NULL: Info;
    pub(super) safe static RSMPI_WIN_NULL: Window;
    pub(super) safe static RSMPI_REQUEST_NULL: Request;
    pub(super) safe static RSMPI_DATATYPE_NULL: Datatype;
    pub(super) safe static RSMPI_ERRORS_RETURN: Object<Errors>;
    pub(super) safe static RSMPI_STATUS_IGNORE: NoStatus;
    pub(super) safe static pgas_mpi_in_place: InPlace;

    pub(super) safe static RSMPI_INT8_T: Datatype;
    pub(super) safe static RSMPI_INT16_T: Datatype;
    pub(super) safe static RSMPI_INT32_T: Datatype;
    pub(super) safe static RSMPI_INT64_T: Datatype;
    pub(super) safe static RSMPI_UINT8_T: Datatype;
    pub(super) safe static RSMPI_UINT16_T: Datatype;
    pub(super) safe static RSMPI_UINT32_T: Datatype;
    pub(super) safe static RSMPI_UINT64_T: Datatype;

    pub(super) safe static RSMPI_MAX: Object<Operators>;
    pub(super) safe static RSMPI_MIN: Object<Operators>;
    pub(super) safe static RSMPI_SUM: Object<Operators>;
    pub(super) safe static RSMPI_PROD: Object<Operators>;
    pub(super) safe static RSMPI_LAND: Object<Operators>;
    pub(super) safe static RSMPI_BAND: Object<Operators>;
    pub(super) safe static RSMPI_LOR: Object<Operators>;
    pub(super) safe static RSMPI_BOR: Object<Operators>;
    pub(super) safe static RSMPI_BXOR: Object<Operators>;

    pub(super) safe static RSMPI_UNDEFINED: c_int;
    pub(super) safe static RSMPI_ANY_SOURCE: c_int;
    pub(super) safe static RSMPI_COMM_TYPE_SHARED: c_int;
    pub(super) safe static RSMPI_THREAD_SERIALIZED: c_int;
    pub(super) safe static RSMPI_THREAD_MULTIPLE: c_int;

    pub(super) safe fn MPI_Initialized(flag: &mut c_int) -> c_int;
    pub(super) safe fn MPI_Finalized(flag: &mut c_int) -> c_int;
    pub(super) safe fn MPI_Init_thread(
        argc: Nothing<'_>,
        argv: Nothing<'_>,
        wanted: c_int,
        granted: &mut c_int,
    ) -> c_int;
    pub(super) safe fn MPI_Query_thread(level: &mut c_int) -> c_int;
    pub(super) safe fn MPI_Is_thread_main(flag: &mut c_int) -> c_int;
    pub(super) safe fn MPI_Finalize() -> c_int;
    pub(super) safe fn MPI_Abort(comm: Handle<'_, Communicators>, code: c_int) -> c_int;
    pub(super) safe fn MPI_Error_string(
        code: c_int,
        text: &mut [u8; LONGEST_ERROR],
        len: &mut c_int,
    ) -> c_int;
    pub(super) safe fn MPI_Get_library_version(
        text: &mut [u8; LONGEST_VERSION],
        len: &mut c_int,
    ) -> c_int;

    pub(super) safe fn MPI_Comm_rank(comm: Handle<'_, Communicators>, rank: &mut c_int) -> c_int;
    pub(super) safe fn MPI_Comm_size(comm: Handle<'_, Communicators>, size: &mut c_int) -> c_int;
    pub(super) safe fn MPI_Comm_split(
        comm: Handle<'_, Communicators>,
        colour: c_int,
        key: c_int,
        new: &mut Comm,
    ) -> c_int;
    pub(super) safe fn MPI_Comm_split_type(
        comm: Handle<'_, Communicators>,
        ty: c_int,
        key: c_int,
        info: Handle<'_, Hints>,
        new: &mut Comm,
    ) -> c_int;
    pub(super) safe fn MPI_Comm_free(comm: &mut Comm) -> c_int;
    pub(super) safe fn MPI_Comm_set_errhandler(
        comm: Handle<'_, Communicators>,
        handler: Handle<'_, Errors>,
    ) -> c_int;
    pub(super) safe fn MPI_Comm_group(comm: Handle<'_, Communicators>, group: &mut Group) -> c_int;
    pub(super) safe fn MPI_Group_free(group: &mut Group) -> c_int;

    pub(super) safe fn MPI_Info_create(info: &mut Info) -> c_int;
    pub(super) safe fn MPI_Info_set(
        info: Handle<'_, Hints>,
        key: Text<'_>,
        value: Text<'_>,
    ) -> c_int;
    pub(super) safe fn MPI_Info_free(info: &mut Info) -> c_int;

    pub(super) safe fn MPI_Win_set_errhandler(
        window: Handle<'_, Windows>,
        handler: Handle<'_, Errors>,
    ) -> c_int;
    pub(super) safe fn MPI_Win_lock_all(assertion: c_int, window: Handle<'_, Windows>) -> c_int;
    pub(super) safe fn MPI_Win_unlock_all(window: Handle<'_, Windows>) -> c_int;
    pub(super) safe fn MPI_Win_free(window: &mut Window) -> c_int;
    pub(super) safe fn MPI_Win_flush(rank: c_int, window: Handle<'_, Windows>) -> c_int;
    pub(super) safe fn MPI_Win_flush_local(rank: c_int, window: Handle<'_, Windows>) -> c_int;
    pub(super) safe fn MPI_Win_flush_all(window: Handle<'_, Windows>) -> c_int;
    pub(super) safe fn MPI_Win_flush_local_all(window: Handle<'_, Windows>) -> c_int;
    pub(super) safe fn pgas_mpi_is_unified(
        window: Handle<'_, Windows>,
        is_unified: &mut c_int,
    ) -> c_int;

    pub(super) safe fn MPI_Test(request: &mut Request, flag: &mut c_int, status: NoStatus)
    -> c_int;
    pub(super) safe fn MPI_Wait(request: &mut Request, status: NoStatus) -> c_int;
    pub(super) safe fn MPI_Cancel(request: &mut Request) -> c_int;
    pub(super) safe fn MPI_Get_count(
        status: &ffi::MPI_Status,
        ty: Handle<'_, Types>,
        count: &mut c_int,
    ) -> c_int;
    pub(super) safe fn MPI_Iprobe(
        from: c_int,
        tag: c_int,
        comm: Handle<'_, Communicators>,
        flag: &mut c_int,
        status: &mut ffi::MPI_Status,
    ) -> c_int;
    pub(super) safe fn MPI_Ibarrier(
        comm: Handle<'_, Communicators>,
        request: &mut Request,
    ) -> c_int;

    pub(super) safe fn MPI_Type_create_hvector(
        count: c_int,
        block: c_int,
        stride: MPI_Aint,
        inner: Handle<'_, Types>,
        new: &mut Datatype,
    ) -> c_int;
    pub(super) safe fn MPI_Type_commit(ty: &mut Datatype) -> c_int;
    pub(super) safe fn MPI_Type_free(ty: &mut Datatype) -> c_int;

    pub(super) safe fn MPI_T_init_thread(wanted: c_int, granted: &mut c_int) -> c_int;
    pub(super) safe fn MPI_T_finalize() -> c_int;
    pub(super) safe fn MPI_T_cvar_get_index(name: Text<'_>, index: &mut c_int) -> c_int;
    pub(super) safe fn MPI_T_cvar_handle_alloc(
        index: c_int,
        object: Nothing<'_>,
        setting: &mut Setting,
        count: &mut c_int,
    ) -> c_int;
    pub(super) safe fn MPI_T_cvar_handle_free(setting: &mut Setting) -> c_int;
}

/// `MPI_Testany`, on these requests.
pub(super) fn testany(
    requests: &mut [Request],
    index: &mut c_int,
    flag: &mut c_int,
    status: &mut ffi::MPI_Status,
) -> c_int {
    let n = list_len(requests);
    let first = requests.as_mut_ptr().cast();
    // SAFETY: during the call MPI reads and writes `n` requests, which is the length of the slice,
    // of a transparent type around MPI's. The others are references.
    unsafe { ffi::MPI_Testany(n, first, index, flag, status) }
}

/// `MPI_Testsome`, on these requests: those that are complete are null then.
pub(super) fn testsome<const N: usize>(requests: &mut [Request; N]) -> c_int {
    let (mut n_complete, mut indices) = (0, [0; N]);
    let n = list_len(requests);
    let (first, to) = (requests.as_mut_ptr().cast(), indices.as_mut_ptr());
    // SAFETY: a constant of the library, for which no status is written.
    let no_statuses = unsafe { ffi::RSMPI_STATUSES_IGNORE };
    // SAFETY: during the call MPI reads and writes `n` requests, and writes up to `n` indices. `n`
    // is the length of both arrays; requests are of a transparent type around MPI's. The count is a
    // reference.
    unsafe { ffi::MPI_Testsome(n, first, &raw mut n_complete, to, no_statuses) }
}

/// `MPI_Recv`, of up to as many bytes as there are.
pub(super) fn recv(
    bytes: &mut [u8],
    from: c_int,
    tag: c_int,
    comm: &Comm,
    status: &mut ffi::MPI_Status,
) -> c_int {
    let (n, ty) = (list_len(bytes), RSMPI_UINT8_T.raw());
    let to = bytes.as_mut_ptr().cast();
    // SAFETY: during the call MPI writes up to `n` bytes, which is the length of the slice.
    unsafe { ffi::MPI_Recv(to, n, ty, from, tag, comm.raw(), status) }
}

/// `MPI_Group_translate_ranks`, of as many ranks as there are in both slices.
pub(super) fn group_translate_ranks(
    group: &Group,
    ranks: &[c_int],
    other: &Group,
    in_other: &mut [c_int],
) -> c_int {
    assert_eq!(ranks.len(), in_other.len(), "a place for each rank");
    let (n, group, other) = (list_len(ranks), group.raw(), other.raw());
    let (from, to) = (ranks.as_ptr(), in_other.as_mut_ptr());
    // SAFETY: during the call MPI reads `n` ranks, and writes as many. `n` is the length of each
    // slice, as was asserted.
    unsafe { ffi::MPI_Group_translate_ranks(group, n, from, other, to) }
}

/// `MPI_Type_create_hindexed`, of as many blocks as there are in both slices.
pub(super) fn type_create_hindexed(
    lens: &[c_int],
    places: &[MPI_Aint],
    inner: &Datatype,
    new: &mut Datatype,
) -> c_int {
    assert_eq!(lens.len(), places.len(), "a place for each block");
    let (n, inner, new) = (list_len(lens), inner.raw(), new.place());
    let (lens, places) = (lens.as_ptr(), places.as_ptr());
    // SAFETY: during the call MPI reads `n` lengths and places. `n` is the length of each slice, as
    // was asserted.
    unsafe { ffi::MPI_Type_create_hindexed(n, lens, places, inner, new) }
}

/// `MPI_T_cvar_read`, of the `len` elements that MPI has announced for the setting.
pub(super) fn cvar_read(setting: &Setting, len: c_int, bytes: &mut Vec<u8>) -> c_int {
    /// The largest type that a setting has elements of (MPI-3.1, section 14.3.3).
    const ELEMENT_BYTES: usize = 8;
    // A text's length is that of the longest one, or, in Open MPI, of the one that it has now.
    let n_elements = usize::try_from(len).unwrap_or(0).max(4096);
    *bytes = vec![0; n_elements * ELEMENT_BYTES];
    // SAFETY: during the call MPI writes the elements that it has announced when it made the
    // handle, for which the buffer has room whatever their type is.
    unsafe { ffi::MPI_T_cvar_read(setting.0, bytes.as_mut_ptr().cast()) }
}

/// The length of the list as a C number.
fn list_len<T>(list: &[T]) -> c_int {
    c_int::try_from(list.len()).expect("lists are short: core keeps to `max_transfer`")
}
