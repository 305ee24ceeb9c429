//! Mail to users: the durable queue, and the words.
//!
//! A mail is queued by the plan that makes what it tells of, so that both are there or neither. It
//! is rendered when it is looked at or sent. Without a mail server the queue is a sink.

mod model;
mod tables;
mod templates;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

pub use model::{Draft, Kind, Letter, Status, Summary};
pub use templates::TemplateError;

use crate::ports::Entropy;
use crate::store::{All, Durability, Schema, Store, StoreError, Txn};
use crate::types::{Email, Locale, MailId, UnixSeconds, UserId};
use tables::{MailKey, MailRecord, Mails, MailsByDue, MailsByUser, id_of, key_of};
use templates::{Templates, Values};

/// How many mails are kept; the oldest go.
pub const MAILS_MAX: u64 = 10_000;
/// How many mails one plan of the sweep touches.
const BATCH: usize = 200;
/// What stands for a token or PIN that is no longer kept.
const REMOVED: &str = "(removed)";

/// Adds this module's tables.
#[must_use]
pub fn schema(schema: Schema) -> Schema {
    schema.with::<Mails>()
}

/// Sections `mail` and `accounts.reset_url` of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of a reset mail, with `{token}` and `{locale}`. Nothing of a request goes into
    /// it: a `Host` header would send the token to its writer.
    pub reset_url: String,
    /// The language where none is asked for or the one asked for has no template.
    pub language: String,
    /// A directory of templates of one's own.
    pub templates: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            reset_url: "http://127.0.0.1:8080/reset?token={token}".to_owned(),
            language: "en".to_owned(),
            templates: None,
        }
    }
}

/// The queue of mails.
#[derive(Clone)]
pub struct Mail {
    store: Store,
    entropy: Arc<dyn Entropy>,
    settings: Arc<Settings>,
    templates: Arc<Templates>,
}

impl Mail {
    /// The queue of a store.
    ///
    /// # Errors
    /// What is wrong with a template.
    pub fn open(
        store: Store,
        entropy: Arc<dyn Entropy>,
        settings: Settings,
    ) -> Result<Self, TemplateError> {
        let mut templates = Templates::built_in()?;
        if let Some(directory) = &settings.templates {
            templates.read_directory(directory)?;
        }
        Ok(Self {
            store,
            entropy,
            settings: Arc::new(settings),
            templates: Arc::new(templates),
        })
    }

    /// Queues a mail within the plan that makes what it tells of.
    ///
    /// # Errors
    /// That the store failed.
    pub fn enqueue(
        &self,
        txn: &mut Txn<'_>,
        draft: Draft,
        now: UnixSeconds,
    ) -> Result<MailId, StoreError> {
        let newest = txn.scan::<Mails>(&All, 1)?;
        let number = newest.first().map_or(0, |((newest, _), _)| !newest + 1);
        // The queue is a ring: what falls out at its end makes room for this one.
        let oldest = number.checked_sub(MAILS_MAX).map(|number| !number);
        if let Some(oldest) = oldest {
            for (key, _) in txn.scan::<Mails>(&oldest, 1)? {
                txn.delete::<Mails>(&key)?;
            }
        }
        let key: MailKey = (!number, self.entropy.array());
        let record = MailRecord {
            kind: draft.kind,
            to: draft.to,
            user: draft.user,
            locale: draft.locale,
            secret: Some(draft.secret).filter(|secret| !secret.is_empty()),
            good_for: draft.good_for,
            created: now,
            status: Status::Sink,
        };
        txn.put::<Mails>(&key, &record)?;
        Ok(id_of(&key))
    }

    /// Up to `limit` mails, newest first; a cold read.
    ///
    /// # Errors
    /// That the store failed.
    pub fn list(&self, limit: usize) -> Result<Vec<Summary>, StoreError> {
        let mails = self.store.read(|txn| txn.scan::<Mails>(&All, limit))?;
        Ok(mails
            .iter()
            .map(|(key, m)| self.letter(key, m).summary)
            .collect())
    }

    /// One mail, or nothing; a cold read.
    ///
    /// # Errors
    /// That the store failed.
    pub fn show(&self, id: &MailId) -> Result<Option<Letter>, StoreError> {
        let key = key_of(id);
        let mail = self.store.read(|txn| txn.get::<Mails>(&key))?;
        Ok(mail.map(|mail| self.letter(&key, &mail)))
    }

    /// The mails about a user, newest first; a cold read.
    ///
    /// # Errors
    /// That the store failed.
    pub fn about(&self, user: &UserId) -> Result<Vec<Letter>, StoreError> {
        self.store.read(|txn| {
            let mut letters = Vec::new();
            for (_, key) in txn.scan_index::<MailsByUser>(user, usize::MAX)? {
                letters.extend(txn.get::<Mails>(&key)?.map(|mail| self.letter(&key, &mail)));
            }
            Ok(letters)
        })
    }

    /// How a mail of a kind looks in a language, with made-up values: subject, text, HTML.
    #[must_use]
    pub fn preview(&self, kind: Kind, locale: Option<&Locale>) -> (String, String, String) {
        let values = Values {
            email: "viewer@example.com".to_owned(),
            link: self.link("pgr_example", locale),
            pin: "1234".to_owned(),
            minutes: "30".to_owned(),
        };
        let rendered = self
            .templates
            .render(kind, &self.languages(locale), &values);
        (rendered.subject, rendered.text, rendered.html)
    }

    /// Queues a test message.
    ///
    /// # Errors
    /// That the store failed.
    pub fn test(&self, to: Email, now: UnixSeconds) -> Result<MailId, StoreError> {
        let this = self.clone();
        let draft = Draft {
            kind: Kind::Test,
            to,
            user: None,
            locale: None,
            secret: String::new(),
            good_for: 0,
        };
        self.store
            .write(Durability::Durable, move |txn| {
                this.enqueue(txn, draft, now)
            })
            .wait()
    }

    /// Takes the secrets out of mails that have had them long enough, and deletes old mails;
    /// returns how many it touched.
    ///
    /// # Errors
    /// That the store failed.
    pub fn sweep(&self, now: UnixSeconds) -> Result<usize, StoreError> {
        let mut touched = 0;
        loop {
            let batch = self
                .store
                .write(Durability::Logged, move |txn| sweep_batch(txn, now))
                .wait()?;
            touched += batch;
            if batch < BATCH {
                return Ok(touched);
            }
        }
    }

    fn languages<'a>(&'a self, locale: Option<&'a Locale>) -> Vec<&'a str> {
        locale
            .map(Locale::as_str)
            .into_iter()
            .chain([self.settings.language.as_str()])
            .collect()
    }

    fn link(&self, token: &str, locale: Option<&Locale>) -> String {
        let locale = locale.map_or(self.settings.language.as_str(), Locale::as_str);
        self.settings
            .reset_url
            .replace("{locale}", locale)
            .replace("{token}", token)
    }

    fn letter(&self, key: &MailKey, mail: &MailRecord) -> Letter {
        let locale = mail.locale.as_ref();
        let secret = mail.secret.as_deref();
        let values = Values {
            email: mail.to.to_string(),
            link: secret.map_or(REMOVED.to_owned(), |token| self.link(token, locale)),
            pin: secret.unwrap_or(REMOVED).to_owned(),
            minutes: (mail.good_for / 60).to_string(),
        };
        let rendered = self
            .templates
            .render(mail.kind, &self.languages(locale), &values);
        Letter {
            summary: Summary {
                id: id_of(key),
                to: mail.to.clone(),
                subject: rendered.subject,
                kind: mail.kind,
                status: mail.status,
                created: mail.created,
            },
            text: rendered.text,
            html: rendered.html,
        }
    }
}

/// Deletes what is held of a user, within the plan that erases the account.
///
/// # Errors
/// That the store failed.
pub fn erase_user(txn: &mut Txn<'_>, user: &UserId) -> Result<(), StoreError> {
    for (_, key) in txn.scan_index::<MailsByUser>(user, usize::MAX)? {
        txn.delete::<Mails>(&key)?;
    }
    Ok(())
}

fn sweep_batch(txn: &mut Txn<'_>, now: UnixSeconds) -> Result<usize, StoreError> {
    let due = txn.range_index::<MailsByDue>(&UnixSeconds(i64::MIN), &(now + 1), BATCH)?;
    for (_, key) in &due {
        let Some(mail) = txn.get::<Mails>(key)? else {
            continue;
        };
        if mail.secret.is_some() {
            let secret = None;
            txn.put::<Mails>(key, &MailRecord { secret, ..mail })?;
        } else {
            txn.delete::<Mails>(key)?;
        }
    }
    Ok(due.len())
}
