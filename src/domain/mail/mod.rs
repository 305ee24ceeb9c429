//! Mail to users: the durable queue, and the words.
//!
//! A mail is queued by the plan that makes what it tells of, so that both are there or neither. It
//! is rendered when it is looked at or sent. Without a mail server the queue is a sink.

mod delivery;
mod model;
mod queue;
mod tables;
mod templates;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use delivery::withdraw;
pub use model::{Counts, Draft, Kind, RenderedMail, Status, Summary, Tested};
pub use templates::TemplateError;

use super::sealing::Sealer;
use crate::ports::Entropy;
use crate::ports::mailer::{Mailer, OutgoingMail, SendError, SmtpTranscript};
use crate::store::{All, Durability, Schema, Store, StoreError, Txn};
use crate::types::{Email, Locale, MailId, UnixSeconds, UserId};
use delivery::Delivery;
use queue::MailQueue;
use tables::{MailKey, MailRecord, Mails, MailsByDue, MailsByUser, id_of, key_of};
use templates::{Rendered, Templates, Values};

/// How many mails are kept; the oldest go, but for those that still wait for the server.
pub const MAILS_MAX: u64 = 10_000;
/// How many mails one plan of the sweep touches.
const BATCH: usize = 200;
/// What stands for a token or PIN that is no longer kept.
const REMOVED: &str = "(removed)";
/// What stands for a token or PIN that the reader may not see.
const MASKED: &str = "********";

/// Whether a rendered mail shows its token or PIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// As the recipient gets it.
    Shown,
    /// Asterisks in their place.
    Masked,
}

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

/// Why the queue cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    /// A template cannot be used.
    #[error("`mail.templates`: {0}")]
    Template(#[from] TemplateError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The queue of mails.
#[derive(Clone)]
pub struct Mail(Arc<Inner>);

struct Inner {
    store: Store,
    entropy: Arc<dyn Entropy>,
    settings: Settings,
    templates: Templates,
    vault: Sealer,
    mailer: Option<Arc<dyn Mailer>>,
    outbox: Arc<MailQueue>,
    delivery: Delivery,
}

impl Mail {
    /// The queue of a store. Tokens and PINs are sealed under `key`. Without a mailer mails stay
    /// where they are.
    ///
    /// # Errors
    /// What is wrong with a template, or that the store failed.
    pub fn open(
        store: Store,
        entropy: Arc<dyn Entropy>,
        key: &[u8; 32],
        settings: Settings,
        mailer: Option<Arc<dyn Mailer>>,
    ) -> Result<Self, MailError> {
        let templates = templates(settings.templates.as_deref())?;
        let outbox = Arc::new(MailQueue::default());
        store.attach::<Mails>(Arc::clone(&outbox) as _)?;
        Ok(Self(Arc::new(Inner {
            store,
            entropy,
            settings,
            templates,
            vault: Sealer::new(key),
            mailer,
            outbox,
            delivery: Delivery::default(),
        })))
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
        let status = match self.0.mailer {
            Some(_) => Status::Queued,
            None => Status::Sink,
        };
        self.insert(txn, draft, now, status, None)
    }

    fn insert(
        &self,
        txn: &mut Txn<'_>,
        draft: Draft,
        now: UnixSeconds,
        status: Status,
        words: Option<String>,
    ) -> Result<MailId, StoreError> {
        let newest = txn.scan::<Mails>(&All, 1)?;
        let number = newest.first().map_or(0, |((newest, _), _)| !newest + 1);
        // The table is a ring: what falls out at its end makes room for this one. What is to be sent
        // is not lost that way; the limits on mails bound it.
        let oldest = number.checked_sub(MAILS_MAX).map(|number| !number);
        if let Some(oldest) = oldest {
            for (key, mail) in txn.scan::<Mails>(&oldest, 1)? {
                if mail.status != Status::Queued {
                    txn.delete::<Mails>(&key)?;
                }
            }
        }
        let key: MailKey = (!number, self.0.entropy.array());
        let id = id_of(&key);
        let secret = Some(draft.secret).filter(|secret| !secret.is_empty());
        let record = MailRecord {
            kind: draft.kind,
            to: draft.to,
            user: draft.user,
            locale: draft.locale,
            secret: secret.map(|secret| {
                let entropy = &*self.0.entropy;
                self.0.vault.seal(id.as_bytes(), secret.as_bytes(), entropy)
            }),
            good_for: draft.good_for,
            created: now,
            status,
            attempts: u32::from(words.is_some()),
            next: now,
            words,
        };
        txn.put::<Mails>(&key, &record)?;
        Ok(id)
    }

    /// Up to `limit` mails, newest first; a cold read. A template may have the PIN in its subject, which
    /// is masked here for everybody.
    ///
    /// # Errors
    /// That the store failed.
    pub fn list(&self, limit: usize) -> Result<Vec<Summary>, StoreError> {
        let mails = self.0.store.read(|txn| txn.scan::<Mails>(&All, limit))?;
        Ok(mails
            .iter()
            .map(|(key, m)| self.letter(key, m, Secrets::Masked).summary)
            .collect())
    }

    /// One mail, or nothing; a cold read.
    ///
    /// # Errors
    /// That the store failed.
    pub fn show(&self, id: &MailId, secrets: Secrets) -> Result<Option<RenderedMail>, StoreError> {
        let key = key_of(id);
        let mail = self.0.store.read(|txn| txn.get::<Mails>(&key))?;
        Ok(mail.map(|mail| self.letter(&key, &mail, secrets)))
    }

    /// The mails about a user, newest first, with their secrets masked; a cold read.
    ///
    /// # Errors
    /// That the store failed.
    pub fn about(&self, user: &UserId) -> Result<Vec<RenderedMail>, StoreError> {
        self.0.store.read(|txn| {
            let mut letters = Vec::new();
            for (_, key) in txn.scan_index::<MailsByUser>(user, usize::MAX)? {
                let mail = txn.get::<Mails>(&key)?;
                letters.extend(mail.map(|mail| self.letter(&key, &mail, Secrets::Masked)));
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
        let rendered = self.render(kind, locale, &values);
        (rendered.subject, rendered.text, rendered.html)
    }

    /// Sends a test message, blocking; without a mail server it goes to the sink.
    ///
    /// Decision: it goes past the queue, once: an operator waits for what the server says.
    ///
    /// # Errors
    /// That the store failed.
    pub fn test(&self, to: Email, now: UnixSeconds) -> Result<Tested, StoreError> {
        let mut dialogue = SmtpTranscript::new();
        let (status, words) = match &self.0.mailer {
            None => (Status::Sink, None),
            Some(mailer) => match self.send_test(&**mailer, &to, now, &mut dialogue) {
                Ok(words) => (Status::Sent, Some(words)),
                Err(words) => (Status::Failed, Some(words)),
            },
        };
        let this = self.clone();
        let draft = Draft {
            kind: Kind::Test,
            to,
            user: None,
            locale: None,
            secret: String::new(),
            good_for: 0,
        };
        let plan = move |txn: &mut Txn<'_>| this.insert(txn, draft, now, status, words);
        let id = self.0.store.write(Durability::Durable, plan).wait()?;
        Ok(Tested {
            id,
            status,
            dialogue,
        })
    }

    fn send_test(
        &self,
        mailer: &dyn Mailer,
        to: &Email,
        now: UnixSeconds,
        dialogue: &mut SmtpTranscript,
    ) -> Result<String, String> {
        let values = Values {
            email: to.to_string(),
            ..Values::default()
        };
        let rendered = self.render(Kind::Test, None, &values);
        let parcel = OutgoingMail {
            id: MailId::from_bytes(self.0.entropy.array()),
            to: to.clone(),
            date: now,
            subject: rendered.subject,
            text: rendered.text,
            html: rendered.html,
        };
        let mut line = mailer.connect(dialogue).map_err(|trouble| trouble.words)?;
        let words = line
            .send(&parcel, dialogue)
            .map_err(|unsent| match unsent {
                SendError::Trouble(trouble) => trouble.words,
                SendError::Later(words) | SendError::Refused(words) => words,
            })?;
        line.close();
        Ok(words)
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
                .0
                .store
                .write(Durability::Logged, move |txn| sweep_batch(txn, now))
                .wait()?;
            touched += batch;
            if batch < BATCH {
                return Ok(touched);
            }
        }
    }

    /// A mail's words, in the language that was asked for, else in the configured one.
    fn render(&self, kind: Kind, locale: Option<&Locale>, values: &Values) -> Rendered {
        let asked = locale.map(Locale::as_str);
        let languages = asked.into_iter().chain([self.0.settings.language.as_str()]);
        let languages: Vec<&str> = languages.collect();
        self.0.templates.render(kind, &languages, values)
    }

    fn link(&self, token: &str, locale: Option<&Locale>) -> String {
        let settings = &self.0.settings;
        let locale = locale.map_or(settings.language.as_str(), Locale::as_str);
        settings
            .reset_url
            .replace("{locale}", locale)
            .replace("{token}", token)
    }

    /// The token or PIN of a mail, while it is kept.
    fn secret(&self, key: &MailKey, mail: &MailRecord) -> Option<String> {
        let sealed = mail.secret.as_ref()?;
        let opened = self.0.vault.open(id_of(key).as_bytes(), sealed)?;
        String::from_utf8(opened).ok()
    }

    fn letter(&self, key: &MailKey, mail: &MailRecord, secrets: Secrets) -> RenderedMail {
        let locale = mail.locale.as_ref();
        let secret = match secrets {
            Secrets::Shown => self.secret(key, mail),
            Secrets::Masked => mail.secret.as_ref().map(|_| MASKED.to_owned()),
        };
        let values = Values {
            email: mail.to.to_string(),
            link: secret
                .as_deref()
                .map_or(REMOVED.to_owned(), |token| self.link(token, locale)),
            pin: secret.unwrap_or_else(|| REMOVED.to_owned()),
            minutes: (mail.good_for / 60).to_string(),
        };
        let rendered = self.render(mail.kind, locale, &values);
        let waits = mail.status == Status::Queued;
        RenderedMail {
            summary: Summary {
                id: id_of(key),
                to: mail.to.clone(),
                subject: rendered.subject,
                kind: mail.kind,
                status: mail.status,
                created: mail.created,
                attempts: mail.attempts,
                next: Some(mail.next).filter(|_| waits),
                words: mail.words.clone(),
            },
            text: rendered.text,
            html: rendered.html,
            secrets,
        }
    }
}

/// The templates that are built in, with those of a directory in their place.
///
/// # Errors
/// What is wrong with one.
fn templates(directory: Option<&Path>) -> Result<Templates, TemplateError> {
    let mut templates = Templates::built_in()?;
    if let Some(directory) = directory {
        templates.read_directory(directory)?;
    }
    Ok(templates)
}

/// Whether the templates of a directory can be used.
///
/// # Errors
/// What is wrong with one. Decision: the service does not start then: half of the mails in the
/// operator's words and half in ours is what nobody wants, and nobody would notice.
pub fn check_templates(directory: &Path) -> Result<(), TemplateError> {
    templates(Some(directory)).map(|_| ())
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
