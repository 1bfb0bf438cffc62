//! The types and lengths of MPI that signatures name, for documentation that is built where no MPI
//! library is (`--cfg pgas_docs`). Nothing is
//! compiled with them: rustdoc does not look into functions.

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
