//! The real program, run as people run it.
//!
//! `support.rs`: starting and ending it. `browser.rs`: a person at a browser without scripts.

mod administration;
mod bench;
mod browser;
mod configuration;
mod crash;
mod demo;
mod doctor;
mod durability;
mod help;
mod serving;
mod signing_in;
mod support;
