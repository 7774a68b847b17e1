//! The path of a delivered batch: from envelopes to one decision for each message.
//!
//! IO steps, and what a death right after each leaves behind:
//!
//! 0. *Park* unreadable envelopes (only if there are any). Dead after it: the messages come again and are parked under
//!    the same hash.
//! 1. *Claim* (one transaction). Dead after it: rows stand in `processing`; messages and, at the lease's end, the relay
//!    bring them back, and they run alone then.
//! 2. *Seal and open attempts* (one transaction); rows whose quiet hours have begun are given back in it. Dead after it: as after 1, and the open attempts are doubts: until
//!    the provider window closes the sealed bytes are repeated under their key, afterwards the row is `unknown`.
//! 3. *Call* the provider, side by side. Dead after it: the same; the repetition is answered with the first id.
//! 4. *Settle* (one transaction). Dead after it: the messages are not acknowledged and come again; the claim finds
//!    settled rows and acknowledges.
//! 5. *Acknowledge or retry*, message by message, by the caller. Lost: the same as after 4.
//!
//! Where little of the provider window is left, steps 2 to 4 run in waves of as many rows as are called at once, each
//! wave opened by the transaction that closes the one before. Rows whose last claim ended without a settle go through
//! steps 1 to 4 one by one after all others.

mod batch;
mod calls;
mod decision;
mod finish;
mod outside;
mod parcel;
mod prepare;
mod run;
mod verdict;
mod waves;

pub use batch::{Delivery, consume};
pub use decision::{Decision, retry_delay};
