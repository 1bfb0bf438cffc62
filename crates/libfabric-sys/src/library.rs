//! The library itself, loaded at run time.
#![expect(unsafe_code, reason = "loads a library and takes functions out of it")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::mem;
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::bindings::{fi_fabric_attr, fi_info, fid_fabric};
use crate::dynamic::Loaded;
use crate::handlers::Kept;

/// The library's name: that of its interface since 1.0.
const NAME: &CStr = c"libfabric.so.1";

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi_info,
    *mut *mut fi_info,
) -> c_int;
type DupInfo = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
type FreeInfo = unsafe extern "C" fn(*mut fi_info);
type Fabric = unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
type VersionOf = unsafe extern "C" fn() -> u32;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;

/// The functions that libfabric exports, as far as they are of use. It stays loaded for good.
#[derive(Debug)]
pub struct Library {
    /// `fi_getinfo`: what there is.
    pub getinfo: GetInfo,
    /// `fi_dupinfo`: a copy, or an empty one of a null pointer.
    pub dupinfo: DupInfo,
    /// `fi_freeinfo`.
    pub freeinfo: FreeInfo,
    /// `fi_fabric`: opens a fabric.
    pub fabric: Fabric,
    version: VersionOf,
    strerror: StrError,
}

/// Why there is no library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    cause: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = &self.cause;
        write!(
            f,
            "libfabric 1.17 or later cannot be loaded ({cause}); install it (Debian: libfabric1)"
        )
    }
}

impl std::error::Error for LoadError {}

/// A version of libfabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Loads the library by the ordinary library path, the first time; then gives what that gave.
///
/// # Errors
///
/// A sentence of one line with the cause and the package to install.
pub fn load() -> Result<&'static Library, LoadError> {
    static LOADED: OnceLock<Result<Library, LoadError>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| Library::open(NAME).map_err(|cause| LoadError { cause }));
    loaded.as_ref().map_err(Clone::clone)
}

impl Library {
    /// What is loaded, which may be newer than the bindings.
    #[must_use]
    pub fn version(&self) -> Version {
        // SAFETY: the function takes nothing, and reads a constant.
        let version = unsafe { (self.version)() };
        Version {
            major: version >> 16,
            minor: version & 0xffff,
        }
    }

    /// The text of an error code, whatever its sign.
    #[must_use]
    pub fn error_text(&self, code: c_int) -> String {
        // SAFETY: any number may be asked for.
        let text = unsafe { (self.strerror)(code.saturating_abs()) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: it is a text that ends with a zero, and stays as it is.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }

    fn open(name: &CStr) -> Result<Self, String> {
        let kept = Kept::now();
        // SAFETY: what initializers of the library do is what programs that are linked with it rely
        // on.
        let loaded = unsafe { Loaded::open(name, libc::RTLD_NOW | libc::RTLD_LOCAL) };
        drop(kept);
        let loaded = loaded?;
        let function = |name, version| loaded.function(name, Some(version));
        // By the versions of the interface that the bindings are of: a later library has others
        // beside them, whose structures are longer.
        let getinfo = function(c"fi_getinfo", c"FABRIC_1.3")?;
        let dupinfo = function(c"fi_dupinfo", c"FABRIC_1.3")?;
        let freeinfo = function(c"fi_freeinfo", c"FABRIC_1.3")?;
        let fabric = function(c"fi_fabric", c"FABRIC_1.1")?;
        let version = function(c"fi_version", c"FABRIC_1.0")?;
        let strerror = function(c"fi_strerror", c"FABRIC_1.0")?;
        let library = Self {
            // SAFETY: this is the function's type in the headers of that version.
            getinfo: unsafe { mem::transmute_copy::<NonNull<c_void>, GetInfo>(&getinfo) },
            // SAFETY: as above.
            dupinfo: unsafe { mem::transmute_copy::<NonNull<c_void>, DupInfo>(&dupinfo) },
            // SAFETY: as above.
            freeinfo: unsafe { mem::transmute_copy::<NonNull<c_void>, FreeInfo>(&freeinfo) },
            // SAFETY: as above.
            fabric: unsafe { mem::transmute_copy::<NonNull<c_void>, Fabric>(&fabric) },
            // SAFETY: as above.
            version: unsafe { mem::transmute_copy::<NonNull<c_void>, VersionOf>(&version) },
            // SAFETY: as above.
            strerror: unsafe { mem::transmute_copy::<NonNull<c_void>, StrError>(&strerror) },
        };
        let found = library.version();
        if found < OLDEST {
            return Err(format!("it is version {found}"));
        }
        Ok(library)
    }
}

/// The version whose headers the bindings are made of.
const OLDEST: Version = Version {
    major: 1,
    minor: 17,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_in_one_line_with_its_package() {
        let cause = Library::open(c"libno-such-fabric.so.1").unwrap_err();
        let told = LoadError { cause }.to_string();
        assert!(told.contains("libno-such-fabric.so.1"), "{told}");
        assert!(told.contains("Debian: libfabric1"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }

    #[test]
    fn another_library_is_refused_with_the_name_of_what_it_lacks() {
        let cause = Library::open(c"libc.so.6").unwrap_err();
        assert!(cause.contains("fi_getinfo"), "{cause}");
    }
}
