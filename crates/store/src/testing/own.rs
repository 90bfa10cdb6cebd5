//! A database server of a test's own, of the kind that the run is for: what must hold on each of them is said once.

use super::own_mariadb::OwnMariaDb;
use super::own_server::OwnServer;
use super::{Kind, kind};

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As its service ends it, in the middle of what is under way.
    Orderly,
    /// With no time for anything.
    Crash,
}

/// A server that is stopped and removed with this value.
pub enum OwnDatabase {
    Postgres(OwnServer),
    MariaDb(OwnMariaDb),
}

impl OwnDatabase {
    /// None where the run is for a file, or the server cannot be started here.
    pub fn start() -> Option<OwnDatabase> {
        match kind() {
            Kind::Sqlite => None,
            Kind::Postgres => OwnServer::start().map(OwnDatabase::Postgres),
            Kind::Mysql => OwnMariaDb::start().map(OwnDatabase::MariaDb),
        }
    }

    /// For [`crate::Options`].
    pub fn url(&self) -> String {
        match self {
            OwnDatabase::Postgres(server) => server.url(),
            OwnDatabase::MariaDb(server) => server.url(),
        }
    }

    /// Ends it; its data stay.
    pub fn stop(&mut self, how: End) {
        match (self, how) {
            (OwnDatabase::Postgres(server), End::Orderly) => server.stop("fast"),
            (OwnDatabase::Postgres(server), End::Crash) => server.stop("immediate"),
            (OwnDatabase::MariaDb(server), how) => server.stop(how),
        }
    }

    /// Starts it after [`OwnDatabase::stop`], where it was.
    pub fn resume(&mut self) {
        match self {
            OwnDatabase::Postgres(server) => server.resume(),
            OwnDatabase::MariaDb(server) => server.resume(),
        }
    }
}
