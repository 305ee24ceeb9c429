//! Tests of delivery to a server that accepts mails, rejects them or is unreachable.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::*;
use playgate_ports::mailer::{MailConnection, ServerUnavailable};

type Answer = Result<&'static str, SendError>;

/// A fake server: returns the scripted answers, then `250`.
#[derive(Clone, Default)]
pub(super) struct Server {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    down: Arc<Mutex<Option<ServerUnavailable>>>,
    /// Id, address and text of each accepted mail.
    taken: Arc<Mutex<Vec<(MailId, String, String)>>>,
    connections: Arc<AtomicUsize>,
    /// Whether each mail refers to a logo and carries it.
    logos: Arc<Mutex<Vec<bool>>>,
    /// What happens while the server takes a mail, once.
    meanwhile: Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>,
}

impl Server {
    pub(super) fn logos(&self) -> Vec<bool> {
        self.logos.lock().clone()
    }
}

impl Mailer for Server {
    fn connect(
        &self,
        _: &mut SmtpTranscript,
    ) -> Result<Box<dyn MailConnection>, ServerUnavailable> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        match &*self.down.lock() {
            Some(failure) => Err(failure.clone()),
            None => Ok(Box::new(self.clone())),
        }
    }
}

impl MailConnection for Server {
    fn send(
        &mut self,
        outgoing: &OutgoingMail,
        _: &mut SmtpTranscript,
    ) -> Result<String, SendError> {
        if let Some(meanwhile) = self.meanwhile.lock().take() {
            meanwhile();
        }
        let response = self.answers.lock().pop_front().unwrap_or(Ok("250 ok"))?;
        let to = outgoing.to.to_string();
        let refers = outgoing.html.contains("src=\"cid:logo\"");
        self.logos.lock().push(refers && outgoing.logo.is_some());
        self.taken
            .lock()
            .push((outgoing.id, to, outgoing.text.clone()));
        Ok(response.to_owned())
    }

    fn close(self: Box<Self>) {}
}

struct Fixture {
    store: Store,
    mail: Mail,
    server: Server,
}

impl Fixture {
    fn new() -> Self {
        Self::over(Store::in_memory(schema(Schema::default())))
    }

    fn over(store: Store) -> Self {
        let server = Server::default();
        let mail = Mail::open(
            store.clone(),
            Arc::new(SeededEntropy::new(1)),
            &[1; 32],
            MailSettings::default(),
            Some(Arc::new(server.clone())),
        );
        Self {
            mail: mail.unwrap(),
            store,
            server,
        }
    }

    fn queue(&self, kind: MailKind, to: &str, secret: &str) -> MailId {
        let draft = MailDraft {
            good_for: if kind == MailKind::Reset { 1_800 } else { 0 },
            ..draft(kind, to, secret)
        };
        queue(&self.store, &self.mail, draft, NOW)
    }

    fn status(&self, id: &MailId) -> (MailStatus, u32, Option<String>) {
        let summary = self.mail.show(id, Secrets::Shown).unwrap().unwrap().summary;
        (summary.status, summary.attempts, summary.response)
    }

    fn taken(&self) -> usize {
        self.server.taken.lock().len()
    }
}

fn later(response: &str) -> Answer {
    Err(SendError::Later(response.to_owned()))
}

fn failure(lasting: bool) -> ServerUnavailable {
    ServerUnavailable {
        response: "no".to_owned(),
        lasting,
    }
}

#[test]
fn mail_is_sent_once_and_loses_its_secret() {
    let f = Fixture::new();
    let id = f.queue(MailKind::Reset, "a@b.example", "pgr_x");
    assert_eq!(f.status(&id), (MailStatus::Queued, 0, None));
    assert!(
        f.mail
            .show(&id, Secrets::Shown)
            .unwrap()
            .unwrap()
            .text
            .contains("pgr_x")
    );
    assert_eq!(f.mail.deliver(NOW), Ok(1));
    assert_eq!(f.mail.deliver(NOW), Ok(0));
    let (name, to, text) = f.server.taken.lock().remove(0);
    assert_eq!((name, to.as_str()), (id, "a@b.example"));
    assert!(text.contains("token=pgr_x"));
    assert_eq!(
        f.status(&id),
        (MailStatus::Sent, 1, Some("250 ok".to_owned()))
    );
    assert!(
        !f.mail
            .show(&id, Secrets::Shown)
            .unwrap()
            .unwrap()
            .text
            .contains("pgr_x")
    );
    assert_eq!(f.taken(), 0);
    assert_eq!((f.mail.counts().queued, f.mail.counts().sent), (0, 1));
}

#[test]
fn one_connection_delivers_several_mails_in_order() {
    let f = Fixture::new();
    for n in 0..45 {
        f.queue(MailKind::PasswordChanged, &format!("a{n}@b.example"), "");
    }
    let notified = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&notified);
    f.mail.on_notify(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let runs: Vec<_> = (0..4).map(|_| f.mail.deliver(NOW).unwrap()).collect();
    assert_eq!(runs, [20, 20, 5, 0]);
    // Remaining mails notify the job immediately.
    assert_eq!(notified.load(Ordering::SeqCst), 2);
    assert_eq!(f.server.connections.load(Ordering::SeqCst), 3);
    let order: Vec<_> = f
        .server
        .taken
        .lock()
        .iter()
        .map(|(_, to, _)| to.clone())
        .collect();
    let expected: Vec<_> = (0..45).map(|n| format!("a{n}@b.example")).collect();
    assert_eq!(order, expected);
    f.queue(MailKind::PasswordChanged, "a@b.example", "");
    assert_eq!(notified.load(Ordering::SeqCst), 3);
}

#[test]
fn deferred_mail_does_not_block_others() {
    let f = Fixture::new();
    let grey = f.queue(MailKind::Pin, "grey@b.example", "4711");
    let other = f.queue(MailKind::Pin, "other@b.example", "4711");
    f.server
        .answers
        .lock()
        .push_back(later("451 4.7.1 come back"));
    assert_eq!(f.mail.deliver(NOW), Ok(2));
    let response = Some("451 4.7.1 come back".to_owned());
    assert_eq!(f.status(&grey), (MailStatus::Queued, 1, response));
    assert_eq!(f.status(&other).0, MailStatus::Sent);
    // The first retry comes after 30 s ± 25 %.
    assert_eq!(f.mail.deliver(NOW + 22), Ok(0));
    assert_eq!(f.mail.deliver(NOW + 38), Ok(1));
    assert_eq!(f.status(&grey).0, MailStatus::Sent);
    assert_eq!(f.mail.counts().retried, 1);
}

#[test]
fn server_that_limits_mails_per_connection_is_not_a_failure() {
    let f = Fixture::new();
    for n in 0..3 {
        f.queue(MailKind::PasswordChanged, &format!("a{n}@b.example"), "");
    }
    let enough = Err(SendError::Unavailable(failure(false)));
    f.server.answers.lock().extend([Ok("250 ok"), enough]);
    assert_eq!(f.mail.deliver(NOW), Ok(3));
    assert_eq!((f.taken(), f.mail.last_failure()), (3, None));
    assert_eq!(f.server.connections.load(Ordering::SeqCst), 2);
}

#[test]
fn rejection_is_final_and_its_text_is_redacted() {
    let f = Fixture::new();
    let id = f.queue(MailKind::Reset, "a@b.example", "pgr_x");
    let refusal = SendError::Refused("550 no such user, and token=pgr_x is spam".to_owned());
    f.server.answers.lock().push_back(Err(refusal));
    f.mail.deliver(NOW).unwrap();
    let response = "550 no such user, and token=(removed) is spam".to_owned();
    assert_eq!(f.status(&id), (MailStatus::Failed, 1, Some(response)));
    assert_eq!(f.mail.deliver(NOW + DAY), Ok(0));
    assert_eq!((f.taken(), f.mail.counts().failed), (0, 1));
    assert_eq!(f.mail.last_failure(), None);
}

#[test]
fn unavailable_server_loses_no_mail_and_is_retried_with_backoff() {
    let f = Fixture::new();
    let ids: Vec<_> = (0..3)
        .map(|n| f.queue(MailKind::PasswordChanged, &format!("a{n}@b.example"), ""))
        .collect();
    *f.server.down.lock() = Some(failure(false));
    let asked = |until: i64| {
        (0..until).for_each(|second| {
            f.mail.deliver(NOW + second).unwrap();
        });
        f.server.connections.load(Ordering::SeqCst)
    };
    let in_a_minute = asked(60);
    assert!((3..=6).contains(&in_a_minute), "{in_a_minute}");
    assert_eq!(f.mail.last_failure().as_deref(), Some("no"));
    let counts = f.mail.counts();
    assert_eq!((counts.queued, counts.oldest), (3, Some(NOW)));
    *f.server.down.lock() = None;
    // The longest pause is 300 s + 25 %.
    f.mail.deliver(NOW + 60 + 375).unwrap();
    assert!(ids.iter().all(|id| f.status(id).0 == MailStatus::Sent));
    assert_eq!((f.taken(), f.mail.last_failure()), (3, None));
}

#[test]
fn wrong_password_is_not_retried_every_few_seconds() {
    let f = Fixture::new();
    f.queue(MailKind::PasswordChanged, "a@b.example", "");
    *f.server.down.lock() = Some(failure(true));
    f.mail.deliver(NOW).unwrap();
    // A lasting failure pauses for 300 s ± 25 %.
    f.mail.deliver(NOW + 224).unwrap();
    assert_eq!(f.server.connections.load(Ordering::SeqCst), 1);
    f.mail.deliver(NOW + 375).unwrap();
    assert_eq!(f.server.connections.load(Ordering::SeqCst), 2);
}

#[test]
fn mails_expire_with_their_secret() {
    let f = Fixture::new();
    let reset = f.queue(MailKind::Reset, "a@b.example", "pgr_x");
    let pin = f.queue(MailKind::Pin, "a@b.example", "4711");
    *f.server.down.lock() = Some(failure(false));
    f.mail.deliver(NOW + 1_799).unwrap();
    assert_eq!(f.status(&reset).0, MailStatus::Queued);
    f.mail.deliver(NOW + 1_800).unwrap();
    assert_eq!(
        (f.status(&reset).0, f.status(&pin).0),
        (MailStatus::Expired, MailStatus::Queued)
    );
    // The response to the last attempt is kept.
    assert_eq!(f.status(&reset).2.as_deref(), Some("no"));
    f.mail.deliver(NOW + DAY).unwrap();
    assert_eq!(f.status(&pin).0, MailStatus::Expired);
    assert!(
        !f.mail
            .show(&pin, Secrets::Shown)
            .unwrap()
            .unwrap()
            .text
            .contains("4711")
    );
    assert_eq!((f.taken(), f.mail.counts().expired), (0, 2));
}

/// Returns the state of a reset mail that was withdrawn while the server took it.
fn withdrawn_during(answer: Answer) -> (MailStatus, u32, Option<String>) {
    let f = Fixture::new();
    let reset = f.queue(MailKind::Reset, "a@b.example", "pgr_x");
    let user = UserId::from_bytes([7; 16]);
    let store = f.store.clone();
    *f.server.meanwhile.lock() = Some(Box::new(move || {
        let batch = move |txn: &mut Txn<'_>| withdraw(txn, &user, MailKind::Reset);
        store.write(Durability::Durable, batch).wait().unwrap();
    }));
    f.server.answers.lock().push_back(answer);
    assert_eq!(f.mail.deliver(NOW), Ok(1));
    assert_eq!(f.mail.deliver(NOW + DAY), Ok(0));
    f.status(&reset)
}

#[test]
fn a_mail_that_is_withdrawn_while_it_is_sent_shows_whether_it_arrived() {
    let arrived = (MailStatus::Sent, 1, Some("250 taken".to_owned()));
    assert_eq!(withdrawn_during(Ok("250 taken")), arrived);
    let expired = (MailStatus::Expired, 0, None);
    assert_eq!(withdrawn_during(later("451 4.7.1 come back")), expired);
}

#[test]
fn withdrawn_mail_is_not_sent() {
    let f = Fixture::new();
    let reset = f.queue(MailKind::Reset, "a@b.example", "pgr_x");
    let pin = f.queue(MailKind::Pin, "a@b.example", "4711");
    let user = UserId::from_bytes([7; 16]);
    let batch = move |txn: &mut Txn<'_>| withdraw(txn, &user, MailKind::Reset);
    f.store.write(Durability::Durable, batch).wait().unwrap();
    f.mail.deliver(NOW).unwrap();
    assert_eq!(
        (f.status(&reset).0, f.status(&pin).0),
        (MailStatus::Expired, MailStatus::Sent)
    );
    assert_eq!(f.taken(), 1);
    // Sent mails keep their status.
    let batch = move |txn: &mut Txn<'_>| withdraw(txn, &user, MailKind::Pin);
    f.store.write(Durability::Durable, batch).wait().unwrap();
    assert_eq!(f.status(&pin).0, MailStatus::Sent);
}

#[test]
fn clock_that_was_ahead_delays_no_mail() {
    let f = Fixture::new();
    let id = f.queue(MailKind::Pin, "a@b.example", "4711");
    // The clock is ahead while a retry and then a pause are scheduled.
    let ahead = NOW + DAY / 2;
    f.server.answers.lock().push_back(later("451 not now"));
    f.mail.deliver(ahead).unwrap();
    *f.server.down.lock() = Some(failure(true));
    f.mail.deliver(ahead + 3_600).unwrap();
    *f.server.down.lock() = None;
    f.mail.deliver(NOW).unwrap();
    assert_eq!(f.status(&id).0, MailStatus::Sent);
}

#[test]
fn delivery_continues_after_a_restart() {
    let f = Fixture::new();
    let id = f.queue(MailKind::Pin, "a@b.example", "4711");
    f.server.answers.lock().push_back(later("451 not now"));
    f.mail.deliver(NOW).unwrap();
    let store = f.store.clone();
    drop(f);
    let f = Fixture::over(store);
    assert_eq!(f.mail.counts().queued, 1);
    // The time of the retry survives the restart.
    assert_eq!(f.mail.deliver(NOW + 20), Ok(0));
    assert_eq!(f.mail.deliver(NOW + 40), Ok(1));
    assert_eq!(f.status(&id).0, MailStatus::Sent);
    assert_eq!(f.server.taken.lock()[0].0, id);
}

#[test]
fn mail_sealed_under_a_lost_key_fails() {
    let f = Fixture::new();
    let id = f.queue(MailKind::Pin, "a@b.example", "4711");
    let server = f.server.clone();
    let mail = Mail::open(
        f.store.clone(),
        Arc::new(SeededEntropy::new(1)),
        &[2; 32],
        MailSettings::default(),
        Some(Arc::new(server)),
    );
    mail.unwrap().deliver(NOW).unwrap();
    assert_eq!(f.status(&id).0, MailStatus::Failed);
    assert_eq!(f.taken(), 0);
}

#[test]
fn queued_mail_is_not_removed_from_the_ring() {
    let f = Fixture::new();
    let first = f.queue(MailKind::Pin, "a@b.example", "1");
    // Occupies the next number, so that the ring wraps around.
    let key = (!(MAILS_MAX - 1), [0; 8]);
    f.store
        .write(Durability::Durable, move |txn| -> Result<(), StoreError> {
            let record = txn.get::<Mails>(&key_of(&first))?.unwrap();
            txn.put::<Mails>(&key, &record)
        })
        .wait()
        .unwrap();
    f.queue(MailKind::Pin, "a@b.example", "1");
    assert!(f.mail.show(&first, Secrets::Shown).unwrap().is_some());
}

#[test]
fn test_mail_bypasses_the_queue() {
    let f = Fixture::new();
    let to = || Email::parse("ops@b.example").unwrap();
    let sent = f.mail.test(to(), NOW).unwrap();
    assert_eq!((sent.status, f.taken()), (MailStatus::Sent, 1));
    assert_eq!(f.status(&sent.id).2.as_deref(), Some("250 ok"));
    *f.server.down.lock() = Some(failure(false));
    let failed = f.mail.test(to(), NOW).unwrap();
    assert_eq!(failed.status, MailStatus::Failed);
    *f.server.down.lock() = None;
    assert_eq!(f.mail.deliver(NOW + DAY), Ok(0));
}

fn refused(response: &str) -> Answer {
    Err(SendError::Refused(response.to_owned()))
}

#[test]
fn several_recipients_refused_in_a_row_are_the_servers_state() {
    let f = Fixture::new();
    let ids: Vec<_> = (0..4)
        .map(|n| f.queue(MailKind::Pin, &format!("a{n}@b.example"), "4711"))
        .collect();
    let limit = || refused("550 5.7.1 a2@b.example: relaying denied");
    f.server.answers.lock().extend([limit(), limit(), limit()]);
    assert_eq!(f.mail.deliver(NOW), Ok(3));
    assert_eq!(
        f.mail.last_failure().as_deref(),
        Some("the mail server refuses every recipient: 550 5.7.1 (recipient): relaying denied")
    );
    assert!(ids.iter().all(|id| f.status(id).0 == MailStatus::Queued));
    // 300 s ± 25 %: the server is tried again, and once it accepts, all are sent.
    assert_eq!(f.mail.deliver(NOW + 200), Ok(0));
    assert_eq!(f.mail.deliver(NOW + 375), Ok(4));
    assert!(ids.iter().all(|id| f.status(id).0 == MailStatus::Sent));
    assert_eq!(f.mail.last_failure(), None);
}

#[test]
fn refused_addresses_between_accepted_ones_are_their_own_fault() {
    let f = Fixture::new();
    let ids: Vec<_> = (0..6)
        .map(|n| f.queue(MailKind::Pin, &format!("a{n}@b.example"), "4711"))
        .collect();
    let no = || refused("550 5.1.1 no such user");
    f.server
        .answers
        .lock()
        .extend([no(), no(), Ok("250 ok"), no(), no(), Ok("250 ok")]);
    assert_eq!(f.mail.deliver(NOW), Ok(6));
    assert_eq!((f.mail.last_failure(), f.mail.counts().failed), (None, 4));
    assert_eq!(f.status(&ids[4]).0, MailStatus::Failed);
    // One bad address, again and again, is not the server either.
    for n in 0..5 {
        f.queue(MailKind::Pin, "bad@b.example", "4711");
        f.server.answers.lock().push_back(no());
        f.mail.deliver(NOW + n).unwrap();
    }
    assert_eq!(f.mail.last_failure(), None);
}

#[test]
fn recipients_deferred_for_the_second_time_in_a_row_are_the_servers_state() {
    let f = Fixture::new();
    for n in 0..3 {
        f.queue(MailKind::Pin, &format!("a{n}@b.example"), "4711");
    }
    let full = || later("452 4.3.1 insufficient storage");
    f.server.answers.lock().extend((0..6).map(|_| full()));
    assert_eq!(f.mail.deliver(NOW), Ok(3));
    // The first time may be greylisting.
    assert_eq!(f.mail.last_failure(), None);
    f.mail.deliver(NOW + 40).unwrap();
    let failure = f.mail.last_failure().unwrap();
    assert!(
        failure.starts_with("the mail server defers every recipient: 452"),
        "{failure}"
    );
}

#[test]
fn a_failed_mail_is_sent_again_while_its_secret_is_valid() {
    let f = Fixture::new();
    let reset = f.queue(MailKind::Reset, "a@b.example", "pgr_x");
    let notice = f.queue(MailKind::PasswordChanged, "a@b.example", "");
    f.server
        .answers
        .lock()
        .extend([refused("550 no"), refused("550 no")]);
    f.mail.deliver(NOW).unwrap();
    assert_eq!(f.status(&reset).0, MailStatus::Failed);
    let retried = f.mail.retry(Some(&reset), NOW + 60).unwrap();
    assert_eq!((retried.queued, retried.left), (vec![reset], vec![]));
    f.mail.deliver(NOW + 60).unwrap();
    assert!(f.server.taken.lock()[0].2.contains("token=pgr_x"));
    let sent = f.mail.retry(Some(&reset), NOW + 60).unwrap();
    assert_eq!(sent.left, [(reset, "it was sent")]);

    // A notice has a day in the queue again; a link that has expired is not sent.
    let late = f.queue(MailKind::Reset, "c@b.example", "pgr_y");
    f.server.answers.lock().push_back(refused("550 no"));
    f.mail.deliver(NOW).unwrap();
    let retried = f.mail.retry(None, NOW + 3 * DAY).unwrap();
    assert_eq!(retried.queued, [notice]);
    assert_eq!(retried.left.len(), 1);
    assert_eq!(retried.left[0].0, late);
    f.mail.deliver(NOW + 3 * DAY).unwrap();
    assert_eq!(f.status(&notice).0, MailStatus::Sent);
    // After a week nothing is sent unasked.
    let none = f.mail.retry(None, NOW + 8 * DAY).unwrap();
    assert!(none.is_empty());
}

#[test]
fn a_withdrawn_secret_leaves_a_failed_mail() {
    let f = Fixture::new();
    let reset = f.queue(MailKind::Reset, "a@b.example", "pgr_x");
    f.server.answers.lock().push_back(refused("550 no"));
    f.mail.deliver(NOW).unwrap();
    let user = UserId::from_bytes([7; 16]);
    let batch = move |txn: &mut Txn<'_>| withdraw(txn, &user, MailKind::Reset);
    f.store.write(Durability::Durable, batch).wait().unwrap();
    let text = f.mail.show(&reset, Secrets::Shown).unwrap().unwrap().text;
    assert!(!text.contains("pgr_x"));
    assert_eq!(f.mail.retry(Some(&reset), NOW).unwrap().left.len(), 1);
}
