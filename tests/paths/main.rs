//! The paths against real parts: the Worker's own code, the real engine behind the real wire format, and the provider
//! model in process. Time stands still unless a test moves it.
#![cfg(not(target_arch = "wasm32"))]

mod answers;
mod backoff;
mod claim;
mod doubt;
mod freeze;
mod happy;
mod lease;
mod poison;
mod prune;
mod review;
mod settle;
mod support;
mod suspects;
mod waves;
