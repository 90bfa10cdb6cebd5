//! `counters`: counters that users share, and that move live.

use live::auth::LocalIssuer;

#[tokio::main]
async fn main() -> Result<(), live::Error> {
    let about = "Counters that users share, and that move live.";
    let program = live::Program::new("counters", about, "127.0.0.1:8080");
    // The file is made at the first start. Instances that share a database share it too.
    program.run_with(|| Ok(counters::app(LocalIssuer::open("counters.key", "counters")?))).await
}
