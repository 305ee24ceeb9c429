//! The fleet of a data directory: its membership, and the clients of its etcd and of the other members.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::output::Failure;
use playgate_config::{Config, FleetConfig};
use playgate_fleet::etcd::{EtcdSettings, Login};
use playgate_fleet::health::FleetReporter;
use playgate_fleet::membership::Membership;
use playgate_fleet::peer_keys::PeerKeys;
use playgate_fleet::peers::PeerClient;
use playgate_fleet::recovery::PendingRecovery;
use playgate_ports::SystemClock;

/// The membership of a data directory, if it agrees with the configuration.
pub(crate) fn membership(config: &Config) -> Result<Option<Membership>, Failure> {
    let mut membership = Membership::read(&config.server.data_dir)?;
    if let Some(current) = &membership
        && config.fleet.endpoints.is_empty()
        && PendingRecovery::read(&config.server.data_dir, current.fleet).is_some()
    {
        // `fleet recover` has made the data those of this member alone.
        Membership::remove(&config.server.data_dir)?;
        membership = None;
    }
    match (&membership, config.fleet.endpoints.is_empty()) {
        (None, true) | (Some(_), false) => Ok(membership),
        (Some(_), true) => Err(Failure::usage(
            "the data directory belongs to a fleet, and `fleet.endpoints` is not set",
        )
        .hint("set `fleet.endpoints`, or run `playgate fleet leave`; if etcd is lost, `playgate fleet recover`")),
        (None, false) => Err(Failure::usage(
            "`fleet.endpoints` is set, and the data directory belongs to no fleet",
        )
        .hint("run `playgate fleet init` for the first member, or `playgate fleet join` with an invitation")),
    }
}

pub(crate) fn etcd(config: &FleetConfig) -> Result<EtcdSettings, Failure> {
    let login = config.username.clone().zip(
        config
            .password
            .as_ref()
            .map(|password| password.reveal().to_owned()),
    );
    let endpoints = config.endpoints.len();
    let login = login.map(|(name, password)| Arc::new(Login::new(name, password, endpoints)));
    Ok(EtcdSettings {
        endpoints: config.endpoints.clone(),
        tls: playgate_app::etcd_tls(config)?,
        login,
        timeout: Duration::from_secs(5),
        errors: Arc::default(),
    })
}

pub(crate) fn address(config: &FleetConfig) -> String {
    config
        .advertise
        .clone()
        .unwrap_or_else(|| config.listen.to_string())
}

/// Builds the reporter on etcd and the members. It uses the system clock: a lab clock that was moved says nothing about
/// the clock of the machine.
pub(crate) fn reporter(config: &Config, membership: Membership) -> Result<FleetReporter, Failure> {
    Ok(FleetReporter {
        etcd: etcd(&config.fleet)?,
        client: peer_client(config, &membership)?,
        membership,
        clock: Arc::new(SystemClock),
        runtime: Handle::current(),
    })
}

pub(crate) fn peer_client(config: &Config, membership: &Membership) -> Result<PeerClient, Failure> {
    let keys = PeerKeys::open(membership, &config.server.data_dir)?;
    client_with(Arc::new(keys))
}

pub(crate) fn client_with(keys: Arc<PeerKeys>) -> Result<PeerClient, Failure> {
    PeerClient::new(keys).map_err(Failure::fatal)
}
