//! Libraries that are loaded at run time, and stay loaded for good.
#![expect(unsafe_code, reason = "loads libraries and looks into them")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

/// A library that is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Loaded(NonNull<c_void>);

impl Loaded {
    /// Loads a library by the ordinary library path, as `flags` of `dlopen` say.
    ///
    /// # Errors
    ///
    /// The cause, as a line.
    ///
    /// # Safety
    ///
    /// What the library's initializers do is no harm to this process.
    pub unsafe fn open(name: &CStr, flags: c_int) -> Result<Self, String> {
        // SAFETY: the text ends with a zero, and the caller promises the rest.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        NonNull::new(handle).map(Self).ok_or_else(loading_error)
    }

    /// The address of a function, of that version if one is named.
    ///
    /// # Errors
    ///
    /// The cause, as a line.
    pub fn function(self, name: &CStr, version: Option<&CStr>) -> Result<NonNull<c_void>, String> {
        let (handle, name) = (self.0.as_ptr(), name.as_ptr());
        let found = match version {
            // SAFETY: the library is loaded, and the texts end with a zero.
            Some(version) => unsafe { libc::dlvsym(handle, name, version.as_ptr()) },
            // SAFETY: as above.
            None => unsafe { libc::dlsym(handle, name) },
        };
        NonNull::new(found).ok_or_else(loading_error)
    }
}

/// The last error of loading on this thread, as a line.
fn loading_error() -> String {
    // SAFETY: it may be asked for at any time.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no cause was given".to_owned();
    }
    // SAFETY: it is a text that ends with a zero, and the thread's until it loads something again.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().replace('\n', " ")
}
