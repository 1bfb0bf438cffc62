//! The report from outside: its hints, what it shows, and how its page looks.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damaged;
mod drawn;
mod hints;
mod made_up;
