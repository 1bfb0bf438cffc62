//! The numbers by which Linux says why a call failed.

use std::io;

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errno(pub(super) u16);

impl Errno {
    pub(super) const PERM: Self = Self(1);
    pub(super) const NOENT: Self = Self(2);
    pub(super) const SRCH: Self = Self(3);
    pub(super) const IO: Self = Self(5);
    pub(super) const BADF: Self = Self(9);
    pub(super) const CHILD: Self = Self(10);
    pub(super) const AGAIN: Self = Self(11);
    pub(super) const NOMEM: Self = Self(12);
    pub(super) const ACCES: Self = Self(13);
    pub(super) const FAULT: Self = Self(14);
    pub(super) const EXIST: Self = Self(17);
    pub(super) const XDEV: Self = Self(18);
    pub(super) const NODEV: Self = Self(19);
    pub(super) const NOTDIR: Self = Self(20);
    pub(super) const ISDIR: Self = Self(21);
    pub(super) const INVAL: Self = Self(22);
    pub(super) const MFILE: Self = Self(24);
    pub(super) const NOTTY: Self = Self(25);
    pub(super) const NOSPC: Self = Self(28);
    pub(super) const SPIPE: Self = Self(29);
    pub(super) const ROFS: Self = Self(30);
    pub(super) const RANGE: Self = Self(34);
    pub(super) const NAMETOOLONG: Self = Self(36);
    pub(super) const NOSYS: Self = Self(38);
    pub(super) const NOTEMPTY: Self = Self(39);
    pub(super) const LOOP: Self = Self(40);
    pub(super) const OPNOTSUPP: Self = Self(95);
    pub(super) const TIMEDOUT: Self = Self(110);

    /// As a register holds it.
    pub(super) fn to_register(self) -> u64 {
        (-i64::from(self.0)).cast_unsigned()
    }
}

/// Whether the host has the guest's numbers, which a few architectures of Linux do not have.
const ARE_NUMBERS_THE_SAME: bool = cfg!(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
));

impl From<io::Error> for Errno {
    fn from(why: io::Error) -> Self {
        let number = why.raw_os_error().map(u16::try_from);
        if ARE_NUMBERS_THE_SAME && let Some(Ok(number)) = number {
            return Self(number);
        }
        match why.kind() {
            io::ErrorKind::NotFound => Self::NOENT,
            io::ErrorKind::PermissionDenied => Self::ACCES,
            io::ErrorKind::WouldBlock => Self::AGAIN,
            io::ErrorKind::AlreadyExists => Self::EXIST,
            io::ErrorKind::NotADirectory => Self::NOTDIR,
            io::ErrorKind::IsADirectory => Self::ISDIR,
            io::ErrorKind::InvalidInput => Self::INVAL,
            io::ErrorKind::DirectoryNotEmpty => Self::NOTEMPTY,
            io::ErrorKind::StorageFull => Self::NOSPC,
            io::ErrorKind::ReadOnlyFilesystem => Self::ROFS,
            io::ErrorKind::CrossesDevices => Self::XDEV,
            _ => Self::IO,
        }
    }
}
