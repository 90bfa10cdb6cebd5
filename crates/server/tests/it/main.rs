//! What the server does, over plain HTTP: stories and attacks.

mod accounts;
mod authorize;
mod backups;
mod deletion;
mod device;
mod erasure;
mod first_start;
mod full_lane;
mod guessing;
mod housekeeping;
mod http;
mod idempotency;
mod instances;
mod invitations;
mod jose;
mod moving;
mod pages;
mod passwords;
mod presence;
mod sessions;
mod signed_in;
mod support;
mod tenancy;
mod token;
mod upgrades;
mod versions;
