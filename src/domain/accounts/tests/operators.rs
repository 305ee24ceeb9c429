//! What operators do with users; what is told and erased.

use super::*;
use crate::domain::mail::Kind;
use crate::types::Country;

#[test]
fn operators_add_and_list_users() {
    let f = fixture();
    for address in ["carl@example.com", "ann@example.com", "bob@example.com"] {
        let added = f
            .accounts
            .add(partner(1), new_user(address), NOW, &mut memory());
        assert!(added.is_ok());
    }
    let other = f
        .accounts
        .add(partner(2), new_user("ann@example.com"), NOW, &mut memory());
    assert!(other.is_ok());
    let again = f
        .accounts
        .add(partner(1), new_user("ann@example.com"), NOW, &mut memory());
    assert!(again.err() == Some(AccountsError::EmailInUse));
    let list = |after: Option<&str>, limit| -> Vec<String> {
        let after = after.map(email);
        let users = f.accounts.list(partner(1), after.as_ref(), limit);
        users.iter().map(|user| user.email.to_string()).collect()
    };
    assert_eq!(list(None, 2), ["ann@example.com", "bob@example.com"]);
    assert_eq!(list(Some("bob@example.com"), 2), ["carl@example.com"]);
}

#[test]
fn operators_set_what_users_may_not() {
    let f = fixture();
    let opened = f.sign_up("ann@example.com");
    let user = opened.user.id;
    let change = |change| {
        f.accounts
            .change_by_operator(&user, change, NOW, &mut memory())
    };
    let changed = change(OperatorChange {
        country: Some(Country::parse("DE").ok()),
        tags: Some(vec!["b".into(), "a".into(), "b".into()]),
        parental: Some(ParentalControl {
            enabled: true,
            limit: 15,
        }),
        ..OperatorChange::default()
    })
    .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(changed.tags, ["a", "b"]);
    assert_eq!(changed.country.unwrap().as_str(), "DE");
    assert!(changed.has_pin && f.mails(Kind::Pin) == 1);
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
    let shut = |disabled| {
        let disabled = Some(disabled);
        assert!(
            change(OperatorChange {
                disabled,
                ..OperatorChange::default()
            })
            .is_ok()
        );
    };
    shut(true);
    assert!(!f.is_known(&opened, NOW));
    assert_eq!(
        f.log_in("ann@example.com", PASSWORD, NOW),
        Err(AccountsError::InvalidCredentials)
    );
    f.accounts
        .send_reset(partner(1), &email("ann@example.com"), None, HERE, NOW)
        .unwrap();
    assert_eq!(f.mails(Kind::Reset), 0);
    shut(false);
    f.log_in("ann@example.com", PASSWORD, NOW).unwrap();
    f.assert_sound();
}

fn count_erased(txn: &mut Txn<'_>, user: &UserId) -> Result<(), StoreError> {
    let key = (255, *user.as_bytes());
    txn.delete::<Throttles>(&key)
}

#[test]
fn an_erased_account_leaves_nothing() {
    let f = fixture();
    let accounts = Accounts::open(
        f.store.clone(),
        Arc::new(SeededEntropy::new(2)),
        settings(),
        f.mail.clone(),
        vec![count_erased],
    )
    .unwrap();
    let opened = f.sign_up("ann@example.com");
    let user = opened.user.id;
    // A row of another module.
    let key = (255, *user.as_bytes());
    f.store
        .write(Durability::Durable, move |txn| {
            txn.put::<Throttles>(&key, &throttle::Counter::default())
        })
        .wait()
        .unwrap();
    f.accounts
        .send_reset(partner(1), &email("ann@example.com"), None, HERE, NOW)
        .unwrap();
    f.accounts.reset_pin(&user, NOW, &mut memory()).unwrap();
    f.accounts
        .check_pin(&user, &pin("99999"), NOW, &mut memory())
        .unwrap_err();
    let wrong = accounts.erase(&user, &password("wrong wrong"), HERE, NOW, &mut memory());
    assert_eq!(wrong, Err(AccountsError::PasswordWrong));
    accounts
        .erase(&user, &password(PASSWORD), HERE, NOW, &mut memory())
        .unwrap();
    assert!(!f.is_known(&opened, NOW) && f.accounts.user(&user).is_none());
    assert!(f.mail.list(9).unwrap().is_empty());
    f.store.read(|txn| {
        use crate::store::All;
        assert!(txn.scan::<Users>(&All, 9).unwrap().is_empty());
        assert!(txn.scan::<Credentials>(&All, 9).unwrap().is_empty());
        assert!(txn.scan::<Logins>(&All, 9).unwrap().is_empty());
        assert!(txn.scan::<ResetTokens>(&All, 9).unwrap().is_empty());
        let kinds: Vec<_> = txn.scan::<Throttles>(&All, 9).unwrap();
        // Those of the network address alone: failed logins, sign-ups, mails asked for.
        assert_eq!(
            kinds.iter().map(|(key, _)| key.0).collect::<Vec<_>>(),
            [2, 3, 5]
        );
    });
    assert_eq!(accounts.remove(&user), Err(AccountsError::UserNotFound));
    f.sign_up("ann@example.com");
    f.assert_sound();
}

#[test]
fn a_partners_users_are_removed_together() {
    let f = fixture();
    for n in 0..120 {
        let new = new_user(&format!("user{n}@example.com"));
        assert!(f.accounts.add(partner(1), new, NOW, &mut memory()).is_ok());
    }
    assert!(
        f.accounts
            .add(partner(2), new_user("a@b.example"), NOW, &mut memory())
            .is_ok()
    );
    assert_eq!(f.accounts.remove_all(partner(1)), Ok(120));
    assert!(f.accounts.list(partner(1), None, 9).is_empty());
    assert_eq!(f.accounts.list(partner(2), None, 9).len(), 1);
    f.assert_sound();
}

#[test]
fn an_export_tells_what_is_held_but_no_secret() {
    let f = fixture();
    let opened = f.sign_up("ann@example.com");
    f.accounts
        .reset_pin(&opened.user.id, NOW, &mut memory())
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
