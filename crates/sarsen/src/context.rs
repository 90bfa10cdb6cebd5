//! What a command needs beside its arguments. It is below the commands, and `program` has all of them.

use crate::environment::Environment;
use crate::error::Result;
use server::WriterLimits;

/// What a command needs beside its arguments.
pub struct Context {
    /// The variables of the process.
    pub environment: Environment,
    /// Limits of the database's writer for `serve` and `demo`. Benchmarks and tests lower them.
    pub writer_limits: WriterLimits,
}

impl Context {
    /// The environment of this process and the default limits.
    pub fn of_this_process() -> Result<Context> {
        Ok(Context { environment: Environment::of_this_process()?, writer_limits: WriterLimits::default() })
    }
}
