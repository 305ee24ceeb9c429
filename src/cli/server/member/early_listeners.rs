//! The listeners of a member until its services are open: viewers and commands are passed on to the owner unread, and the
//! probes of operators speak of this member.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::output::{self, Failure};
use crate::server::listeners;
use crate::server::startup::Startup;
use playgate_http::RouteSet;
use playgate_http::server::connection_limiter::ConnectionLimits;
use playgate_http::server::maintenance::{self, Notice};
use playgate_http::server::pass_on::{self, PassOn};

const REASON: &str = "this member has not read the log of its fleet yet; if that lasts, etcd does not answer: run `playgate doctor`";

pub(super) struct EarlyListeners(Vec<JoinSet<()>>);

impl EarlyListeners {
    pub(super) async fn open(startup: &Startup, pass_on: &PassOn) -> Result<Self, Failure> {
        let config = &startup.config;
        let bound = listeners::all(config, startup.tls.as_ref()).await?;
        for address in &bound.shown {
            if let Err(failure) = output::line(&format!("listening on {address}")) {
                tracing::warn!("{failure}");
            }
        }
        let admin = listeners::admin(&config.server.data_dir)?;
        let listeners = bound.listeners.into_iter().map(Arc::new);
        let (clients, operators): (Vec<_>, Vec<_>) =
            listeners.partition(|listener| listener.options.routes == RouteSet::Public);
        let passed_on: Vec<_> = clients.into_iter().chain(admin.map(Arc::new)).collect();
        let hosts = config.ops.hosts.clone();
        let notice = Notice::new(REASON.to_owned(), &config.http.header_prefix, hosts)
            .map_err(Failure::fatal)?;
        Ok(Self(vec![
            pass_on::serve(&passed_on, ConnectionLimits::from(config), pass_on),
            maintenance::serve(&operators, notice),
        ]))
    }

    /// Stops accepting. The sockets stay open in this process, and the listeners of the service take them over.
    pub(super) async fn close(&mut self) {
        for tasks in &mut self.0 {
            tasks.shutdown().await;
        }
    }
}
