//! `sarsen-bench-tools floor`: the bare server that benchmarks compare with.

use sarsen::{Error, Result, output, server_process};
use std::net::SocketAddr;

/// Run the bare server that benchmarks compare with.
#[derive(clap::Args)]
pub struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until a signal ends the process. Prints one line of JSON when it listens.
pub fn run(args: &Args) -> Result<()> {
    let listening = |address: SocketAddr| {
        let line = serde_json::json!({ "listen": format!("http://{address}") });
        if let Err(error) = output::print(&format!("{line}\n")) {
            error.print();
        }
    };
    let served = server_process::runtime()?.block_on(server::bare_server::serve(args.listen, listening));
    served.map_err(Error::io("the bare server ended"))
}
