//! A fault that is injected into a database server during a run, by a program of its own: this crate has no database driver.

use std::path::Path;

use crate::error::Error;
use crate::launcher::{Launcher, ServerProcess};

/// The fault ends when the value is dropped, also when the run fails. It also ends when this process is killed.
pub(super) struct InjectedFault(Option<ServerProcess>);

impl InjectedFault {
    /// `what` is a subcommand of `sarsen-bench-tools inject-fault`.
    pub async fn begin(
        launcher: &Launcher,
        what: &str,
        database: &str,
        folder: &Path,
    ) -> Result<InjectedFault, Error> {
        let arguments = ["inject-fault", what, "--database", database];
        Ok(InjectedFault(Some(launcher.for_tools()?.start(what, &arguments, None, folder).await?)))
    }

    /// Ends the fault. A fault that has ended before is an error.
    pub fn end(mut self) -> Result<(), Error> {
        self.0.take().map_or(Ok(()), |mut process| process.end())
    }
}

impl Drop for InjectedFault {
    fn drop(&mut self) {
        if let Some(mut process) = self.0.take() {
            // Another error is returned already.
            let _ = process.end();
        }
    }
}
