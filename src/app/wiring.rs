//! The dependencies of the services, and how each service is opened.

use std::sync::Arc;

use super::key_files::KeyError;
use super::{AppError, key_files, settings};
use playgate_api::partner::telemetry::events::write_line;
use playgate_config::Config;
use playgate_domain::accounts::{Accounts, Dependencies, Eraser};
use playgate_domain::catalog::{self, Catalog};
use playgate_domain::clock_guard::ExpiryClock;
use playgate_domain::entitlement;
use playgate_domain::epg_sources::EpgSources;
use playgate_domain::mail::{Mail, MailError};
use playgate_domain::partners::Partners;
use playgate_domain::playback::{self, Playback, PlaybackContext, Signing};
use playgate_domain::playback_context::ServiceContext;
use playgate_domain::schedule::{self, Schedule};
use playgate_formats::epg_json;
use playgate_ports::Entropy;
use playgate_ports::fetch::Fetch;
use playgate_records::journal::{self, RequestJournal};
use playgate_records::quality::{Quality, QualitySettings};
use playgate_records::telemetry::{self, Forwarder, Telemetry};
use playgate_store::Store;

pub(super) struct Assembly<'a> {
    config: &'a Config,
    store: &'a Store,
    entropy: &'a Arc<dyn Entropy>,
    expiry: Arc<ExpiryClock>,
    /// Whether the store has served before, so that its key files must exist.
    in_use: bool,
}

impl<'a> Assembly<'a> {
    pub(super) const fn new(
        config: &'a Config,
        store: &'a Store,
        entropy: &'a Arc<dyn Entropy>,
        expiry: Arc<ExpiryClock>,
        in_use: bool,
    ) -> Self {
        Self {
            config,
            store,
            entropy,
            expiry,
            in_use,
        }
    }

    /// Reads a key, or creates it. If a store in use had it before, logs what its loss means.
    fn key(&self, name: &str) -> Result<[u8; 32], KeyError> {
        let data_dir = &self.config.server.data_dir;
        match key_files::read(data_dir, name) {
            Ok(Some(key)) => return Ok(key),
            Ok(None) if self.in_use => self.report_missing(name),
            Ok(None) => {}
            Err(error) if error.is_about_file() => key_files::set_aside(data_dir, name, error)?,
            Err(error) => return Err(error),
        }
        key_files::make(data_dir, name, &**self.entropy)
    }

    fn report_missing(&self, name: &str) {
        let file = key_files::path(&self.config.server.data_dir, name);
        let loss = key_files::loss(name);
        tracing::warn!(file = %file.display(), "key file missing, creating a new key: {loss}");
    }

    pub(super) fn mail(&self, public_url: &str) -> Result<Mail, AppError> {
        let key = self.key(key_files::MAIL)?;
        let letters = settings::mail(self.config, public_url)?;
        let mailer = settings::mailer(self.config)?;
        let entropy = Arc::clone(self.entropy);
        Mail::open(self.store.clone(), entropy, &key, letters, mailer).map_err(
            |error| match error {
                MailError::Store(error) => error.into(),
                MailError::Template(_) => AppError::setting(error),
            },
        )
    }

    pub(super) fn accounts(&self, mail: &Mail, partners: &Partners) -> Result<Accounts, AppError> {
        // Called in the transaction that erases the account, so that no module keeps data of an erased user.
        let erasers: Vec<Eraser> = vec![
            |txn, user, _| entitlement::erase_user(txn, user),
            playback::revocation::erase,
            telemetry::request_erasure,
            journal::request_erasure,
        ];
        let accounts = Accounts::open(
            self.store.clone(),
            Arc::clone(self.entropy),
            settings::accounts(self.config),
            Dependencies {
                mail: mail.clone(),
                partners: partners.clone(),
                erasers,
                // Called in the transaction that ends all logins of an account: somebody who knew its password must not
                // continue to play.
                revokers: vec![playback::revocation::revoke],
                key: self.key(key_files::ACCOUNTS)?,
                expiry: Arc::clone(&self.expiry),
            },
        )?;
        Ok(accounts)
    }

    pub(super) fn catalog(&self) -> Result<Catalog, AppError> {
        let data_dir = &self.config.server.data_dir;
        // A new key in place of a lost one would make the content keys unreadable without notice. The encrypted
        // records name the key that they need.
        let (present, unusable) = match key_files::read(data_dir, key_files::CONTENT) {
            Ok(present) => (present, None),
            Err(error) => (None, Some(error)),
        };
        let lost = catalog::keys_of_another_master(self.store, present.as_ref())?;
        if let (Some(_), Some(error)) = (lost, unusable) {
            return Err(error.into());
        }
        if let Some(sealed) = lost {
            let path = key_files::path(data_dir, key_files::CONTENT);
            return Err(AppError::Key(match present {
                None => KeyError::Missing { path, sealed },
                Some(_) => KeyError::Exchanged { path, sealed },
            }));
        }
        // Nothing is encrypted yet, or the key fits.
        let master = self.key(key_files::CONTENT)?;
        let zone = settings::catalog(self.config);
        let catalog = Catalog::open(self.store.clone(), Arc::clone(self.entropy), &master, zone)?;
        Ok(catalog)
    }

    pub(super) fn schedule(&self, catalog: &Catalog) -> Result<Arc<Schedule>, AppError> {
        let catalog = catalog.clone();
        // Passed as a function, because every rendering must read a new snapshot: a change of rights needs no new
        // guide.
        let rights = Box::new(move || catalog.snapshot() as Arc<dyn schedule::Rights>);
        let view = settings::schedule(self.config);
        Schedule::open(self.store.clone(), rights, view)
            .map(Arc::new)
            .map_err(AppError::setting)
    }

    pub(super) fn epg_sources(
        &self,
        schedule: &Arc<Schedule>,
        catalog: &Catalog,
        fetch: Box<dyn Fetch>,
    ) -> Result<EpgSources, AppError> {
        let (store, entropy) = (self.store.clone(), Arc::clone(self.entropy));
        let sources = settings::epg_sources(self.config)?;
        let schedule = Arc::clone(schedule);
        Ok(EpgSources::open(
            store,
            (schedule, catalog.clone()),
            sources,
            fetch,
            entropy,
            epg_json::source,
        )?)
    }

    pub(super) fn playback(&self, context: ServiceContext) -> Result<Playback, AppError> {
        let context: Arc<dyn PlaybackContext> = Arc::new(context);
        let origin_key = match &self.config.origin.signing_key {
            Some(secret) => settings::signing_key(secret),
            None => self.key(key_files::ORIGIN)?,
        };
        let signing = Signing::new(&origin_key, self.config.cdn.networks.clone());
        let limits = settings::playback(self.config);
        let entropy = Arc::clone(self.entropy);
        let expiry = Arc::clone(&self.expiry);
        Ok(Playback::open(
            self.store, entropy, limits, signing, context, expiry,
        )?)
    }

    pub(super) fn telemetry(
        &self,
        sync: bool,
        on_failure: Box<dyn Fn(String) + Send + Sync>,
    ) -> Result<(Telemetry, Option<Arc<Forwarder>>), AppError> {
        let events = settings::telemetry(self.config, sync);
        let telemetry = Telemetry::open(self.store.clone(), events, move |error| {
            on_failure(error.to_string());
        })
        .map_err(AppError::Telemetry)?;
        let Some(sink) = settings::sink(self.config)? else {
            return Ok((telemetry, None));
        };
        let forwarder = Forwarder::open(
            telemetry.clone(),
            Box::new(sink),
            // The HTTP interface owns the JSON form, which the domain must not import.
            |event, out| Ok(write_line(event, out)?),
            settings::forwarding(self.config),
            Arc::clone(self.entropy),
        )
        .map_err(AppError::Telemetry)?;
        Ok((telemetry, Some(Arc::new(forwarder))))
    }

    pub(super) fn journal(&self, sync: bool) -> Result<RequestJournal, AppError> {
        let settings = settings::journal(self.config, sync);
        RequestJournal::open(self.store.clone(), settings).map_err(AppError::Threads)
    }

    pub(super) fn quality(&self, sync: bool, partners: &Partners) -> Result<Quality, AppError> {
        let own_unit = partners.duration_units();
        let configured = self.config.telemetry.duration_unit;
        Ok(Quality::open(QualitySettings {
            directory: self.config.server.data_dir.join("quality"),
            sync,
            unit_of: Box::new(move |partner| own_unit(partner).unwrap_or(configured)),
        })?)
    }
}
