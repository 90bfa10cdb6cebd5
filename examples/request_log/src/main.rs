//! `request_log`: stores each request that it gets.

#[tokio::main]
async fn main() -> Result<(), live::Error> {
    let about = "Stores each request that it gets.";
    live::Program::new("request_log", about, "127.0.0.1:3000").run(request_log::app()).await
}
