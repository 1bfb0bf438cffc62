//! The types and lengths of MPI in signatures, for documentation builds without an MPI library
//! (`--cfg pgas_docs`). Nothing is compiled with them: rustdoc does not examine the bodies of
//! functions.

pub mod ffi {
    pub type MPI_Aint = isize;
    pub type MPI_Comm = usize;
    pub type MPI_Datatype = usize;
    pub type MPI_Errhandler = usize;
    pub type MPI_Group = usize;
    pub type MPI_Info = usize;
    pub type MPI_Op = usize;
    pub type MPI_Request = usize;
    pub type MPI_Status = usize;
    pub type MPI_T_cvar_handle = usize;
    pub type MPI_Win = usize;

    pub const MPI_MAX_ERROR_STRING: u32 = 0;
    pub const MPI_MAX_LIBRARY_VERSION_STRING: u32 = 0;
}

pub mod raw {
    pub trait AsRaw {
        type Raw;
    }
}
