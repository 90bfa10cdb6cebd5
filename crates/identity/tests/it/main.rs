//! Tests of the domain through its public API, on a database.

mod administrators;
mod audit_trail;
mod authentication;
mod billing;
mod catalog;
mod device_flow;
mod entitlements;
mod events;
mod keys;
mod leases;
mod links;
mod lists;
mod mail;
mod migrations;
mod organizations;
mod pending_device_codes;
mod previous_release;
mod search;
mod sessions;
mod statements;
mod subscriptions;
mod support;
mod tenancy;
mod users;
