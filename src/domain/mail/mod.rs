//! Mail to users: the durable queue, delivery and templates.
//!
//! A mail is queued in the same write batch as the change that it announces, so both are stored or neither is.
//! It is rendered when it is shown or sent. Without a mail server mails are only stored (status `sink`).

mod brand;
mod delivery;
mod greeting;
mod layout;
mod model;
mod queue;
mod refusals;
mod retry;
mod tables;
mod template_text;
mod templates;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use brand::{Brand, Logo};
pub(crate) use delivery::withdraw;
pub use model::{
    MailCounts, MailDraft, MailKind, MailStatus, RenderedMail, Retried, Summary, TestResult,
};
pub(crate) use templates::TemplateError;

use super::batches::in_batches;
use super::sealing::Sealer;
use delivery::Delivery;
use greeting::greeting_name;
use playgate_ports::Entropy;
use playgate_ports::mailer::{Mailer, OutgoingMail, SendError, SmtpTranscript};
use playgate_store::{Durability, Schema, Store, StoreError, Txn};
use playgate_types::{Email, Locale, MailId, PersonName, UnixSeconds, UserId};
use queue::MailQueue;
use tables::{MailKey, MailRecord, Mails, MailsByDue, MailsByUser, id_of, key_of};
use template_text::TemplateValues;
use templates::{Rendered, Templates};

/// Maximum number of stored mails. The oldest are removed first, except queued ones.
pub(crate) const MAILS_MAX: u64 = 10_000;
const BATCH: usize = 200;
/// Shown for a token or PIN that is no longer stored.
const REMOVED: &str = "(removed)";
/// Shown for a token or PIN that the reader may not see.
const MASKED: &str = "********";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    Shown,
    Masked,
}

pub fn schema(schema: Schema) -> Schema {
    schema.with::<Mails>()
}

#[derive(Clone, Debug)]
pub struct MailSettings {
    /// Template of the link, with `{token}` and `{locale}`. It must not contain data of a request: an attacker could set
    /// `Host` and receive the token.
    pub reset_url: String,
    /// The language if no locale is requested or the requested one has no template.
    pub language: String,
    pub templates: Option<PathBuf>,
    pub brand: Brand,
    /// Finds the name of a user. Accounts are above this module.
    pub name_of: NameOf,
}

pub type NameOf = fn(&Txn<'_>, &UserId) -> Result<Option<PersonName>, StoreError>;

impl Default for MailSettings {
    fn default() -> Self {
        Self {
            reset_url: "http://127.0.0.1:8080/reset?token={token}".to_owned(),
            language: "en".to_owned(),
            templates: None,
            brand: Brand::default(),
            name_of: |_, _| Ok(None),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum MailError {
    #[error("`mail.templates`: {0}")]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone)]
pub struct Mail(Arc<Inner>);

struct Inner {
    store: Store,
    entropy: Arc<dyn Entropy>,
    settings: MailSettings,
    templates: Templates,
    sealer: Sealer,
    mailer: Option<Arc<dyn Mailer>>,
    queue: Arc<MailQueue>,
    delivery: Delivery,
}

impl Mail {
    /// Tokens and PINs are sealed under `key`. Without a mailer mails are only stored.
    pub fn open(
        store: Store,
        entropy: Arc<dyn Entropy>,
        key: &[u8; 32],
        settings: MailSettings,
        mailer: Option<Arc<dyn Mailer>>,
    ) -> Result<Self, MailError> {
        let templates = templates(&settings.brand, settings.templates.as_deref())?;
        let queue = Arc::new(MailQueue::default());
        // Fills the queue with the stored mails.
        store.attach::<Mails>(Arc::clone(&queue) as _)?;
        Ok(Self(Arc::new(Inner {
            store,
            entropy,
            settings,
            templates,
            sealer: Sealer::new(key),
            mailer,
            queue,
            delivery: Delivery::default(),
        })))
    }

    /// Queues a mail in the write batch of the change that it announces.
    pub fn enqueue(
        &self,
        txn: &mut Txn<'_>,
        draft: MailDraft,
        now: UnixSeconds,
    ) -> Result<MailId, StoreError> {
        let status = match self.0.mailer {
            Some(_) => MailStatus::Queued,
            None => MailStatus::Sink,
        };
        self.insert(txn, draft, now, status, None)
    }

    fn insert(
        &self,
        txn: &mut Txn<'_>,
        draft: MailDraft,
        now: UnixSeconds,
        status: MailStatus,
        response: Option<String>,
    ) -> Result<MailId, StoreError> {
        // Keys hold the complement of the number, so the first record is the newest.
        // Its contents are not needed: a damaged mail must not refuse every reset.
        let newest = txn.scan_from::<Mails>(None, 1)?;
        let number = newest.first().map_or(0, |((newest, _), _)| !newest + 1);
        // The table is a ring buffer: the mail that falls out makes room for this one. Queued mails are exempt;
        // rate limits bound their number.
        let oldest = number.checked_sub(MAILS_MAX).map(|number| !number);
        if let Some(oldest) = oldest {
            for (key, mail) in txn.scan_from::<Mails>(Some(&(oldest, [0; 8])), 1)? {
                // A damaged mail is not sent.
                let queued = mail.is_some_and(|mail| mail.status == MailStatus::Queued);
                if key.0 == oldest && !queued {
                    txn.delete::<Mails>(&key)?;
                }
            }
        }
        // Message-IDs contain ids of mails. The random part keeps recipients from guessing other ids.
        let key: MailKey = (!number, self.0.entropy.array());
        let id = id_of(&key);
        // Sealed under the id of the mail, so that it opens in no other record.
        let secret = Some(draft.secret).filter(|secret| !secret.is_empty());
        let record = MailRecord {
            kind: draft.kind,
            to: draft.to,
            user: draft.user,
            locale: draft.locale,
            secret: secret.map(|secret| {
                let entropy = &*self.0.entropy;
                self.0
                    .sealer
                    .seal(id.as_bytes(), secret.as_bytes(), entropy)
            }),
            good_for: draft.good_for,
            created: now,
            queued: now,
            status,
            // Only a test mail has a response before it is stored: its delivery was attempted already.
            attempts: u32::from(response.is_some()),
            next: now,
            response,
        };
        txn.put::<Mails>(&key, &record)?;
        Ok(id)
    }

    /// Newest first; reads from disk. Damaged mails are skipped; `store verify` reports them.
    pub fn list(&self, limit: usize) -> Result<Vec<Summary>, StoreError> {
        let mails = self
            .0
            .store
            .read(|txn| txn.scan_from::<Mails>(None, limit))?;
        let summary = |(key, mail): &(MailKey, Option<MailRecord>)| {
            let mail = mail.as_ref()?;
            let languages = self.languages(mail.locale.as_ref());
            let subject = self.0.templates.subject(mail.kind, &languages);
            Some(summary(key, mail, subject))
        };
        Ok(mails.iter().filter_map(summary).collect())
    }

    pub fn show(&self, id: &MailId, secrets: Secrets) -> Result<Option<RenderedMail>, StoreError> {
        let key = key_of(id);
        let mail = self.0.store.read(|txn| {
            let mail = txn.get::<Mails>(&key)?;
            Ok::<_, StoreError>(mail.map(|mail| self.render_mail(txn, &key, &mail, secrets)))
        })?;
        Ok(mail.map(|mail| RenderedMail {
            html: self.for_screens(&mail.html),
            ..mail
        }))
    }

    /// Newest first, with masked secrets and without damaged mails; reads from disk.
    pub fn mails_of_user(&self, user: &UserId) -> Result<Vec<RenderedMail>, StoreError> {
        self.0.store.read(|txn| {
            let mut mails = Vec::new();
            for (_, key) in txn.scan_index::<MailsByUser>(user, usize::MAX)? {
                let mail = intact(txn, &key)?;
                mails.extend(mail.map(|mail| self.render_mail(txn, &key, &mail, Secrets::Masked)));
            }
            Ok(mails)
        })
    }

    pub fn preview(&self, kind: MailKind, locale: Option<&Locale>) -> (String, String, String) {
        let values = TemplateValues {
            email: "viewer@example.com".to_owned(),
            link: self.link("pgr_example", locale),
            pin: "1234".to_owned(),
            minutes: "30".to_owned(),
            name: "Ann".to_owned(),
        };
        let rendered = self.render(kind, locale, &values);
        let html = self.for_screens(&rendered.html);
        (rendered.subject, rendered.text, html)
    }

    /// Sends a test message once. Blocking. Without a mail server the message is only stored.
    pub fn test(&self, to: Email, now: UnixSeconds) -> Result<TestResult, StoreError> {
        let mut dialogue = SmtpTranscript::new();
        // Bypasses the queue, because the operator waits for the server's answer.
        let (status, response) = match &self.0.mailer {
            None => (MailStatus::Sink, None),
            Some(mailer) => match self.send_test(&**mailer, &to, now, &mut dialogue) {
                Ok(response) => (MailStatus::Sent, Some(response)),
                Err(response) => (MailStatus::Failed, Some(response)),
            },
        };
        let this = self.clone();
        let draft = MailDraft {
            kind: MailKind::Test,
            to,
            user: None,
            locale: None,
            secret: String::new(),
            good_for: 0,
        };
        let batch = move |txn: &mut Txn<'_>| this.insert(txn, draft, now, status, response);
        // Recorded after the attempt, with its result, so that the delivery job does not send it.
        let id = self.0.store.write(Durability::Durable, batch).wait()?;
        Ok(TestResult {
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
        let values = TemplateValues {
            email: to.to_string(),
            ..TemplateValues::default()
        };
        let rendered = self.render(MailKind::Test, None, &values);
        let outgoing = OutgoingMail {
            id: MailId::from_bytes(self.0.entropy.array()),
            to: to.clone(),
            date: now,
            subject: rendered.subject,
            text: rendered.text,
            html: rendered.html,
            logo: self.carried_logo(),
        };
        let mut line = mailer
            .connect(dialogue)
            .map_err(|failure| failure.response)?;
        let response = line
            .send(&outgoing, dialogue)
            .map_err(|unsent| match unsent {
                SendError::Unavailable(failure) => failure.response,
                SendError::Later(response)
                | SendError::Refused(response)
                | SendError::Invalid(response) => response,
            })?;
        line.close();
        Ok(response)
    }

    pub fn sweep(&self, now: UnixSeconds) -> Result<usize, StoreError> {
        in_batches(BATCH, || {
            self.0
                .store
                .write(Durability::Logged, move |txn| sweep_batch(txn, now))
                .wait()
        })
    }

    fn languages<'a>(&'a self, locale: Option<&'a Locale>) -> Vec<&'a str> {
        let asked = locale.map(Locale::as_str);
        let languages = asked.into_iter().chain([self.0.settings.language.as_str()]);
        languages.collect()
    }

    fn render(&self, kind: MailKind, locale: Option<&Locale>, values: &TemplateValues) -> Rendered {
        let languages = self.languages(locale);
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

    /// Returns the token or PIN of a mail; `None` once it is erased.
    fn secret(&self, key: &MailKey, mail: &MailRecord) -> Option<String> {
        let sealed = mail.secret.as_ref()?;
        let opened = self.0.sealer.open(id_of(key).as_bytes(), sealed)?;
        String::from_utf8(opened).ok()
    }

    fn render_mail(
        &self,
        txn: &Txn<'_>,
        key: &MailKey,
        mail: &MailRecord,
        secrets: Secrets,
    ) -> RenderedMail {
        let locale = mail.locale.as_ref();
        let secret = match secrets {
            Secrets::Shown => self.secret(key, mail),
            // A masked secret is not decrypted.
            Secrets::Masked => mail.secret.as_ref().map(|_| MASKED.to_owned()),
        };
        // A mail without the name is better than none.
        let name = mail
            .user
            .and_then(|user| (self.0.settings.name_of)(txn, &user).ok()?);
        let values = TemplateValues {
            name: name
                .as_ref()
                .and_then(greeting_name)
                .unwrap_or_default()
                .to_owned(),
            email: mail.to.to_string(),
            link: secret
                .as_deref()
                .map_or(REMOVED.to_owned(), |token| self.link(token, locale)),
            pin: secret.unwrap_or_else(|| REMOVED.to_owned()),
            minutes: (mail.good_for / 60).to_string(),
        };
        let rendered = self.render(mail.kind, locale, &values);
        RenderedMail {
            summary: summary(key, mail, rendered.subject),
            text: rendered.text,
            html: rendered.html,
            secrets,
        }
    }
}

fn summary(key: &MailKey, mail: &MailRecord, subject: String) -> Summary {
    // The next attempt is meaningful only for a queued mail.
    let waits = mail.status == MailStatus::Queued;
    Summary {
        id: id_of(key),
        to: mail.to.clone(),
        subject,
        kind: mail.kind,
        status: mail.status,
        created: mail.created,
        attempts: mail.attempts,
        next: Some(mail.next).filter(|_| waits),
        response: mail.response.clone(),
    }
}

fn templates(brand: &Brand, directory: Option<&Path>) -> Result<Templates, TemplateError> {
    let mut templates = Templates::built_in(brand)?;
    if let Some(directory) = directory {
        templates.read_directory(directory)?;
    }
    Ok(templates)
}

/// Checks the templates of a directory.
///
/// # Errors
/// The first invalid template. The service then does not start: a silent fallback to the built-in text would go
/// unnoticed.
pub fn check_templates(directory: &Path) -> Result<(), TemplateError> {
    templates(&Brand::default(), Some(directory)).map(|_| ())
}

/// Deletes a user's mails, in the write batch that erases the account.
pub fn erase_user(txn: &mut Txn<'_>, user: &UserId) -> Result<(), StoreError> {
    for (_, key) in txn.scan_index::<MailsByUser>(user, usize::MAX)? {
        txn.delete::<Mails>(&key)?;
    }
    Ok(())
}

fn sweep_batch(txn: &mut Txn<'_>, now: UnixSeconds) -> Result<usize, StoreError> {
    let due = txn.range_index::<MailsByDue>(&UnixSeconds(i64::MIN), &(now + 1), BATCH)?;
    for (_, key) in &due {
        // The secret is removed first; the mail itself becomes due later.
        match intact(txn, key)? {
            Some(mail) if mail.secret.is_some() => {
                let secret = None;
                txn.put::<Mails>(key, &MailRecord { secret, ..mail })?;
            }
            // A damaged mail may still contain its secret, so it is removed as soon as it is due.
            Some(_) | None => txn.delete::<Mails>(key)?,
        }
    }
    Ok(due.len())
}

/// Returns a mail unless it is damaged: one damaged mail must not stop what concerns all mails of its user.
fn intact(txn: &Txn<'_>, key: &MailKey) -> Result<Option<MailRecord>, StoreError> {
    match txn.get::<Mails>(key) {
        Err(StoreError::Damaged { .. }) => Ok(None),
        found => found,
    }
}
