//! `sarsen health`: whether the server of this configuration is ready, for the health checks of containers and scripts.

use crate::api_client::HttpClient;
use crate::config::{Config, ConfigFile};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The server itself tries a write for two seconds before it says that it is not ready.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Ask whether the server of this configuration is ready.
#[derive(clap::Args)]
#[command(
    after_help = "It asks the server on this machine for /readyz, at the first address of `listen`, and waits for 3 seconds at most.\n\
    It needs no secret, and does not check the certificate of a server with TLS.\n\n\
    Examples:\n\
    \x20   sarsen health\n\
    \x20   HEALTHCHECK CMD [\"sarsen\", \"health\"]\n\
    Exit code 1 when it is not ready or does not answer."
)]
pub struct Args {
    #[command(flatten)]
    config: ConfigFile,
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let config = Config::load(&args.config.flags(), environment)?;
    let address = config.listen.value.first().copied();
    let address = address.filter(|address| address.port() != 0).ok_or_else(|| {
        Error::usage("`listen` leaves the port to the system; health needs one that it can ask")
    })?;
    let address = local(address);
    let url = format!("{}://{address}/readyz", config.scheme());
    let answer = HttpClient::of_anybody(ANSWER_MAX).send_to_this_machine(&url, &address.to_string())?;
    match answer.status {
        200 => output::print("ready\n"),
        _ => Err(answer.refusal()),
    }
}

/// Where a program on this machine reaches a server that listens at this address.
pub(super) fn local(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
        _ => address,
    }
}
