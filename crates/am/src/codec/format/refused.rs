//! The reason why a value cannot be encoded or decoded.

use std::fmt;

/// The reason why a value cannot be encoded, or bytes cannot be decoded.
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
    /// Makes it of a reason.
    #[cold]
    pub fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string().into())
    }
}
