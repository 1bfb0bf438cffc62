//! Settings of the MPI library, by its tool interface (MPI-3.1, chapter 14).

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use mpi::ffi;
use pgas_core::Result;

use super::{Call, Mpi, check};

/// What the library has for the setting of this name, if it knows one that is a text.
pub(crate) fn setting(_: &Mpi, name: &CStr) -> Result<Option<String>> {
    // SAFETY: a constant of the library.
    let level = unsafe { ffi::RSMPI_THREAD_SERIALIZED };
    let mut granted: c_int = 0;
    // SAFETY: may be called at any time, and any number of times; `granted` is writable.
    let code = unsafe { ffi::MPI_T_init_thread(level, &raw mut granted) };
    check(Call::ToolInitThread, code)?;
    let read = read(name);
    // SAFETY: the end of what was begun above.
    check(Call::ToolFinalize, unsafe { ffi::MPI_T_finalize() })?;
    read
}

/// Between `MPI_T_init_thread` and `MPI_T_finalize`.
fn read(name: &CStr) -> Result<Option<String>> {
    let mut index: c_int = 0;
    // SAFETY: the name ends with a zero, and the index is writable.
    if unsafe { ffi::MPI_T_cvar_get_index(name.as_ptr(), &raw mut index) } != 0 {
        return Ok(None);
    }
    let mut handle: ffi::MPI_T_cvar_handle = ptr::null_mut();
    let mut len: c_int = 0;
    let (no_object, to) = (ptr::null_mut(), &raw mut handle);
    // SAFETY: the index is valid; a setting of the whole library belongs to no object.
    let code = unsafe { ffi::MPI_T_cvar_handle_alloc(index, no_object, to, &raw mut len) };
    check(Call::ToolCvarHandleAlloc, code)?;
    // A text has at least its final zero; longer ones than this are not what is asked for here.
    let mut bytes: Vec<c_char> = vec![0; usize::try_from(len).unwrap_or(0).max(4096) + 1];
    // SAFETY: the buffer has room for the `len` elements that the library has announced, of at most 8 bytes.
    let code = unsafe { ffi::MPI_T_cvar_read(handle, bytes.as_mut_ptr().cast()) };
    let read = check(Call::ToolCvarRead, code);
    // SAFETY: the handle was made above, and is not used any more.
    let code = unsafe { ffi::MPI_T_cvar_handle_free(&raw mut handle) };
    check(Call::ToolCvarHandleFree, code)?;
    read?;
    // SAFETY: the buffer was zero, and its last byte still is.
    let text = unsafe { CStr::from_ptr(bytes.as_ptr()) };
    Ok(Some(text.to_string_lossy().into_owned()))
}
