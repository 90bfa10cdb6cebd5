//! A whole back end over HTTP.

mod app;
mod authentication;
mod calls;
mod client;
mod crowd;
mod declarations;
mod defects;
mod effects;
mod galera;
mod limits;
mod live;
mod metrics;
mod outages;
mod own_routes;
mod previous_release;
mod rpc;
mod sarsen;
mod sites;
mod standing;
mod work;
