//! `counters`: counters that users share, and that move live.

use live::auth::LocalIssuer;

#[tokio::main]
async fn main() -> Result<(), live::Error> {
    let about = "Counters that users share, and that move live.";
    let program = live::Program::new("counters", about, "127.0.0.1:8080");
    // The file is made at the first start. Instances that share a database share it too.
    let issuer = || LocalIssuer::open("counters.key", "counters");
    program.run_with(counters::app(), |app| Ok(counters::with_issuer(app, issuer()?))).await
}
