//! Tests of operator actions, export and erasure.

use super::*;
use crate::mail::MailKind;
use playgate_types::{Country, PersonName};

impl Fixture {
    fn add(&self, n: u8, address: &str) -> Result<User, AccountsError> {
        let password = FirstPassword::Plain(password(PASSWORD));
        self.accounts
            .add(partner(n), new_user(address), password, NOW, &InPlace)
            .wait()
    }
}

#[test]
fn operators_add_and_list_users() {
    let f = fixture();
    for address in ["carl@example.com", "ann@example.com", "bob@example.com"] {
        assert!(f.add(1, address).is_ok());
    }
    assert!(f.add(2, "ann@example.com").is_ok());
    let again = f.add(1, "ann@example.com").err();
    assert_eq!(again, Some(AccountsError::EmailInUse));
    let list = |partner, after, limit| -> Vec<UserId> {
        let users = f.accounts.list(partner, after, limit);
        users.iter().map(|user| user.id).collect()
    };
    let all = list(None, None, 9);
    assert!(all.len() == 4 && all.is_sorted());
    let of_one = list(Some(partner(1)), None, 9);
    assert_eq!(of_one.len(), 3);
    assert_eq!(list(Some(partner(1)), Some(of_one[0]), 1), [of_one[1]]);
}

#[test]
fn a_search_filters_sorts_pages_and_counts() {
    let f = fixture();
    for (at, address) in ["carl@b.com", "ann@b.com", "Bob@c.com"]
        .into_iter()
        .enumerate()
    {
        let new = NewUser {
            name: Some(PersonName::parse(["Öst", "åsa", "Zoë"][at]).unwrap()),
            ..new_user(address)
        };
        let (now, none) = (NOW + i64::try_from(at).unwrap(), FirstPassword::None);
        let added = f.accounts.add(partner(1), new, none, now, &InPlace).wait();
        assert!(added.is_ok());
    }
    let found = |search: UserSearch| -> (Vec<String>, Option<usize>) {
        let page = f.accounts.search(&search);
        let local = |user: &Arc<User>| user.email.as_str()[..3].to_owned();
        (page.users.iter().map(local).collect(), page.total)
    };
    let all = UserSearch {
        limit: 9,
        order: UserOrder::Email,
        ..UserSearch::default()
    };
    let of = |text: &str| UserSearch {
        text: Some(text.to_owned()),
        ..all.clone()
    };
    assert_eq!(found(all.clone()).0, ["ann", "bob", "car"]);
    assert_eq!(found(of("B.COM")).0, ["ann", "car"]);
    assert_eq!(found(of("ÅSA")).0, ["ann"]);
    assert_eq!(found(of("asa")).0, ["ann"]);
    assert_eq!(found(of("zöe bob")).0, ["bob"]);
    assert!(found(of("zoe ann")).0.is_empty());
    assert!(found(of("nobody")).0.is_empty());
    let id = f.accounts.search(&of("bob")).users[0].id.to_string();
    assert_eq!(found(of(&id[3..18])).0, ["bob"]);
    let newest = UserSearch {
        order: UserOrder::Created,
        descending: true,
        ..all.clone()
    };
    assert_eq!(found(newest.clone()).0, ["bob", "ann", "car"]);
    let second = UserSearch {
        offset: 1,
        limit: 1,
        count: true,
        ..newest
    };
    assert_eq!(found(second), (vec!["ann".to_owned()], Some(3)));
    let disabled = UserSearch {
        disabled: Some(true),
        count: true,
        ..all
    };
    assert_eq!(found(disabled), (Vec::new(), Some(0)));
}

#[test]
fn user_without_a_password_logs_in_after_a_reset() {
    let f = fixture();
    let new = new_user("ann@example.com");
    let none = FirstPassword::None;
    let added = f.accounts.add(partner(1), new, none, NOW, &InPlace).wait();
    assert!(added.is_ok());
    let invalid = Err(AccountsError::InvalidCredentials);
    assert_eq!(f.log_in("ann@example.com", "", NOW), invalid);
    let address = email("ann@example.com");
    f.accounts
        .send_reset(partner(1), &address, None, HERE, NOW)
        .wait()
        .unwrap();
    assert_eq!(f.mails(MailKind::Reset), 1);
}

#[test]
fn operators_can_set_restricted_fields() {
    let f = fixture();
    let opened = f.sign_up("ann@example.com");
    let user = opened.user.id;
    let change = |change| {
        f.accounts
            .change_by_operator(&user, change, NOW, &InPlace)
            .wait()
    };
    let changed = change(OperatorChange {
        country: Country::parse("DE").ok(),
        tags: Some(vec!["b".into(), "a".into(), "b".into()]),
        user_change: UserChange {
            parental_enabled: Some(true),
            parental_limit: Some(15),
            ..UserChange::default()
        },
        ..OperatorChange::default()
    })
    .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(changed.tags, ["a", "b"]);
    assert_eq!(changed.country.unwrap().as_str(), "DE");
    assert!(changed.has_pin && f.mails(MailKind::Pin) == 1);
    for tags in [
        vec![String::new()],
        vec!["a\n".into()],
        (0..33).map(|n| n.to_string()).collect(),
    ] {
        let refused = change(OperatorChange {
            tags: Some(tags),
            ..OperatorChange::default()
        });
        assert!(matches!(
            refused.err(),
            Some(AccountsError::FieldMalformed { field: "tags", .. })
        ));
    }
    assert!(f.is_known(&opened, NOW));
    let set_disabled = |disabled| {
        let disabled = Some(disabled);
        assert!(
            change(OperatorChange {
                disabled,
                ..OperatorChange::default()
            })
            .is_ok()
        );
    };
    set_disabled(true);
    assert!(!f.is_known(&opened, NOW));
    assert_eq!(
        f.log_in("ann@example.com", PASSWORD, NOW),
        Err(AccountsError::InvalidCredentials)
    );
    f.accounts
        .send_reset(partner(1), &email("ann@example.com"), None, HERE, NOW)
        .wait()
        .unwrap();
    assert_eq!(f.mails(MailKind::Reset), 0);
    set_disabled(false);
    f.log_in("ann@example.com", PASSWORD, NOW).unwrap();
    f.assert_sound();
}

#[test]
fn a_write_batch_sees_whether_the_user_was_erased_before_it() {
    let f = fixture();
    let user = f.sign_up("ann@example.com").user.id;
    let seen = || {
        let accounts = f.accounts.clone();
        let batch = f.store.write(Durability::Durable, move |txn| {
            let before = accounts.exists_in_memory(txn, &user);
            txn.delete::<Users>(&user)?;
            Ok::<_, StoreError>((before, accounts.exists_in_memory(txn, &user)))
        });
        batch.wait().unwrap()
    };
    assert_eq!(seen(), (true, false));
    assert_eq!(seen(), (false, false));
}

fn count_erased(txn: &mut Txn<'_>, user: &UserId, _: UnixSeconds) -> Result<(), StoreError> {
    let key = (255, *user.as_bytes());
    txn.delete::<Throttles>(&key)
}

#[test]
fn erased_account_leaves_no_data() {
    let f = fixture();
    let accounts = Accounts::open(
        f.store.clone(),
        Arc::new(SeededEntropy::new(2)),
        settings(),
        dependencies(&f.store, &f.mail, vec![count_erased]),
    )
    .unwrap();
    let opened = f.sign_up("ann@example.com");
    let user = opened.user.id;
    // A record of another module.
    let key = (255, *user.as_bytes());
    f.store
        .write(Durability::Durable, move |txn| {
            txn.put::<Throttles>(&key, &attempt_counter::AttemptCounter::default())
        })
        .wait()
        .unwrap();
    f.accounts
        .send_reset(partner(1), &email("ann@example.com"), None, HERE, NOW)
        .wait()
        .unwrap();
    f.accounts.reset_pin(&user, NOW, &InPlace).wait().unwrap();
    f.accounts
        .check_pin(&user, &pin("99999"), NOW, &InPlace)
        .wait()
        .unwrap_err();
    let wrong = accounts
        .erase(&user, &password("wrong wrong"), HERE, NOW, &InPlace)
        .wait();
    assert_eq!(wrong, Err(AccountsError::PasswordWrong));
    accounts
        .erase(&user, &password(PASSWORD), HERE, NOW, &InPlace)
        .wait()
        .unwrap();
    assert!(!f.is_known(&opened, NOW) && f.accounts.user(&user).is_none());
    assert!(f.mail.list(9).unwrap().is_empty());
    f.store.read(|txn| {
        use playgate_store::All;
        assert!(txn.scan::<Users>(&All, 9).unwrap().is_empty());
        assert!(txn.scan::<CredentialTable>(&All, 9).unwrap().is_empty());
        assert!(txn.scan::<Logins>(&All, 9).unwrap().is_empty());
        assert!(txn.scan::<ResetTokens>(&All, 9).unwrap().is_empty());
        assert!(txn.scan::<KnownClientTable>(&All, 9).unwrap().is_empty());
        let kinds: Vec<_> = txn.scan::<Throttles>(&All, 9).unwrap();
        // Left: counters of the network address (sign-ups, mail requests) and, under the hashed address, of reset and PIN
        // mails. The right password took back the wrong one before it.
        assert_eq!(
            kinds.iter().map(|(key, _)| key.0).collect::<Vec<_>>(),
            [3, 4, 5, 8]
        );
    });
    assert!(accounts.sweep(NOW + 3_600).is_ok());
    f.store.read(|txn| {
        let kinds = txn.scan::<Throttles>(&playgate_store::All, 9).unwrap();
        assert!(kinds.is_empty());
    });
    assert_eq!(
        accounts.remove(&user, NOW).wait(),
        Err(AccountsError::UserNotFound)
    );
    f.sign_up("ann@example.com");
    f.assert_sound();
}

#[test]
fn signing_up_again_does_not_reset_the_mail_limit() {
    let f = fixture();
    let (word, other) = (password(PASSWORD), password("goats gruff and gruffer"));
    let mut sent = [0; 3];
    for _ in 0..6 {
        let opened = f.sign_up("ann@example.com");
        let who = Login {
            user: opened.user.id,
            login: opened.login,
        };
        f.accounts
            .send_reset(partner(1), &email("ann@example.com"), None, HERE, NOW)
            .wait()
            .unwrap();
        let on = UserChange {
            parental_enabled: Some(true),
            ..UserChange::default()
        };
        // Dropped after three mails.
        let _ = f
            .accounts
            .change_user(&who.user, on, None, NOW, &InPlace)
            .wait();
        for (old, new) in [(&word, &other), (&other, &word)] {
            f.accounts
                .change_password(who, old, new, HERE, NOW, &InPlace)
                .wait()
                .unwrap();
        }
        for (sent, kind) in
            sent.iter_mut()
                .zip([MailKind::Reset, MailKind::Pin, MailKind::PasswordChanged])
        {
            *sent += f.mails(kind);
        }
        f.accounts
            .erase(&who.user, &word, HERE, NOW, &InPlace)
            .wait()
            .unwrap();
    }
    assert_eq!(sent, [3, 3, 3]);
}

#[test]
fn removing_a_partner_removes_its_users() {
    let f = fixture();
    for n in 0..120 {
        assert!(f.add(1, &format!("user{n}@example.com")).is_ok());
    }
    assert!(f.add(2, "a@b.example").is_ok());
    assert_eq!(f.accounts.remove_partner(partner(1), NOW), Ok(()));
    assert!(f.accounts.list(Some(partner(1)), None, 9).is_empty());
    assert_eq!(f.accounts.list(Some(partner(2)), None, 9).len(), 1);
    assert_eq!(f.partners.name(&partner(1)), None);
    let again = f.accounts.remove_partner(partner(1), NOW);
    assert_eq!(again, Err(AccountsError::PartnerNotFound));
    f.assert_sound();
}

#[test]
fn removed_partner_keeps_no_user_despite_concurrent_sign_ups() {
    for round in 0..4 {
        let f = fixture();
        let outcomes = at_once(17, 4, |n| {
            // The last thread removes the partner while the others sign up.
            if n / 4 == 16 {
                if n % 4 == round {
                    f.accounts.remove_partner(partner(1), NOW).unwrap();
                }
                return true;
            }
            let address = new_user(&format!("user{n}@example.com"));
            let signed_up = if n % 8 == 0 {
                let first = FirstPassword::Plain(password(PASSWORD));
                let added = f
                    .accounts
                    .add(partner(1), address, first, NOW, &InPlace)
                    .wait();
                added.map(drop)
            } else {
                let word = password(PASSWORD);
                let (here, who) = (HERE, partner(1));
                let signed_up = f
                    .accounts
                    .sign_up(who, address, &word, here, NOW, &InPlace)
                    .wait();
                signed_up.map(drop)
            };
            let gone = [AccountsError::PartnerGone, AccountsError::PartnerNotFound];
            signed_up.map_or_else(|error| gone.contains(&error), |()| true)
        });
        assert!(outcomes.into_iter().all(|sound| sound));
        assert!(f.accounts.list(None, None, 99).is_empty(), "round {round}");
        f.assert_sound();
    }
}

#[test]
fn only_users_of_removed_partners_are_erased() {
    let f = fixture();
    assert!(f.add(1, "a@b.example").is_ok() && f.add(2, "a@b.example").is_ok());
    assert_eq!(f.accounts.remove_orphans(NOW), Ok(0));
    // An earlier version could leave this behind.
    let plan = |txn: &mut Txn<'_>| partners::remove(txn, &partner(1));
    f.store.write(Durability::Durable, plan).wait().unwrap();
    assert_eq!(f.accounts.remove_orphans(NOW), Ok(1));
    let left = f.accounts.list(None, None, 9);
    assert_eq!(
        left.iter().map(|user| user.partner).collect::<Vec<_>>(),
        [partner(2)]
    );
    f.assert_sound();
}

#[test]
fn export_contains_all_data_but_no_secret() {
    let f = fixture();
    let opened = f.sign_up("ann@example.com");
    f.accounts
        .reset_pin(&opened.user.id, NOW, &InPlace)
        .wait()
        .unwrap();
    let export = f
        .accounts
        .export(&opened.user.id, NOW)
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(export.user.email == opened.user.email && export.password_set == NOW);
    assert_eq!(export.logins.len(), 1);
    assert_eq!(export.mails.len(), 1);
    assert!(matches!(
        f.accounts.export(&UserId::from_bytes([0; 16]), NOW),
        Err(AccountsError::UserNotFound)
    ));
}
