//! What the store promises, through its public face.

mod changes;
mod commands;
mod faults;
mod support;
