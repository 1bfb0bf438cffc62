//! Why a value cannot be written or read.

use std::fmt;

/// Why a value cannot be written, or bytes cannot be read.
#[derive(Clone, Debug)]
pub struct Refused(Box<str>);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl serde::ser::Error for Refused {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self::new(why)
    }
}

impl serde::de::Error for Refused {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self::new(why)
    }
}

impl Refused {
    /// With a reason.
    #[cold]
    pub fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string().into())
    }
}
