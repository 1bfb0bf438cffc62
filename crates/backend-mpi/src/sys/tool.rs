//! Settings of the MPI library, by its tool interface (MPI-3.1, chapter 14).

use std::ffi::{CStr, c_int};

use pgas_core::Result;

use super::ffi::{
    MPI_Query_thread, MPI_T_cvar_get_index, MPI_T_cvar_handle_alloc, MPI_T_cvar_handle_free,
    MPI_T_finalize, MPI_T_init_thread, Setting, cvar_read,
};
use super::{Call, Mpi, check};

/// The library's value of the setting with this name, if it is a text.
pub(crate) fn setting(_: &Mpi, name: &CStr) -> Result<Option<String>> {
    let (mut level, mut granted): (c_int, c_int) = (0, 0);
    check(Call::QueryThread, MPI_Query_thread(&mut level))?;
    // The level that MPI runs with: Open MPI 4.1 takes the level given here for all of MPI, in the
    // answer of `MPI_Query_thread` and in whether it locks anything.
    let code = MPI_T_init_thread(level, &mut granted);
    check(Call::ToolInitThread, code)?;
    let read = read(name);
    check(Call::ToolFinalize, MPI_T_finalize())?;
    read
}

/// Reads a setting. Called between `MPI_T_init_thread` and `MPI_T_finalize`.
fn read(name: &CStr) -> Result<Option<String>> {
    let mut index: c_int = 0;
    if MPI_T_cvar_get_index(name.into(), &mut index) != 0 {
        return Ok(None);
    }
    let mut setting = Setting::none();
    let mut len: c_int = 0;
    let code = MPI_T_cvar_handle_alloc(index, None, &mut setting, &mut len);
    check(Call::ToolCvarHandleAlloc, code)?;
    let mut bytes = Vec::new();
    let code = cvar_read(&setting, len, &mut bytes);
    let read = check(Call::ToolCvarRead, code);
    let code = MPI_T_cvar_handle_free(&mut setting);
    check(Call::ToolCvarHandleFree, code)?;
    read?;
    let text = CStr::from_bytes_until_nul(&bytes).ok();
    Ok(text.map(|text| text.to_string_lossy().into_owned()))
}
