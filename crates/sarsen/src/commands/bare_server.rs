//! `sarsen bench-floor-server`: the bare server that the bench compares with. Hidden.

use crate::error::{Error, Result};
use crate::{output, server_process};
use std::net::SocketAddr;

/// The bare server that the bench compares with: answers "ok" to everything.
#[derive(clap::Args)]
pub struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until it is killed; prints one line of JSON once it listens.
pub fn run(args: &Args) -> Result<()> {
    let listening = |address: SocketAddr| {
        let line = serde_json::json!({ "listen": format!("http://{address}") });
        if let Err(error) = output::print(&format!("{line}\n")) {
            error.print();
        }
    };
    let served = server_process::runtime()?.block_on(server::bare_server::serve(args.listen, listening));
    served.map_err(Error::io("the floor server ended"))
}
