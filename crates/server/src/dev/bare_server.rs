//! The baseline of `bench cost`: `200 "ok"` on the same HTTP stack.

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// Serves `ok` at every path until the process ends. Reports the address once it listens.
pub async fn serve(address: SocketAddr, listening: impl FnOnce(SocketAddr)) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    listening(listener.local_addr()?);
    let router = axum::Router::new().route("/", axum::routing::get(async || "ok"));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let router = hyper_util::service::TowerToHyperService::new(router.clone());
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).writev(false);
        let connection = builder.serve_connection(TokioIo::new(stream), router);
        // A client may close its connection at any time.
        tokio::spawn(async move { connection.await.is_ok() });
    }
}
