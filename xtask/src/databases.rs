//! The database servers of a run, and the variables by which tests find them.

use crate::mariadb::MariaDb;
use crate::needs::{self, Need};
use crate::postgres::Postgres;
use crate::report::Report;

/// What the tests of the domain and of the HTTP face may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    Sqlite,
    Postgres,
    MariaDb,
}

pub const ALL: [Database; 3] = [Database::Sqlite, Database::Postgres, Database::MariaDb];

const POSTGRES: &str = "SARSEN_TEST_POSTGRES";
const POSTGRES_REPLICA: &str = "SARSEN_TEST_POSTGRES_REPLICA";
const MYSQL: &str = "SARSEN_TEST_MYSQL";

impl Database {
    pub fn name(self) -> &'static str {
        match self {
            Database::Sqlite => "sqlite",
            Database::Postgres => "postgres",
            Database::MariaDb => "mariadb",
        }
    }

    pub fn named(name: &str) -> Option<Database> {
        ALL.into_iter().find(|database| database.name() == name)
    }

    /// The programs that its tests start.
    pub fn needs(self) -> Vec<&'static Need> {
        match self {
            Database::Sqlite => vec![&needs::STRACE],
            Database::Postgres => {
                vec![&needs::POSTGRES, &needs::PGBOUNCER, &needs::NGINX, &needs::NODE, &needs::OPENSSL]
            }
            Database::MariaDb => vec![&needs::MARIADB, &needs::GALERA, &needs::OPENSSL],
        }
    }
}

/// Servers that end with this value. One that the environment names already is not started.
#[derive(Default)]
pub struct Servers {
    // The standby first: it ends before what it follows.
    standby: Option<Postgres>,
    postgres: Option<Postgres>,
    mariadb: Option<MariaDb>,
    wanted: Vec<Database>,
}

impl Servers {
    pub fn start(report: &mut Report, wanted: &[Database]) -> Servers {
        let mut servers = Servers { wanted: wanted.to_vec(), ..Servers::default() };
        if wanted.contains(&Database::Postgres) && !is_set(POSTGRES) {
            report.check("postgres starts", || {
                servers.postgres = Some(Postgres::start()?);
                Ok(true)
            });
            report.check("its standby starts", || {
                servers.standby = servers.postgres.as_ref().map(Postgres::start_standby).transpose()?;
                Ok(true)
            });
        }
        if wanted.contains(&Database::MariaDb) && !is_set(MYSQL) {
            report.check("mariadb starts", || {
                servers.mariadb = Some(MariaDb::start()?);
                Ok(true)
            });
        }
        servers
    }

    /// For tests that choose their databases themselves. A database that is not wanted is not named, also when the
    /// environment names it.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = Vec::new();
        if !self.wanted.contains(&Database::Postgres) {
            variables.extend([POSTGRES, POSTGRES_REPLICA].map(|name| (name, String::new())));
        }
        if !self.wanted.contains(&Database::MariaDb) {
            variables.push((MYSQL, String::new()));
        }
        variables.extend(self.postgres.iter().map(|server| (POSTGRES, server.url().to_owned())));
        variables.extend(self.standby.iter().map(|server| (POSTGRES_REPLICA, server.url().to_owned())));
        variables.extend(self.mariadb.iter().map(|server| (MYSQL, server.url().to_owned())));
        variables
    }

    /// For tests that run on one database.
    pub fn variables_for(&self, database: Database) -> Vec<(&'static str, String)> {
        let mut variables = self.variables();
        variables.push(("SARSEN_TEST_DATABASE", database.name().to_owned()));
        variables
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

#[test]
fn a_database_that_is_not_wanted_is_not_named() {
    let servers = Servers { wanted: vec![Database::Sqlite], ..Servers::default() };
    let named: Vec<_> = servers.variables().into_iter().filter(|(_, url)| !url.is_empty()).collect();
    assert_eq!(named, []);
    assert_eq!(servers.variables().len(), 3, "what the environment names is taken away");
}
