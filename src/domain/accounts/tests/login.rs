//! Tests of sign-up, login, login sessions and password change.

use super::*;
use playgate_types::time::DAY;

#[test]
fn new_user_is_logged_in_and_can_log_in_again() {
    let f = fixture();
    let first = f.sign_up("Ann@Example.com");
    assert_eq!(first.user.email.as_str(), "ann@example.com");
    let second = f
        .log_in_from(" ann@example.COM", PASSWORD, HERE, NOW)
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(f.is_known(&first, NOW) && f.is_known(&second, NOW));
    let who = f
        .accounts
        .authenticate(&presented(&second.token), partner(1), NOW)
        .unwrap();
    assert_eq!((who.user, who.login), (first.user.id, second.login));
    let invalid = Err(AccountsError::InvalidCredentials);
    assert_eq!(
        f.log_in("ann@example.com", "Troll under the bridge", NOW),
        invalid
    );
    assert_eq!(f.log_in("bob@example.com", PASSWORD, NOW), invalid);
    f.assert_sound();
}

#[test]
fn failed_login_is_traced_with_the_reason_found_by_its_check() {
    let f = fixture();
    let ann = f.sign_up("ann@example.com").user.id;
    let traced = |address, text| {
        let given = LoginAttempt {
            trace: DecisionTrace::on(),
            ..login_attempt(address, text)
        };
        let trace = given.trace.clone();
        // The client sees no difference.
        let result = f.accounts.log_in(partner(1), given, NOW, &InPlace).wait();
        assert_eq!(result.err(), Some(AccountsError::InvalidCredentials));
        trace
    };
    let disable = OperatorChange {
        disabled: Some(true),
        ..OperatorChange::default()
    };
    let wrong = traced("ann@example.com", "wrong wrong");
    let unknown = traced("bob@example.com", PASSWORD);
    let changed = f.accounts.change_by_operator(&ann, disable, NOW, &InPlace);
    assert!(changed.wait().is_ok());
    let disabled = traced("ann@example.com", PASSWORD);
    for (trace, user, expected) in [
        (
            wrong,
            Some(ann),
            &["the account is enabled", "the password is wrong"][..],
        ),
        (unknown, None, &["no user of the partner has the address"]),
        (disabled, Some(ann), &["the account is disabled"]),
    ] {
        let collected = trace.take();
        assert_eq!(collected.user, user);
        let findings: Vec<_> = collected.steps.iter().map(|step| &step.finding).collect();
        assert_eq!(findings, expected);
    }
}

#[test]
fn token_is_rejected_for_another_partner_and_after_expiry() {
    let f = fixture();
    let opened = f.sign_up("ann@example.com");
    let known = |partner, now| {
        f.accounts
            .authenticate(&presented(&opened.token), partner, now)
            .is_some()
    };
    assert!(known(partner(1), NOW));
    assert!(!known(partner(2), NOW));
    let life = settings().token_idle;
    // Not a use that moves the limit.
    assert!(known(partner(1), NOW + 3_599));
    assert!(!known(partner(1), NOW + life));
    // A clock that was a year ahead issued a token that would live a year too long.
    assert!(known(partner(1), NOW - 3_600));
    assert!(!known(partner(1), NOW - 365 * 86_400));
    assert_eq!(f.accounts.sweep(NOW + (life - 1)).unwrap().logins, 0);
    assert_eq!(f.accounts.sweep(NOW + life).unwrap().logins, 1);
    f.assert_sound();
}

#[test]
fn address_is_unique_per_partner() {
    let f = fixture();
    let first = f.sign_up("ann@example.com");
    let sign_up = |partner| {
        let new = new_user("ANN@example.com");
        f.accounts
            .sign_up(partner, new, &password(PASSWORD), HERE, NOW, &InPlace)
            .wait()
            .map(|opened| opened.user.id)
    };
    assert_eq!(sign_up(partner(1)), Err(AccountsError::EmailInUse));
    let other = sign_up(partner(2)).unwrap();
    assert_ne!(other, first.user.id);
    assert_eq!(
        f.accounts.find(partner(2), &email("ann@example.com")),
        Ok(Some(other))
    );
    assert!(f.is_known(&first, NOW));
}

#[test]
fn of_concurrent_sign_ups_one_succeeds() {
    let f = fixture();
    let results = at_once(20, 1, |_| {
        let new = new_user("ann@example.com");
        f.accounts
            .sign_up(partner(1), new, &password(PASSWORD), HERE, NOW, &InPlace)
            .wait()
            .map(|opened| opened.user.id)
    });
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
    assert!(
        results
            .iter()
            .all(|r| r.is_ok() || *r == Err(AccountsError::EmailInUse))
    );
    assert_eq!(f.accounts.list(Some(partner(1)), None, 10).len(), 1);
    f.assert_sound();
}

#[test]
fn login_sessions_end_one_by_one_or_all_together() {
    let f = fixture();
    let first = f.sign_up("ann@example.com");
    let log_in = |now| {
        f.log_in_from("ann@example.com", PASSWORD, HERE, now)
            .unwrap_or_else(|error| panic!("{error}"))
    };
    let (second, third) = (log_in(NOW + 1), log_in(NOW + 2));
    let user = first.user.id;
    let ids = |now| -> Vec<_> {
        let logins = f.accounts.logins(&user, now).unwrap();
        logins.into_iter().map(|login| login.id).collect()
    };
    assert_eq!(ids(NOW + 2), [first.login, second.login, third.login]);
    f.accounts.end_login(user, second.login).wait().unwrap();
    assert!(!f.is_known(&second, NOW + 2) && f.is_known(&third, NOW + 2));
    assert_eq!(
        f.accounts.end_login(user, second.login).wait(),
        Err(AccountsError::LoginNotFound)
    );
    // A user cannot end another user's session.
    let other = f.sign_up("bob@example.com");
    assert_eq!(
        f.accounts.end_login(other.user.id, third.login).wait(),
        Err(AccountsError::LoginNotFound)
    );
    assert_eq!(f.accounts.end_logins(user).wait(), Ok(2));
    assert!(ids(NOW + 2).is_empty() && f.is_known(&other, NOW + 2));
    f.assert_sound();
}

#[test]
fn oldest_login_ends_when_there_are_too_many() {
    let f = fixture_with(AccountSettings {
        logins_per_user: 3,
        ..settings()
    });
    let first = f.sign_up("ann@example.com");
    for second in 1..=2 {
        f.log_in("ann@example.com", PASSWORD, NOW + second).unwrap();
    }
    assert!(f.is_known(&first, NOW));
    f.log_in("ann@example.com", PASSWORD, NOW + 3).unwrap();
    assert!(!f.is_known(&first, NOW));
    assert_eq!(f.accounts.logins(&first.user.id, NOW + 3).unwrap().len(), 3);
}

#[test]
fn password_change_ends_only_the_other_sessions() {
    let f = fixture();
    let stays = f.sign_up("ann@example.com");
    let ends = f
        .log_in_from("ann@example.com", PASSWORD, HERE, NOW)
        .unwrap_or_else(|error| panic!("{error}"));
    let who = Login {
        user: stays.user.id,
        login: stays.login,
    };
    let change = |current: &str, new: &str| {
        let (current, new) = (password(current), password(new));
        f.accounts
            .change_password(who, &current, &new, HERE, NOW, &InPlace)
            .wait()
    };
    let new = "goats gruff and gruffer";
    assert_eq!(
        change("wrong wrong", new),
        Err(AccountsError::PasswordWrong)
    );
    assert_eq!(
        change(PASSWORD, "password1"),
        Err(AccountsError::PasswordTooCommon)
    );
    assert!(f.is_known(&ends, NOW));
    change(PASSWORD, new).unwrap();
    assert!(f.is_known(&stays, NOW) && !f.is_known(&ends, NOW));
    let invalid = Err(AccountsError::InvalidCredentials);
    assert_eq!(f.log_in("ann@example.com", PASSWORD, NOW), invalid);
    f.log_in("ann@example.com", new, NOW).unwrap();
    assert_eq!(f.mails(mail::MailKind::PasswordChanged), 1);
    f.assert_sound();
}

#[test]
fn hash_of_another_cost_is_replaced_at_login() {
    let f = fixture();
    let user = f.sign_up("ann@example.com").user.id;
    let dearer = AccountSettings {
        cost: Cost {
            iterations: 2,
            ..CHEAP
        },
        ..settings()
    };
    let again = f.opened_again(dearer);
    let stored = || {
        let credentials = f.store.read(|txn| txn.get::<CredentialTable>(&user));
        credentials.unwrap().unwrap().password
    };
    assert!(stored().contains("t=1"));
    let log_in = |text: &str| {
        let given = login_attempt("ann@example.com", text);
        again
            .log_in(partner(1), given, NOW, &InPlace)
            .wait()
            .map(|_| ())
    };
    assert_eq!(
        log_in("wrong wrong"),
        Err(AccountsError::InvalidCredentials)
    );
    assert!(stored().contains("t=1"));
    log_in(PASSWORD).unwrap();
    assert!(stored().contains("t=2"));
    log_in(PASSWORD).unwrap();
}

#[test]
fn login_that_races_with_a_password_change_fails() {
    let f = fixture();
    let opened = f.sign_up("ann@example.com");
    let who = Login {
        user: opened.user.id,
        login: opened.login,
    };
    let new = password("goats gruff and gruffer");
    let pool = Meanwhile(|| {
        f.accounts
            .change_password(who, &password(PASSWORD), &new, HERE, NOW, &InPlace)
            .wait()
            .unwrap();
    });
    let given = login_attempt("ann@example.com", PASSWORD);
    let late = f.accounts.log_in(partner(1), given, NOW, &pool).wait();
    // The write batch of a login compares the password generation.
    assert_eq!(late.map(drop), Err(AccountsError::InvalidCredentials));
    f.log_in("ann@example.com", "goats gruff and gruffer", NOW)
        .unwrap();
}

#[test]
fn sign_up_data_is_validated_and_stored() {
    let f = fixture();
    let day = |text: &str| playgate_types::BirthDate::parse(text).ok();
    let new = |birth_date| NewUser {
        name: playgate_types::PersonName::parse("  ").ok(),
        country: playgate_types::Country::parse("se").ok(),
        birth_date,
        ..new_user("ann@example.com")
    };
    let sign_up = |new| {
        f.accounts
            .sign_up(partner(1), new, &password(PASSWORD), HERE, NOW, &InPlace)
            .wait()
            .map(|opened| opened.user)
    };
    assert!(matches!(
        sign_up(new(day("2026-01-02"))),
        Err(AccountsError::FieldMalformed {
            field: "birthDate",
            why: Malformed("must not lie in the future"),
        })
    ));
    let user = sign_up(new(day("2026-01-01"))).unwrap_or_else(|error| panic!("{error}"));
    assert!(user.name.is_none() && user.birth_date == day("2026-01-01"));
    assert_eq!(user.country.unwrap().as_str(), "SE");
    assert!(!user.parental.enabled && user.parental.limit == 18 && !user.has_pin);
    let weak = f
        .accounts
        .sign_up(
            partner(1),
            new_user("bob@example.com"),
            &password("12345678"),
            HERE,
            NOW,
            &InPlace,
        )
        .wait();
    assert_eq!(weak.err(), Some(AccountsError::PasswordTooCommon));
}

#[test]
fn a_login_that_is_used_lasts_until_its_absolute_limit() {
    let f = fixture();
    let used = f.sign_up("ann@example.com");
    let idle = f
        .log_in_from("ann@example.com", PASSWORD, HERE, NOW)
        .unwrap_or_else(|error| panic!("{error}"));
    let day = |n: i64| NOW + n * DAY;
    for n in 1..365 {
        assert!(f.is_known(&used, day(n)), "{n}");
        f.accounts.store_uses().unwrap();
    }
    assert!(!f.is_known(&used, day(365)));
    assert!(!f.is_known(&idle, day(60)));
    f.assert_sound();
}

#[test]
fn the_least_recently_used_login_ends_when_there_are_too_many() {
    let f = fixture_with(AccountSettings {
        logins_per_user: 3,
        ..settings()
    });
    let telephone = f.sign_up("ann@example.com");
    let log_in = |at| {
        f.log_in_from("ann@example.com", PASSWORD, HERE, at)
            .unwrap_or_else(|error| panic!("{error}"))
    };
    let (second, third) = (log_in(NOW + 10), log_in(NOW + 20));
    // Not stored yet: a use counts at once.
    assert!(f.is_known(&telephone, NOW + DAY));
    log_in(NOW + DAY + 1);
    assert!(f.is_known(&telephone, NOW + DAY + 2) && f.is_known(&third, NOW + DAY + 2));
    assert!(!f.is_known(&second, NOW + DAY + 2));
}
