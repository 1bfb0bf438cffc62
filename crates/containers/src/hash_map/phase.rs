//! What all ranks promise to do with a map, as types.

/// A phase of a map; the types of this module are all there are.
pub trait Phase: Sealed {
    /// For the message when ranks disagree, and for `Debug`.
    const NAME: &'static str;
}

mod sealed {
    /// Keeps the set of phases closed, and numbers it.
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Sealed {
        const NUMBER: u64;
    }
}

pub(super) use sealed::Sealed;

macro_rules! phases {
    ($($(#[$doc:meta])* $phase:ident = $number:literal: $name:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub enum $phase {}

            impl sealed::Sealed for $phase {
                const NUMBER: u64 = $number;
            }

            impl Phase for $phase {
                const NAME: &'static str = $name;
            }
        )*
    };
}

phases! {
    /// Any rank does anything at any time.
    Atomic = 1: "atomic";
    /// Any rank inserts, nobody looks.
    InsertOnly = 2: "insert only";
    /// Any rank looks, nobody changes anything.
    FindOnly = 3: "find only";
    /// Each rank works on what it holds itself, without atomics.
    Local = 4: "local";
}
