//! Tests of the queue and of the stored record format.

mod delivery;
mod templates;

use super::*;
use playgate_ports::SeededEntropy;
use playgate_types::time::{DAY, HOUR};

const NOW: UnixSeconds = UnixSeconds(1_767_225_600);

fn mail() -> (Store, Mail) {
    let store = Store::in_memory(schema(Schema::default()));
    let settings = MailSettings {
        reset_url: "https://tv.example/{locale}/reset?token={token}".to_owned(),
        ..MailSettings::default()
    };
    let entropy = Arc::new(SeededEntropy::new(1));
    let mail = Mail::open(store.clone(), entropy, &[1; 32], settings, None).unwrap();
    (store, mail)
}

fn draft(kind: MailKind, to: &str, secret: &str) -> MailDraft {
    MailDraft {
        kind,
        to: Email::parse(to).unwrap(),
        user: Some(UserId::from_bytes([7; 16])),
        locale: Locale::parse("sv").ok(),
        secret: secret.to_owned(),
        good_for: 1_800,
    }
}

fn queue(store: &Store, mail: &Mail, draft: MailDraft, now: UnixSeconds) -> MailId {
    let mail = mail.clone();
    store
        .write(Durability::Durable, move |txn| {
            mail.enqueue(txn, draft, now)
        })
        .wait()
        .unwrap()
}

#[test]
fn mails_are_listed_newest_first_even_within_a_second() {
    let (store, mail) = mail();
    let ids: Vec<_> = (0..5)
        .map(|n| {
            queue(
                &store,
                &mail,
                draft(MailKind::Reset, "a@b.example", "t"),
                NOW + n / 3,
            )
        })
        .collect();
    let listed: Vec<_> = mail.list(10).unwrap().into_iter().map(|m| m.id).collect();
    assert!(listed.iter().eq(ids.iter().rev()));
    assert_eq!(mail.list(2).unwrap().len(), 2);
}

#[test]
fn a_reset_mail_carries_the_configured_address() {
    let (store, mail) = mail();
    let id = queue(
        &store,
        &mail,
        draft(MailKind::Reset, "a@b.example", "pgr_x"),
        NOW,
    );
    let rendered = mail.show(&id, Secrets::Shown).unwrap().unwrap();
    assert_eq!(rendered.summary.subject, "Välj ett nytt lösenord");
    let link = "https://tv.example/sv/reset?token=pgr_x";
    assert!(rendered.text.contains(link) && rendered.text.contains("inom 30 minuter"));
    assert!(rendered.html.contains(&format!("href=\"{link}\"")));
    assert!(
        mail.show(&MailId::from_bytes([0; 16]), Secrets::Shown)
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_mail_greets_its_viewer_and_shows_the_logo_that_it_carries() {
    let store = Store::in_memory(schema(Schema::default()));
    let png = b"\x89PNG\r\n\x1a\nrest";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("logo");
    std::fs::write(&path, png).unwrap();
    let settings = MailSettings {
        name_of: |_, user| match user == &UserId::from_bytes([7; 16]) {
            true => Ok(PersonName::parse("Åsa Öberg").ok()),
            false => Ok(PersonName::parse("www.evil.example").ok()),
        },
        brand: Brand {
            name: "North TV".to_owned(),
            logo: Some(Logo::open(path.to_str().unwrap()).unwrap()),
            ..Brand::default()
        },
        ..MailSettings::default()
    };
    let entropy = Arc::new(SeededEntropy::new(1));
    let server = Arc::new(delivery::Server::default());
    let mail = Mail::open(
        store.clone(),
        entropy,
        &[1; 32],
        settings,
        Some(Arc::clone(&server) as _),
    );
    let mail = mail.unwrap();
    let named = queue(
        &store,
        &mail,
        draft(MailKind::Pin, "a@b.example", "4711"),
        NOW,
    );
    let stranger = MailDraft {
        user: Some(UserId::from_bytes([8; 16])),
        ..draft(MailKind::Pin, "c@d.example", "4711")
    };
    let unnamed = queue(&store, &mail, stranger, NOW);
    let shown = |id| mail.show(id, Secrets::Masked).unwrap().unwrap();
    assert!(shown(&named).text.starts_with("Hej Åsa Öberg,\n"));
    assert!(shown(&named).html.contains("Hej Åsa Öberg,</p>"));
    assert!(shown(&unnamed).text.starts_with("Hej,\n"));
    // A browser has only what is in the page; the mail carries the file once.
    assert!(
        shown(&named).html.contains("src=\"data:image/png;base64,")
            && shown(&named).html.contains("alt=\"North TV\"")
    );
    mail.deliver(NOW).unwrap();
    let logos = server.logos();
    assert_eq!(logos, [true, true]);
}

#[test]
fn a_masked_mail_shows_neither_token_nor_pin() {
    let (store, mail) = mail();
    for (kind, secret) in [(MailKind::Reset, "pgr_x"), (MailKind::Pin, "4711")] {
        let id = queue(&store, &mail, draft(kind, "a@b.example", secret), NOW);
        let shown = mail.show(&id, Secrets::Shown).unwrap().unwrap();
        let masked = mail.show(&id, Secrets::Masked).unwrap().unwrap();
        for (shown, masked) in [(&shown.text, &masked.text), (&shown.html, &masked.html)] {
            assert!(
                shown.contains(secret) && !masked.contains(secret),
                "{masked}"
            );
            assert_eq!(shown.replace(secret, MASKED), *masked);
        }
    }
}

#[test]
fn secrets_are_removed_before_their_mails() {
    let (store, mail) = mail();
    let reset = queue(
        &store,
        &mail,
        draft(MailKind::Reset, "a@b.example", "pgr_x"),
        NOW,
    );
    let pin = queue(
        &store,
        &mail,
        draft(MailKind::Pin, "a@b.example", "4711"),
        NOW,
    );
    let text = |id| {
        mail.show(id, Secrets::Shown)
            .unwrap()
            .map(|rendered| rendered.text)
    };
    assert_eq!(mail.sweep(NOW + 24 * HOUR - 1), Ok(0));
    assert_eq!(mail.sweep(NOW + 24 * HOUR), Ok(1));
    assert!(!text(&reset).unwrap().contains("pgr_x"));
    assert!(text(&pin).unwrap().contains("4711"));
    assert_eq!(mail.sweep(NOW + 7 * DAY), Ok(1));
    assert!(!text(&pin).unwrap().contains("4711"));
    assert_eq!(mail.sweep(NOW + 30 * DAY - 1), Ok(0));
    assert_eq!(mail.sweep(NOW + 30 * DAY), Ok(2));
    assert!(mail.list(10).unwrap().is_empty());
    assert!(store.verify().unwrap().tables.iter().all(|r| r.is_sound()));
}

#[test]
fn sweep_covers_a_long_queue() {
    let (store, mail) = mail();
    for _ in 0..BATCH * 2 + 1 {
        queue(
            &store,
            &mail,
            draft(MailKind::Reset, "a@b.example", "t"),
            NOW,
        );
    }
    // The first run removes the secrets, the second the mails.
    mail.sweep(NOW + 30 * DAY).unwrap();
    mail.sweep(NOW + 30 * DAY).unwrap();
    assert!(mail.list(1).unwrap().is_empty());
}

#[test]
fn the_queue_is_bounded() {
    let (store, mail) = mail();
    let first = queue(
        &store,
        &mail,
        draft(MailKind::Reset, "a@b.example", "t"),
        NOW,
    );
    // Occupies the next number, so that the ring wraps around.
    let key = (!(MAILS_MAX - 1), [0; 8]);
    store
        .write(Durability::Durable, move |txn| -> Result<(), StoreError> {
            let record = txn.get::<Mails>(&key_of(&first))?.unwrap();
            txn.put::<Mails>(&key, &record)
        })
        .wait()
        .unwrap();
    queue(
        &store,
        &mail,
        draft(MailKind::Reset, "a@b.example", "t"),
        NOW,
    );
    assert!(mail.show(&first, Secrets::Shown).unwrap().is_none());
    assert_eq!(mail.list(10).unwrap().len(), 2);
}

#[test]
fn mails_about_a_user_can_be_exported_and_erased() {
    let (store, mail) = mail();
    let user = UserId::from_bytes([7; 16]);
    queue(
        &store,
        &mail,
        draft(MailKind::Reset, "a@b.example", "t"),
        NOW,
    );
    let newest = queue(&store, &mail, draft(MailKind::Pin, "a@b.example", "1"), NOW);
    let other = MailDraft {
        user: Some(UserId::from_bytes([8; 16])),
        ..draft(MailKind::Pin, "c@d.example", "1")
    };
    let kept = queue(&store, &mail, other, NOW);
    let about = mail.mails_of_user(&user).unwrap();
    assert_eq!((about.len(), about[0].summary.id), (2, newest));
    store
        .write(Durability::Durable, move |txn| erase_user(txn, &user))
        .wait()
        .unwrap();
    let left: Vec<_> = mail.list(10).unwrap().into_iter().map(|m| m.id).collect();
    assert_eq!(left, [kept]);
}

#[test]
fn record_bytes_are_stable_and_earlier_versions_are_upgraded() {
    let sealer = Sealer::new(&[1; 32]);
    let record = MailRecord {
        kind: MailKind::Pin,
        to: Email::parse("a@b.c").unwrap(),
        user: Some(UserId::from_bytes([7; 16])),
        locale: Locale::parse("sv").ok(),
        secret: Some(sealer.seal(b"place", b"12345678", &SeededEntropy::new(1))),
        good_for: 1,
        created: UnixSeconds(1),
        queued: UnixSeconds(2),
        status: MailStatus::Queued,
        attempts: 2,
        next: UnixSeconds(3),
        response: Some("4".to_owned()),
    };
    let written = playgate_store::golden(&record);
    let begins = format!(
        "03 02 05 6140622e63 01 {} 01 02 7376 01 24",
        "07".repeat(16)
    );
    assert!(written.starts_with(&begins.replace(' ', "")), "{written}");
    assert!(
        written.ends_with("0202040102060101 34".replace(' ', "").as_str()),
        "{written}"
    );
    // Version 2 had no `queued`.
    let v2 = written
        .strip_prefix("03")
        .and_then(|body| body.strip_suffix("0202040102060101 34".replace(' ', "").as_str()))
        .map(|body| format!("{body}0202010206010134"))
        .unwrap();
    let v2 = data_encoding::HEXLOWER.decode(v2.as_bytes()).unwrap();
    let upgraded = <MailRecord as playgate_store::Record>::upgrade(2, &v2).unwrap();
    assert!(upgraded.secret == record.secret && upgraded.queued == UnixSeconds(1));
    assert_eq!((upgraded.attempts, upgraded.next), (2, UnixSeconds(3)));
    assert!(!written.contains(&data_encoding::HEXLOWER.encode(b"12345678")));

    let old = format!(
        "02 05 6140622e63 01 {} 01 02 7376 01 01 31 02 02 00",
        "07".repeat(16)
    );
    let old = data_encoding::HEXLOWER
        .decode(old.replace(' ', "").as_bytes())
        .unwrap();
    let upgraded = <MailRecord as playgate_store::Record>::upgrade(1, &old).unwrap();
    let expected = MailRecord {
        secret: None,
        status: MailStatus::Sink,
        queued: UnixSeconds(1),
        attempts: 0,
        next: UnixSeconds(1),
        response: None,
        ..record
    };
    assert!(upgraded == expected);
    let key = (!5, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(key_of(&id_of(&key)), key);
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Damaged;

impl playgate_store::Record for Damaged {}

struct DamagedMails;

impl playgate_store::Table for DamagedMails {
    const NAME: playgate_store::TreeName = <Mails as playgate_store::Table>::NAME;
    type Key = MailKey;
    type Record = Damaged;
}

#[test]
fn damaged_mails_are_skipped() {
    let (store, mail) = mail();
    let new = || draft(MailKind::Reset, "a@b.example", "t");
    let intact = queue(&store, &mail, new(), NOW);
    // The newest mail, and the one that falls out of the ring next.
    for number in [MAILS_MAX, 1] {
        let damage = move |txn: &mut Txn<'_>| txn.put::<DamagedMails>(&(!number, [9; 8]), &Damaged);
        let damaged = store.write::<_, StoreError, _>(Durability::Logged, damage);
        damaged.wait().unwrap();
    }
    let newest = queue(&store, &mail, new(), NOW);
    assert_eq!(key_of(&newest).0, !(MAILS_MAX + 1));
    let listed: Vec<_> = mail.list(10).unwrap().into_iter().map(|m| m.id).collect();
    assert_eq!(listed, [newest, intact]);
    let left = store.read(|txn| txn.scan_from::<Mails>(None, 10)).unwrap();
    assert_eq!(left.len(), 3);
}

#[test]
fn a_damaged_mail_stops_neither_withdrawal_nor_sweep() {
    let store = Store::in_memory(schema(Schema::default()));
    let entropy = Arc::new(SeededEntropy::new(1));
    let mailer = Arc::new(delivery::Server::default());
    let settings = MailSettings::default();
    let mail = Mail::open(store.clone(), entropy, &[1; 32], settings, Some(mailer)).unwrap();
    let [first, second] =
        ["1", "2"].map(|pin| queue(&store, &mail, draft(MailKind::Pin, "a@b.example", pin), NOW));
    // The entries of the indexes stay.
    let damage = move |txn: &mut Txn<'_>| txn.put::<DamagedMails>(&key_of(&second), &Damaged);
    let damaged = store.write::<_, StoreError, _>(Durability::Logged, damage);
    damaged.wait().unwrap();
    let user = UserId::from_bytes([7; 16]);
    let withdrawn = store.write(Durability::Logged, move |txn| {
        withdraw(txn, &user, MailKind::Pin)
    });
    withdrawn.wait().unwrap();
    let listed: Vec<_> = mail.mails_of_user(&user).unwrap();
    let listed: Vec<_> = listed.iter().map(|mail| mail.summary.id).collect();
    assert_eq!(listed, [first]);
    let shown = mail.show(&first, Secrets::Masked).unwrap().unwrap();
    assert_eq!(shown.summary.status, MailStatus::Expired);
    mail.sweep(NOW + 31 * 86_400).unwrap();
    let left = store.read(|txn| txn.scan_from::<Mails>(None, 10)).unwrap();
    assert!(left.is_empty());
}

#[test]
fn all_queued_mails_of_a_user_are_withdrawn() {
    let store = Store::in_memory(schema(Schema::default()));
    let entropy = Arc::new(SeededEntropy::new(1));
    let mailer = Arc::new(delivery::Server::default());
    let mail = Mail::open(
        store.clone(),
        entropy,
        &[1; 32],
        MailSettings::default(),
        Some(mailer),
    )
    .unwrap();
    let pin = queue(&store, &mail, draft(MailKind::Pin, "a@b.example", "1"), NOW);
    for n in 0..40 {
        let notice = draft(MailKind::PasswordChanged, "a@b.example", "");
        queue(&store, &mail, notice, NOW + n);
    }
    let user = UserId::from_bytes([7; 16]);
    let withdrawn = store.write(Durability::Logged, move |txn| {
        withdraw(txn, &user, MailKind::Pin)
    });
    withdrawn.wait().unwrap();
    let shown = mail.show(&pin, Secrets::Masked).unwrap().unwrap();
    assert_eq!(shown.summary.status, MailStatus::Expired);
}
