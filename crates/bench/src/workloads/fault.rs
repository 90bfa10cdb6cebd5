//! Something that is done to a database server for as long as a run takes, by a program of its own: this crate knows no
//! database.

use std::path::Path;

use crate::error::Error;
use crate::launcher::{Launcher, ServerProcess};

/// Ends with this value, also when the run fails or is interrupted; the program also ends when this one is killed.
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

    /// Brings things back in order; fails when it did not last until now.
    pub fn end(mut self) -> Result<(), Error> {
        self.0.take().map_or(Ok(()), |mut process| process.end())
    }
}

impl Drop for InjectedFault {
    fn drop(&mut self) {
        if let Some(mut process) = self.0.take() {
            // Something else has failed already, and is told.
            let _ = process.end();
        }
    }
}
