//! `counters`: counters that users share, and that move live.

use live::auth::LocalIssuer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Made at the first start. Instances that share a database share this file too.
    let issuer = LocalIssuer::open("counters.key", "counters")?;
    let about = "Counters that users share, and that move live.";
    live::Program::new("counters", about, "127.0.0.1:8080").run(counters::app(issuer)).await?;
    Ok(())
}
