//! Which tests run on which database. SQLite runs all of them; a test that opens no database runs there alone. The
//! store's tests choose their databases themselves and run on all three at once.

use crate::counts::Counts;
use crate::databases::{Database, Servers};
use crate::needs;
use crate::programs::{Programs, Selection};
use crate::report::Report;

const DOMAIN: Selection = Selection { package: "identity", modules: &[] };
/// The examples on the crate `live`.
const EXAMPLES: Selection = Selection { package: "tests", modules: &[] };
/// What the binary must survive.
const SURVIVAL: Selection = Selection { package: "sarsen", modules: &["survival::"] };

/// Subscriptions depend on the changes of other instances, and on what each database calls a version.
const LIVE: Selection = Selection { package: "live", modules: &[] };

const STORE: &[Selection] = &[Selection { package: "store", modules: &[] }];

/// Every day: what has failed on this database before, or can fail on no other.
const POSTGRES_DAILY: &[Selection] = &[
    DOMAIN,
    Selection {
        package: "server",
        modules: &[
            "billing::",
            "device::",
            "housekeeping::",
            "instances::",
            "live::",
            "presence::",
            "token::",
            "upgrades::",
            "versions::",
        ],
    },
    LIVE,
    EXAMPLES,
    SURVIVAL,
];
const MARIADB_DAILY: &[Selection] = &[
    DOMAIN,
    Selection { package: "server", modules: &["billing::", "device::", "presence::", "upgrades::"] },
    LIVE,
    EXAMPLES,
    SURVIVAL,
];

/// In a soak: all that asks for a database.
const ALL: &[Selection] = &[DOMAIN, Selection { package: "server", modules: &[] }, LIVE, EXAMPLES, SURVIVAL];

/// What `cargo xtask test` runs on these databases.
pub fn daily(report: &mut Report, programs: &Programs, servers: &Servers, databases: &[Database]) {
    if databases.contains(&Database::Sqlite) {
        let mut variables = servers.variables();
        // Pages of a test are open in Node.js, and only where there is PostgreSQL.
        if let Ok(node) = needs::node(&[]) {
            variables.push(("SARSEN_NODE", node.get_program().to_string_lossy().into_owned()));
        }
        report.step("unit", || programs.run_all(&variables));
    } else {
        report.step("unit of the store", || programs.run(STORE, &servers.variables()));
    }
    for (database, tests) in [(Database::Postgres, POSTGRES_DAILY), (Database::MariaDb, MARIADB_DAILY)] {
        if databases.contains(&database) {
            on(report, programs, servers, database, tests);
        }
    }
}

/// Every test on every server.
pub fn cross(report: &mut Report, programs: &Programs, servers: &Servers) {
    for database in [Database::Postgres, Database::MariaDb] {
        on(report, programs, servers, database, ALL);
    }
}

fn on(report: &mut Report, programs: &Programs, servers: &Servers, database: Database, tests: &[Selection]) {
    let run = || -> Result<Counts, String> { programs.run(tests, &servers.variables_for(database)) };
    report.step(&format!("unit on {}", database.name()), run);
}
