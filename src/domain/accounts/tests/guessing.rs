//! Limits on guessing hold under parallel guesses, for accounts that exist and that do not.

use super::*;

fn too_many(kind: AttemptKind, retry_after: i64) -> Result<(), AccountsError> {
    let limit = AttemptLimits::default().reached(kind, retry_after);
    Err(AccountsError::TooManyAttempts(limit))
}

fn from(n: usize) -> IpAddr {
    std::net::Ipv4Addr::from_bits(u32::try_from(0x0a00_0000 + n).unwrap()).into()
}

#[test]
fn of_200_concurrent_guesses_10_are_tried() {
    for address in ["ann@example.com", "nobody@example.com"] {
        let f = fixture();
        f.sign_up("ann@example.com");
        let results = at_once(20, 10, |n| {
            f.log_in_from(address, "wrong wrong", from(n), NOW)
                .map(|_| ())
        });
        let wrong = Err(AccountsError::InvalidCredentials);
        assert_eq!(results.iter().filter(|r| **r == wrong).count(), 10);
        assert_eq!(
            results
                .iter()
                .filter(|r| **r == too_many(AttemptKind::LoginAccount, 60))
                .count(),
            190
        );
    }
}

#[test]
fn owner_can_log_in_after_the_lock_and_the_next_lock_is_longer() {
    let f = fixture();
    f.sign_up("ann@example.com");
    let wrong = |n, now| {
        f.log_in_from("ann@example.com", "wrong wrong", from(n), now)
            .map(|_| ())
    };
    for n in 0..10 {
        assert_eq!(wrong(n, NOW), Err(AccountsError::InvalidCredentials));
    }
    // From networks that the account does not know yet.
    let right = |n, now| {
        f.log_in_from("ann@example.com", PASSWORD, from(n), now)
            .map(|_| ())
    };
    assert_eq!(right(500, NOW + 59), too_many(AttemptKind::LoginAccount, 1));
    right(500, NOW + 60).unwrap();
    right(501, NOW + 60).unwrap();
    let mut now = NOW + 60;
    for (lock, allowed) in [(120, 1), (240, 1), (480, 1), (900, 7), (900, 10)] {
        // One guess at a time, until the first ones leave the window.
        let guesses =
            (0..20).take_while(|_| wrong(99, now) != too_many(AttemptKind::LoginAccount, lock));
        assert_eq!(guesses.count(), allowed);
        now = now + lock;
    }
    right(502, now).unwrap();
}

#[test]
fn password_spraying_hits_the_address_limit() {
    let f = fixture();
    let results = at_once(10, 20, |n| {
        let address = format!("user{n}@example.com");
        f.log_in_from(&address, "wrong wrong", HERE, NOW)
            .map(|_| ())
    });
    let wrong = Err(AccountsError::InvalidCredentials);
    assert_eq!(results.iter().filter(|r| **r == wrong).count(), 50);
    // A correct login to the attacker's own account refunds nothing of the others.
    let v6: IpAddr = "2001:db8::1".parse().unwrap();
    f.log_in_from("a@example.com", "wrong wrong", v6, NOW)
        .map(|_| ())
        .unwrap_err();
    let may = |from| f.may_try(partner(1), "b@example.com", from);
    assert_eq!(may(HERE), too_many(AttemptKind::LoginAddress, 60));
    assert_eq!(may(v6), Ok(()));
}

#[test]
fn correct_passwords_are_not_counted() {
    let f = fixture();
    f.sign_up("ann@example.com");
    for _ in 0..60 {
        f.log_in("ann@example.com", PASSWORD, NOW).unwrap();
    }
    // The counter of the sign-up is left.
    assert!(
        f.store
            .read(|txn| txn.scan::<Throttles>(&playgate_store::All, 9))
            .unwrap()
            .len()
            == 1
    );
}

#[test]
fn password_confirmation_does_not_bypass_the_login_limit() {
    let f = fixture();
    let opened = f.sign_up("ann@example.com");
    let who = Login {
        user: opened.user.id,
        login: opened.login,
    };
    let guess = password("wrong wrong");
    let mut results = Vec::new();
    for _ in 0..4 {
        let new = password("goats gruff and gruffer");
        results.push(
            f.accounts
                .change_password(who, &guess, &new, HERE, NOW, &InPlace)
                .wait(),
        );
        let proof = (None, Some(&guess));
        results.push(
            f.accounts
                .set_pin(&who.user, proof, &pin("1234"), HERE, NOW, &InPlace)
                .wait(),
        );
        results.push(
            f.accounts
                .erase(&who.user, &guess, HERE, NOW, &InPlace)
                .wait(),
        );
    }
    let wrong = Err(AccountsError::PasswordWrong);
    assert!(results[..10].iter().all(|r| *r == wrong));
    assert!(
        results[10..]
            .iter()
            .all(|r| *r == too_many(AttemptKind::LoginAccount, 60))
    );
    assert_eq!(
        f.log_in("ann@example.com", PASSWORD, NOW),
        too_many(AttemptKind::LoginAccount, 60)
    );
}

#[test]
fn all_sign_ups_of_an_address_are_counted() {
    let f = fixture();
    f.sign_up("ann@example.com");
    let results = at_once(10, 20, |n| {
        let new = new_user(&format!("user{}@example.com", n % 2));
        f.accounts
            .sign_up(partner(1), new, &password(PASSWORD), HERE, NOW, &InPlace)
            .wait()
            .map(|_| ())
    });
    let sign_up_rate = |now| {
        f.accounts
            .check_address_rate(AttemptKind::SignUpAddress, Some(&partner(1)), HERE, now)
    };
    // One of the 100 attempts was used above: 99 of these 200 are tried.
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 2);
    assert_eq!(
        results
            .iter()
            .filter(|r| **r == too_many(AttemptKind::SignUpAddress, 600))
            .count(),
        101
    );
    assert_eq!(
        sign_up_rate(NOW + 599),
        too_many(AttemptKind::SignUpAddress, 1)
    );
    assert_eq!(sign_up_rate(NOW + 600), Ok(()));
}

#[test]
fn counters_survive_a_restart() {
    let f = fixture();
    for n in 0..10 {
        f.log_in_from("ann@example.com", "wrong wrong", from(n), NOW)
            .map(|_| ())
            .unwrap_err();
    }
    let again = f.opened_again(settings());
    let given = login_attempt("ann@example.com", PASSWORD);
    let rate = |of| again.check_login_rate(partner(of), &given, NOW);
    assert_eq!(rate(1), too_many(AttemptKind::LoginAccount, 60));
    // The same address with another partner is another account.
    assert_eq!(rate(2), Ok(()));
}

#[test]
fn idle_counters_are_swept() {
    let f = fixture();
    for n in 0..10 {
        f.log_in_from("ann@example.com", "wrong wrong", from(n), NOW)
            .map(|_| ())
            .unwrap_err();
    }
    // The ten counters of addresses end with their window, and the account's shares in them. The counter of the account has a lock, and remembers it
    // for an hour.
    assert_eq!(f.accounts.sweep(NOW + 899).unwrap().throttles, 0);
    assert_eq!(f.accounts.sweep(NOW + 900).unwrap().throttles, 20);
    assert_eq!(f.accounts.sweep(NOW + 60 + 3_600).unwrap().throttles, 1);
    assert!(
        f.store
            .read(|txn| txn.scan::<Throttles>(&playgate_store::All, 9))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn right_password_is_not_counted_if_its_change_fails() {
    let f = fixture();
    let user = f.sign_up("ann@example.com").user.id;
    // Another request sets a PIN while the password is checked.
    let pool = Meanwhile(|| {
        f.accounts
            .override_pin(&user, &pin("9999"), &InPlace)
            .wait()
            .unwrap()
    });
    let proof = (None, Some(&password(PASSWORD)));
    let new = pin("1234");
    let set = f.accounts.set_pin(&user, proof, &new, HERE, NOW, &pool);
    assert_eq!(set.wait(), Err(PinError::Required.into()));
    // The counter of the sign-up is left.
    let counters = f
        .store
        .read(|txn| txn.scan::<Throttles>(&playgate_store::All, 9));
    assert_eq!(counters.unwrap().len(), 1);
}

#[test]
fn moved_clock_of_a_lab_partner_keeps_the_attempts_of_others() {
    let f = fixture();
    let add = f.partners.add("lab", PartnerKind::Lab, NOW).unwrap();
    let (lab, _) = add.wait().unwrap();
    for n in 0..50 {
        f.log_in_from(&format!("user{n}@example.com"), "wrong wrong", HERE, NOW)
            .map(drop)
            .unwrap_err();
    }
    let rate = |partner| f.may_try(partner, "ann@example.com", HERE);
    assert_eq!(rate(partner(1)), too_many(AttemptKind::LoginAddress, 60));
    assert_eq!(rate(lab), Ok(()));
    let given = login_attempt("ann@example.com", "wrong wrong");
    let later = f.accounts.log_in(lab, given, NOW + 86_400, &InPlace).wait();
    assert_eq!(later.map(drop), Err(AccountsError::InvalidCredentials));
    assert_eq!(rate(partner(1)), too_many(AttemptKind::LoginAddress, 60));
}

#[test]
fn viewers_of_an_exempt_network_do_not_lock_each_other_out() {
    let campus = "192.0.2.0".parse::<std::net::Ipv4Addr>().unwrap();
    let f = fixture_with(AccountSettings {
        exempt_networks: vec![(campus.to_ipv6_mapped().to_bits(), 120)],
        ..settings()
    });
    f.sign_up("ann@example.com");
    let (inside, outside) = ("192.0.2.7".parse().unwrap(), "192.0.3.7".parse().unwrap());
    let tries = |from| {
        for n in 0..60 {
            let _ = f.log_in_from(&format!("u{n}@example.com"), "a wrong password", from, NOW);
        }
        f.log_in_from("ann@example.com", PASSWORD, from, NOW)
            .is_ok()
    };
    assert!(tries(inside));
    // Control: elsewhere the address is locked.
    assert!(!tries(outside));
}
