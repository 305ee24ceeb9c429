//! Tests of the stored record format: a change needs a new record version.

use super::*;
use playgate_store::golden;
use playgate_types::{BirthDate, Country, LoginId, PersonName};
use tables::{LoginRecord, ResetRecord};

fn assert_golden<R: playgate_store::Record>(record: &R, expected: &str) {
    assert_eq!(golden(record), expected.replace(' ', ""));
}

fn hex(text: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap()
}

fn repeated(byte: &str, times: usize) -> String {
    byte.repeat(times)
}

#[test]
fn user_record_bytes_are_stable() {
    let user = UserRecord {
        partner: partner(7),
        email: email("a@b.c"),
        name: PersonName::parse("A").ok(),
        country: Country::parse("SE").ok(),
        locale: Locale::parse("sv").ok(),
        birth_date: BirthDate::parse("2000-01-02").ok(),
        created: UnixSeconds(1),
        tags: vec!["t".to_owned()],
        parental: ParentalControl {
            enabled: true,
            limit: 15,
        },
        has_pin: true,
        disabled: false,
    };
    let expected = format!(
        "01 {} 05 6140622e63 01 01 41 01 5345 01 02 7376 01 0a 323030302d30312d3032 02 01 01 74 01 0f 01 00",
        repeated("07", 16)
    );
    assert_golden(&user, &expected);
}

#[test]
fn credential_record_bytes_are_stable() {
    let credentials = CredentialRecord {
        password: "$".to_owned(),
        password_set: UnixSeconds(1),
        generation: 2,
        pin: Some("#".to_owned()),
    };
    assert_golden(&credentials, "01 01 24 02 02 01 01 23");
}

#[test]
fn login_and_reset_record_bytes_are_stable() {
    let login = LoginRecord {
        login: LoginId::from_bytes([5; 16]),
        user: UserId::from_bytes([6; 16]),
        partner: partner(7),
        created: UnixSeconds(1),
        expires: UnixSeconds(2),
        idle_until: UnixSeconds(3),
        used: UnixSeconds(4),
        program: Some("P".to_owned()),
        device: None,
    };
    let ids = format!(
        "{}{}{}",
        repeated("05", 16),
        repeated("06", 16),
        repeated("07", 16)
    );
    assert_golden(&login, &format!("02 {ids} 02 04 06 08 01 01 50 00"));
    let old = hex(&format!("{ids}0204"));
    let upgraded = <LoginRecord as playgate_store::Record>::upgrade(1, &old).unwrap();
    // A login of version 1 ends when it would have ended.
    assert_eq!(upgraded.ends(), UnixSeconds(2));
    assert_eq!(
        (upgraded.login, upgraded.used),
        (login.login, UnixSeconds(1))
    );
    let reset = ResetRecord {
        user: UserId::from_bytes([6; 16]),
        partner: partner(7),
        created: UnixSeconds(1),
        expires: UnixSeconds(2),
        used: true,
    };
    let ids = format!("{}{}", repeated("06", 16), repeated("07", 16));
    assert_golden(&reset, &format!("02 {ids} 02 04 01"));
    let old = hex(&format!("{ids}0204"));
    let upgraded = <ResetRecord as playgate_store::Record>::upgrade(1, &old).unwrap();
    assert_eq!(
        upgraded,
        ResetRecord {
            used: false,
            ..reset
        }
    );
}

#[test]
fn counter_record_bytes_are_stable() {
    let rule = AttemptRule {
        limit: 2,
        window: 10,
        locks: &[5],
    };
    let mut counter = attempt_counter::AttemptCounter::default();
    counter.reserve(&rule, UnixSeconds(1)).unwrap();
    counter.reserve(&rule, UnixSeconds(1)).unwrap();
    assert_golden(&counter, "01 01 02 02 01 0c");
}

#[test]
fn known_client_record_bytes_are_stable() {
    let mut known = KnownClients::default();
    known.add(HERE, Some("tv-1"));
    assert_golden(&known, "01 01 fd 2f3808a5487dd3b8 01 fd cd378f135232c88e");
}

#[test]
fn reset_of_a_partner_removes_the_counters_of_mails() {
    let f = fixture();
    let reset_pin = |user: UserId| f.accounts.reset_pin(&user, NOW, &InPlace).wait();
    let user = f.sign_up("ann@example.com").user.id;
    for _ in 0..3 {
        reset_pin(user).unwrap();
    }
    assert!(matches!(
        reset_pin(user),
        Err(AccountsError::TooManyAttempts(_))
    ));
    assert_eq!(f.accounts.reset_partner(partner(1), NOW), Ok(1));
    let user = f.sign_up("ann@example.com").user.id;
    reset_pin(user).unwrap();
}
