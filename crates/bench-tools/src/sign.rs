//! `sarsen-bench-tools sign`: signs an access token for each grant of a filled database, with the key of the demo.

use sarsen::{Error, Result, output, parse_database, server_process};
use serde_json::json;
use server::signed_tokens::Signer;
use server::{Clock as _, SecretKey, SystemClock, SystemRandom};
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::time::Instant;

/// Sign access tokens for the grants of a filled database.
#[derive(clap::Args)]
pub struct Args {
    /// The demo's database; no other process may use it
    #[arg(long, value_name = "URL")]
    database: String,
    /// The file with the demo's secret key
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// The demo's issuer
    #[arg(long, value_name = "URL")]
    issuer: String,
    /// The list of grants that `fill` has written
    #[arg(long, value_name = "FILE")]
    grants_file: PathBuf,
    /// Number of tokens
    #[arg(long, value_name = "N")]
    tokens: usize,
    /// Where to write the tokens, one a line
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Signs them. Prints one line of JSON at the end.
pub fn run(args: &Args) -> Result<()> {
    let database = parse_database(&args.database)?;
    let text = std::fs::read_to_string(&args.key_file).map_err(Error::file("read", &args.key_file))?;
    let wrong = |error| Error::failed(format!("{}: {error}", args.key_file.display()));
    let secret_key = SecretKey::parse(&text).map_err(wrong)?;
    let list = File::open(&args.grants_file).map_err(Error::file("read", &args.grants_file))?;
    let out = File::create(&args.out).map_err(Error::file("write", &args.out))?;
    let began = Instant::now();
    let store = server_process::open_store(&database, server::store_options(database.url()))?;
    let signer = Signer { store: &store, secret_key, issuer: &args.issuer, random: &SystemRandom };
    let (mut list, mut out) = (BufReader::new(list), BufWriter::new(out));
    let signed = signer.sign(&mut list, args.tokens, &mut out, SystemClock.now());
    let signed = server_process::runtime()?.block_on(signed);
    store.close();
    let tokens = signed.map_err(|error| Error::failed(error.to_string()))?;
    output::print_json(&json!({ "tokens": tokens, "seconds": began.elapsed().as_secs_f64() }))
}
