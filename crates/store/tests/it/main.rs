//! What the store promises, through its public face.
//!
//! - `commands/`, `changes.rs`, `versions.rs`, `watches.rs`, `read_classes.rs`, `logs.rs`, `values.rs`, `faults.rs`: the same promises on every database.
//! - `flushes.rs`: by trace of the system calls.
//! - `random.rs`: any mixture of commands leaves exactly what the succeeding ones did.
//! - `sqlite.rs`, `postgres.rs`, `mysql.rs`: what only one of them can go through; `remote.rs`: what both servers can.
//!   `instances.rs`: several stores on one server. `reused_numbers.rs`: after a crash of MySQL. `epochs.rs`: after a
//!   restore or a crash of PostgreSQL. `outages.rs`, `killed_starts.rs`, `forbidden_setting.rs`, `failover.rs`, `late_commit.rs`,
//!   `pooler.rs`, `replicas.rs`, `restored_dump.rs`, `foreign_servers.rs`, `galera.rs`, `fault_injection.rs`, `tls.rs`: with servers of their own.
//!   `own_servers.rs`: these end with the process.
//!
//! PostgreSQL is the cluster of the environment variable `SARSEN_TEST_POSTGRES` (a URL of a user who
//! may create databases); each test makes a database of its own there. MySQL or MariaDB is the server of
//! `SARSEN_TEST_MYSQL`, in the same way.

#[macro_use]
mod support;

mod backup;
mod cache_memory;
mod changes;
mod commands;
mod disk;
mod epochs;
mod failover;
mod fault_injection;
mod faults;
mod flushes;
mod forbidden_setting;
mod foreign_servers;
mod galera;
mod instances;
mod killed_starts;
mod late_commit;
mod log_capture;
mod logs;
mod looks;
mod mysql;
mod outages;
mod own_servers;
mod pooler;
mod postgres;
mod proxy;
mod random;
mod read_classes;
mod remote;
mod replicas;
mod restored_dump;
mod reused_numbers;
mod rows;
mod runtimes;
mod sqlite;
mod tls;
mod transfer;
mod values;
mod versions;
mod watches;
