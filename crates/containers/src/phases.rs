//! Phases of containers, as types.

/// Defines the phases of a kind of container: the trait `Phase`, a type for each phase, and their
/// names. `$FACT` is what the library knows of each phase, besides its number.
macro_rules! phases {
    (
        $(#[$of_phase:meta])* trait Phase;
        $(#[$of_fact:meta])* const $FACT:ident: bool;
        $($(#[$doc:meta])* $phase:ident = $number:literal: $name:literal, $fact:literal;)*
    ) => {
        $(#[$of_phase])*
        pub trait Phase: Sealed {
            /// The name that `Debug` shows.
            const NAME: &'static str;
        }

        mod sealed {
            /// Keeps the set of phases closed, and numbers it.
            #[expect(unnameable_types, reason = "sealed")]
            pub trait Sealed: 'static {
                /// The index in [`NAMES`](super::NAMES).
                const NUMBER: usize;
                $(#[$of_fact])*
                const $FACT: bool;
            }
        }

        pub(super) use sealed::Sealed;

        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub enum $phase {}

            impl Sealed for $phase {
                const NUMBER: usize = $number;
                const $FACT: bool = $fact;
            }

            impl Phase for $phase {
                const NAME: &'static str = $name;
            }
        )*

        /// The names of the phases, for the error when ranks disagree.
        pub(super) const NAMES: &[&str] = &[$($name),*];
    };
}
pub(crate) use phases;
