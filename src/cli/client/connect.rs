//! Connects to the operators' interface: through the administration socket of the data directory, or to a
//! service opened in this process.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};
use tracing_subscriber::filter::LevelFilter;

use super::lenient_stream::IgnoreWriteErrors;
use super::{Admin, admin_socket, request_body};
use crate::output::{self, Exit, Failure};
use crate::process::verify_subprocess;
use playgate_api::route_table::ROUTERS;
use playgate_app::{App, Parts, Ports, StoreOpener, open_store};
use playgate_config::Loaded;
use playgate_http::HttpState;
use playgate_http::server::listener;
use playgate_observe::log;
use playgate_store::{FleetAccess, FormatUpgrade, Store, StoreError};

const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// How long to wait for a server that starts, or for another command. A start takes minutes if it rebuilds a large store.
const MAX_WAIT: Duration = Duration::from_secs(120);
/// A user who waits for longer is told why.
const SILENT_WAIT: Duration = Duration::from_secs(3);
/// A server always answers it, and it changes nothing.
const PROBE: &str = "/livez";

impl Admin {
    pub(crate) async fn running(loaded: &Loaded) -> Result<Option<Self>, Failure> {
        let directory = &loaded.config.server.data_dir;
        let asking = async {
            loop {
                let Some(stream) = dial(directory).await? else {
                    return Ok(None);
                };
                // A server that stops, or executes itself again, closes connections that it has not answered. What a
                // command asks for must not be sent on one of them: it could not be repeated.
                if let Some(admin) = Self::answering(stream).await {
                    return Ok(Some(admin));
                }
                sleep(RETRY_INTERVAL).await;
            }
        };
        let asking = noted(asking, "the server does not answer yet; waiting for it");
        timeout(MAX_WAIT, asking).await.unwrap_or_else(|_| {
            let (place, seconds) = (directory.display(), MAX_WAIT.as_secs());
            let said = format!("the server of {place} has not answered for {seconds} seconds");
            Err(Failure::new(Exit::Fatal, said).hint(
                "it is still starting, or hangs; its log and `systemctl status playgate` say more",
            ))
        })
    }

    /// Returns a connection on which a server answers and which it keeps open.
    async fn answering(stream: UnixStream) -> Option<Self> {
        let mut admin = Self::over(stream).await.ok()?;
        let probe = admin.exchange(Method::GET, PROBE, "text/plain", request_body::nothing());
        probe.await.ok()?.into_body().collect().await.ok()?;
        admin.sender.ready().await.ok()?;
        Some(admin)
    }

    /// Connects to the running server, or opens the service in this process.
    pub(crate) async fn connect(loaded: Loaded) -> Result<Self, Failure> {
        let ports = Ports::for_machine(&loaded.config);
        let reached = Self::retry_in_use(async || {
            Ok(match Self::running(&loaded).await? {
                Some(admin) => Ok(Ok(admin)),
                None => open_for_command(&loaded, &ports, FleetAccess::Refuse).map(Err),
            })
        });
        match reached.await? {
            Ok(admin) => Ok(admin),
            Err(store) => Self::within(loaded, ports, store).await,
        }
    }

    /// Repeats an attempt while the store is in use: a starting server without a socket yet, or another command,
    /// holds the lock.
    pub(crate) async fn retry_in_use<T>(
        mut attempt: impl AsyncFnMut() -> Result<Result<T, StoreError>, Failure>,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + MAX_WAIT;
        let trying = async {
            loop {
                match attempt().await? {
                    Ok(done) => return Ok(done),
                    Err(StoreError::InUse) if Instant::now() < deadline => {
                        sleep(RETRY_INTERVAL).await;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        noted(
            trying,
            "another process uses the data directory; waiting for it",
        )
        .await
    }

    pub(crate) async fn to(http: Arc<HttpState>) -> Result<Self, Failure> {
        Self::over(listener::connect(http, &ROUTERS)).await
    }

    async fn within(loaded: Loaded, ports: Ports, store: Store) -> Result<Self, Failure> {
        // No server has a log of the cause behind an internal error. A process has one log: a second call changes nothing.
        let _ = log::init(log::Format::Text, LevelFilter::ERROR);
        let app = App::open(Parts {
            ports,
            config: loaded.config,
            store,
            // This process serves only itself: no address is bound.
            listener: None,
            tls: None,
            sync: !loaded.unsafe_no_sync,
            on_failure: Box::new(|error| output::print_note(&format!("error: {error}"))),
            examine: verify_subprocess::verify_in_subprocess(),
            // A command ends after its request: there is nothing to restart.
            restart: None,
            is_standby: false,
        })?;
        Self::to(app.http).await
    }

    async fn over<S>(stream: S) -> Result<Self, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(IgnoreWriteErrors(stream)))
            .await
            .map_err(|error| crate::client::admin::connection_failure(&error))?;
        tokio::spawn(async {
            // The pending request reports the end of the connection.
            let _ = connection.await;
        });
        Ok(Self { sender })
    }
}

/// Prints a note if the work takes long.
async fn noted<T>(work: impl Future<Output = T>, note: &str) -> T {
    tokio::pin!(work);
    match timeout(SILENT_WAIT, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            output::print_note(note);
            work.await
        }
    }
}

/// Opens the store for a command, while no server has it open.
pub(crate) fn open_for_command(
    loaded: &Loaded,
    ports: &Ports,
    fleet: FleetAccess,
) -> Result<Store, StoreError> {
    let opening = StoreOpener {
        lock: None,
        accept_loss: false,
        // Only the service raises the format: until it has, the earlier version can still be put back.
        upgrade: FormatUpgrade::Refuse,
        fleet,
        sync: !loaded.unsafe_no_sync,
        examine: verify_subprocess::verify_in_subprocess(),
        on_failure: Arc::new(|error| output::print_note(&format!("error: {error}"))),
    };
    open_store(&loaded.config, ports, opening)
}

async fn dial(directory: &Path) -> Result<Option<UnixStream>, Failure> {
    let connected = match admin_socket::SocketPath::of_server(directory) {
        Ok(place) => match UnixStream::connect(place.path()).await {
            Ok(stream) => place.check(&stream).map(|()| stream),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    match connected {
        Ok(stream) => Ok(Some(stream)),
        // No server, or one that was killed and left its socket file.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(Failure::new(
            Exit::Failed,
            format!(
                "{}: permission denied on the administration socket",
                directory.display()
            ),
        )
        .hint("run it as root, or as a member of the service's group")),
        Err(error) => Err(Failure::file(directory, &error)),
    }
}
