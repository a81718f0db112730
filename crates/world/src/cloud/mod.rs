//! A simulated cloud: sells machines, starts and ends them, and goes wrong as told.
//!
//! `Account` is all of it: plain data that is told the time and asked. What it is like is a `Weather`; whom
//! it strikes follows from a seed. `SimulatedCloud` is the same behind the `Cloud` trait, in tokio's time.

mod account;
pub(crate) mod fate;
mod hand;
mod history;
mod life;
mod look;
mod market;
mod purchase;
mod simulated;
mod storm;
#[cfg(test)]
mod tests;
pub mod weather;

pub use account::{Account, Reply};
pub use history::{Call, Ending, Event, Happening, Purchase, Record, Registration};
pub use simulated::{Happenings, SimulatedCloud};
pub use weather::Weather;
