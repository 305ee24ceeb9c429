//! The yardstick: hyper with a timer, as production must have it, and a fixed body. Request bodies are appended to a
//! file, which is synced as often as the telemetry log.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

const SYNC_EVERY: Duration = Duration::from_millis(500);

/// Creates a file for request bodies and removes its name.
fn sink() -> Arc<File> {
    let path = std::env::temp_dir().join(format!("playgate-bench-{}", std::process::id()));
    let file = Arc::new(File::create(&path).expect("a temporary file"));
    let _ = std::fs::remove_file(path);
    let synced = Arc::clone(&file);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(SYNC_EVERY);
            synced.sync_data().expect("the disk takes what was written");
        }
    });
    file
}

/// Prints its address, then answers every request with `length` bytes.
pub fn serve(length: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async move {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        println!(
            "listening on http://{}",
            listener.local_addr().expect("a bound socket")
        );
        let body = Bytes::from(vec![b'x'; length]);
        let file = sink();
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                continue;
            };
            let _ = socket.set_nodelay(true);
            let (body, file) = (body.clone(), Arc::clone(&file));
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let (body, file) = (body.clone(), Arc::clone(&file));
                    async move {
                        if request.method() == hyper::Method::POST {
                            let sent = request.into_body().collect().await;
                            let sent = sent.expect("the load sends whole bodies").to_bytes();
                            (&*file).write_all(&sent).expect("there is room");
                        }
                        Ok::<_, Infallible>(Response::new(Full::new(body)))
                    }
                });
                let _ = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .serve_connection(TokioIo::new(socket), service)
                    .await;
            });
        }
    });
}
