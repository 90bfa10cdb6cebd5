//! `request_log`: stores each request that it gets.

/// With many connections at once, glibc's allocator would take a third of the CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), live::Error> {
    let about = "Stores each request that it gets.";
    live::Program::new("request_log", about, "127.0.0.1:3000").run(request_log::app()).await
}
