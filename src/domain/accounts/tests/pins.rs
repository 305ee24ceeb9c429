//! Tests of PINs and of the fields that they protect.

use super::*;
use crate::mail::MailKind;
use playgate_types::{BirthDate, PersonName};

impl Fixture {
    fn with_pin(&self, digits: &str) -> NewLogin {
        let opened = self.sign_up("ann@example.com");
        let proof = (None, Some(&password(PASSWORD)));
        self.accounts
            .set_pin(&opened.user.id, proof, &pin(digits), HERE, NOW, &InPlace)
            .wait()
            .unwrap();
        opened
    }

    fn check(&self, user: &UserId, digits: &str, now: UnixSeconds) -> Result<(), PinError> {
        self.accounts
            .check_pin(user, &pin(digits), now, &InPlace)
            .wait()
    }

    fn change(
        &self,
        user: &UserId,
        change: UserChange,
        digits: Option<&str>,
    ) -> Result<Arc<User>, AccountsError> {
        let pin = digits.map(pin);
        self.accounts
            .change_user(user, change, pin.as_ref(), NOW, &InPlace)
            .wait()
    }
}

fn parental(enabled: bool) -> UserChange {
    UserChange {
        parental_enabled: Some(enabled),
        ..UserChange::default()
    }
}

#[test]
fn first_pin_needs_the_password_and_later_ones_the_pin() {
    let f = fixture();
    let user = f.sign_up("ann@example.com").user.id;
    assert_eq!(f.check(&user, "1234", NOW), Err(PinError::NotSet));
    let set = |proof: (Option<&str>, Option<&str>), digits: &str| {
        let (old, word) = (proof.0.map(pin), proof.1.map(password));
        let proof = (old.as_ref(), word.as_ref());
        f.accounts
            .set_pin(&user, proof, &pin(digits), HERE, NOW, &InPlace)
            .wait()
    };
    assert_eq!(
        set((Some("1234"), None), "1234"),
        Err(AccountsError::PasswordRequired)
    );
    assert_eq!(
        set((None, Some("wrong wrong")), "1234"),
        Err(AccountsError::PasswordWrong)
    );
    set((None, Some(PASSWORD)), "1234").unwrap();
    assert!(f.accounts.user(&user).unwrap().has_pin);
    f.check(&user, "1234", NOW).unwrap();
    assert_eq!(
        set((None, Some(PASSWORD)), "5678"),
        Err(PinError::Required.into())
    );
    let wrong = PinError::Wrong { attempts_left: 4 };
    assert_eq!(set((Some("0000"), None), "5678"), Err(wrong.into()));
    set((Some("1234"), None), "567890").unwrap();
    f.check(&user, "567890", NOW).unwrap();
    // The password used for the first PIN cannot change it.
    assert_eq!(f.mails(MailKind::Pin), 0);
    f.assert_sound();
}

#[test]
fn five_wrong_pins_lock_for_15_minutes() {
    let f = fixture();
    let user = f.with_pin("1234").user.id;
    for left in (0..5).rev() {
        let wrong = Err(PinError::Wrong {
            attempts_left: left,
        });
        assert_eq!(f.check(&user, "0000", NOW), wrong);
    }
    let locked = |wait| {
        Err(PinError::Locked(
            AttemptLimits::default().reached(attempt_limits::AttemptKind::Pin, wait),
        ))
    };
    assert_eq!(f.check(&user, "1234", NOW), locked(900));
    assert_eq!(f.accounts.check_pin_lock(&user, NOW + 899), locked(1));
    f.check(&user, "1234", NOW + 900).unwrap();
}

#[test]
fn of_200_concurrent_pins_5_are_tried() {
    let f = fixture();
    let user = f.with_pin("1234").user.id;
    let results = at_once(20, 10, |_| f.check(&user, "0000", NOW));
    let wrong = |r: &&Result<(), PinError>| matches!(r, Err(PinError::Wrong { .. }));
    assert_eq!(results.iter().filter(wrong).count(), 5);
    // Correct PINs are not counted, at any rate.
    for _ in 0..20 {
        f.check(&user, "1234", NOW + 900).unwrap();
    }
}

#[test]
fn enabling_parental_control_mails_a_pin_once() {
    let f = fixture();
    let user = f.sign_up("ann@example.com").user.id;
    let changed = f
        .change(&user, parental(true), None)
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(changed.parental.enabled && changed.has_pin);
    let digits = f.mailed(MailKind::Pin, ":");
    assert_eq!(digits.len(), 4);
    f.check(&user, &digits, NOW).unwrap();
    f.change(&user, parental(false), Some(&digits))
        .unwrap_or_else(|e| panic!("{e}"));
    f.change(&user, parental(true), Some(&digits))
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(f.mails(MailKind::Pin), 1);
    f.assert_sound();
}

#[test]
fn pin_protects_parental_control_and_birth_date() {
    let f = fixture();
    let user = f.with_pin("1234").user.id;
    let day = BirthDate::parse("2015-01-01").ok();
    let guarded = [
        parental(true),
        UserChange {
            parental_limit: Some(7),
            ..UserChange::default()
        },
        UserChange {
            birth_date: day,
            ..UserChange::default()
        },
    ];
    for change in guarded {
        let required = Some(PinError::Required.into());
        assert!(f.change(&user, change.clone(), None).err() == required);
        let refused = f.change(&user, change.clone(), Some("0000")).err();
        assert!(matches!(
            refused,
            Some(AccountsError::Pin(PinError::Wrong { .. }))
        ));
        assert!(f.change(&user, change, Some("1234")).is_ok());
    }
    let changed = f.accounts.user(&user).unwrap();
    assert!(
        changed.parental
            == ParentalControl {
                enabled: true,
                limit: 7
            }
    );
    assert!(changed.birth_date == day);
    // Unchanged fields and the name need no PIN; a wrong one is not counted.
    for n in 0..10 {
        let change = UserChange {
            name: PersonName::parse(&format!("Ann {n}")).ok(),
            locale: Locale::parse("de").ok(),
            birth_date: day,
            parental_enabled: Some(true),
            parental_limit: Some(7),
        };
        let changed = f
            .change(&user, change, Some("0000"))
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(changed.name.as_ref().unwrap().as_str(), format!("Ann {n}"));
        assert!(changed.locale == Locale::parse("de").ok());
    }
    f.check(&user, "1234", NOW).unwrap();
}

#[test]
fn age_limits_and_birth_dates_are_validated() {
    let f = fixture();
    let user = f.sign_up("ann@example.com").user.id;
    let change = UserChange {
        parental_limit: Some(100),
        ..UserChange::default()
    };
    let refused = f.change(&user, change, None).err();
    assert!(matches!(
        refused,
        Some(AccountsError::FieldMalformed { .. })
    ));
    let change = UserChange {
        birth_date: BirthDate::parse("2999-01-01").ok(),
        ..UserChange::default()
    };
    let refused = f.change(&user, change, None).err();
    assert!(matches!(
        refused,
        Some(AccountsError::FieldMalformed { .. })
    ));
}

#[test]
fn pin_reset_mails_at_most_three_per_hour_and_lifts_no_lock() {
    let f = fixture();
    let user = f.with_pin("1234").user.id;
    for _ in 0..5 {
        f.check(&user, "0000", NOW).unwrap_err();
    }
    for _ in 0..3 {
        f.accounts.reset_pin(&user, NOW, &InPlace).wait().unwrap();
    }
    assert_eq!(
        f.accounts.reset_pin(&user, NOW, &InPlace).wait(),
        Err(AccountsError::TooManyAttempts(
            AttemptLimits::default().reached(attempt_limits::AttemptKind::PinMail, 3_600)
        ))
    );
    let digits = f.mailed(MailKind::Pin, ":");
    // The lock holds for the new PIN, too.
    assert_eq!(
        f.check(&user, &digits, NOW),
        Err(PinError::Locked(
            AttemptLimits::default().reached(attempt_limits::AttemptKind::Pin, 900)
        ))
    );
    f.check(&user, &digits, NOW + 900).unwrap();
    f.accounts
        .override_pin(&user, &pin("999999"), &InPlace)
        .wait()
        .unwrap();
    // An operator's PIN lifts the lock.
    f.check(&user, "999999", NOW).unwrap();
}
