//! The help of the workloads on small back ends, which must be enough to run them.

use bench::Command;
use clap::{CommandFactory as _, Parser};

#[derive(Parser)]
#[command(name = "sarsen bench")]
struct Cli {
    #[command(subcommand)]
    _command: Command,
}

#[test]
fn the_workloads_on_back_ends_explain_themselves() {
    let mut cli = Cli::command();
    cli.build();
    let text = ["writes", "attempts", "live", "capacity", "auth", "seeds"].map(|name| {
        let command = cli.find_subcommand_mut(name).unwrap_or_else(|| panic!("{name}"));
        format!("=== sarsen bench {name}\n{}", command.render_long_help())
    });
    insta::assert_snapshot!(text.join("\n"));
}
