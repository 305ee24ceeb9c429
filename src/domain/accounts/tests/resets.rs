//! Tests of password resets.

use super::*;
use crate::mail::MailKind;

const NEW: &str = "goats gruff and gruffer";

impl Fixture {
    fn send_reset(&self, address: &str, now: UnixSeconds) -> Result<(), AccountsError> {
        self.accounts
            .send_reset(partner(1), &email(address), None, HERE, now)
            .wait()
    }

    fn token(&self) -> String {
        self.mailed(MailKind::Reset, "token=")
    }

    fn complete(&self, token: &str, new: &str, now: UnixSeconds) -> Result<(), AccountsError> {
        let new = password(new);
        let token = TokenHash::hash_presented(TokenKind::Reset, token)
            .ok_or(AccountsError::ResetTokenInvalid)?;
        self.accounts
            .complete_reset(Some(partner(1)), token, &new, HERE, now, &InPlace)
            .wait()
    }
}

const INVALID: Result<(), AccountsError> = Err(AccountsError::ResetTokenInvalid);

#[test]
fn reset_sets_the_password_and_ends_every_session() {
    let f = fixture();
    let opened = f.sign_up("ann@example.com");
    f.send_reset("ANN@example.com", NOW).unwrap();
    f.complete(&f.token(), NEW, NOW + 1_799).unwrap();
    assert!(!f.is_known(&opened, NOW));
    assert!(f.log_in("ann@example.com", PASSWORD, NOW).is_err());
    f.log_in("ann@example.com", NEW, NOW).unwrap();
    assert_eq!(f.mails(MailKind::PasswordChanged), 1);
    // A form that was sent twice is answered as the first, and changes nothing.
    assert_eq!(f.complete(&f.token(), NEW, NOW + 1_799), Ok(()));
    assert_eq!(
        f.complete(&f.token(), "another meadow path", NOW + 1_799),
        INVALID
    );
    assert_eq!(f.complete(&f.token(), NEW, NOW + 1_799 + 600), INVALID);
    assert_eq!(f.mails(MailKind::PasswordChanged), 1);
    f.assert_sound();
}

#[test]
fn reset_token_works_only_once() {
    let f = fixture();
    f.sign_up("ann@example.com");
    f.send_reset("ann@example.com", NOW).unwrap();
    let token = f.token();
    let results = at_once(25, 2, |n| f.complete(&token, &format!("{NEW} {n}"), NOW));
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
    assert_eq!(results.iter().filter(|r| **r == INVALID).count(), 49);
    let winner = results.iter().position(Result::is_ok).unwrap();
    f.log_in("ann@example.com", &format!("{NEW} {winner}"), NOW)
        .unwrap();
    assert_eq!(f.mails(MailKind::PasswordChanged), 1);
}

#[test]
fn unknown_address_gets_no_mail_and_the_same_response() {
    let f = fixture();
    f.sign_up("ann@example.com");
    f.send_reset("nobody@example.com", NOW).unwrap();
    assert_eq!(f.mails(MailKind::Reset), 0);
    // An account with the same address at another partner gets no mail either.
    let address = email("ann@example.com");
    f.accounts
        .send_reset(partner(2), &address, None, HERE, NOW)
        .wait()
        .unwrap();
    assert_eq!(f.mails(MailKind::Reset), 0);
}

#[test]
fn only_the_newest_valid_token_of_the_partner_is_accepted() {
    let f = fixture();
    f.sign_up("ann@example.com");
    f.send_reset("ann@example.com", NOW).unwrap();
    let older = f.token();
    f.send_reset("ann@example.com", NOW).unwrap();
    let newer = f.token();
    assert_eq!(f.complete(&older, NEW, NOW), INVALID);
    let hash = TokenHash::hash_presented(TokenKind::Reset, &newer).unwrap();
    let elsewhere = f
        .accounts
        .complete_reset(Some(partner(2)), hash, &password(NEW), HERE, NOW, &InPlace)
        .wait();
    assert_eq!(elsewhere, INVALID);
    assert_eq!(f.complete(&newer, NEW, NOW + 1_800), INVALID);
    for text in [
        "",
        "pgr_",
        &newer.to_uppercase(),
        &format!("{newer}A"),
        &"pgr_".repeat(4_000),
    ] {
        assert_eq!(f.complete(text, NEW, NOW), INVALID);
    }
    f.complete(&newer, NEW, NOW).unwrap();
}

#[test]
fn token_kinds_are_not_interchangeable() {
    let f = fixture();
    let opened = f.sign_up("ann@example.com");
    assert_eq!(f.complete(opened.token.reveal(), NEW, NOW), INVALID);
    f.send_reset("ann@example.com", NOW).unwrap();
    assert!(TokenHash::hash_presented(TokenKind::User, &f.token()).is_none());
}

#[test]
fn weak_password_keeps_the_token_and_counts_as_attempt() {
    let f = fixture_with(AccountSettings {
        limits: AttemptLimits {
            reset: AttemptRule {
                limit: 3,
                window: 900,
                locks: &[],
            },
            ..AttemptLimits::default()
        },
        ..settings()
    });
    f.sign_up("ann@example.com");
    f.send_reset("ann@example.com", NOW).unwrap();
    let token = f.token();
    let short = Err(AccountsError::PasswordTooShort { min: 8 });
    assert_eq!(f.complete(&token, "short", NOW), short);
    let common = Err(AccountsError::PasswordTooCommon);
    assert_eq!(f.complete(&token, "ann@example.com", NOW), common);
    f.complete(&token, NEW, NOW).unwrap();
    // Two weak passwords and the reset itself used up the limit of three.
    let limit = f
        .accounts
        .0
        .settings
        .limits
        .reached(attempt_limits::AttemptKind::ResetAddress, 900);
    let refused = Err(AccountsError::TooManyAttempts(limit));
    assert_eq!(f.complete(&token, NEW, NOW), refused);
    assert_eq!(
        f.accounts
            .check_address_rate(AttemptKind::ResetAddress, None, HERE, NOW),
        refused
    );
}

#[test]
fn thousand_requests_send_three_mails_an_hour_and_lock_nothing() {
    let f = fixture_with(AccountSettings {
        limits: AttemptLimits {
            reset_mail_address: AttemptRule {
                limit: 0,
                window: 3_600,
                locks: &[],
            },
            ..AttemptLimits::default()
        },
        ..settings()
    });
    f.sign_up("ann@example.com");
    for result in at_once(10, 20, |_| f.send_reset("ann@example.com", NOW)) {
        result.unwrap();
    }
    assert_eq!(f.mails(MailKind::Reset), 3);
    f.log_in("ann@example.com", PASSWORD, NOW).unwrap();
    f.send_reset("ann@example.com", NOW + 3_600).unwrap();
    assert_eq!(f.mails(MailKind::Reset), 4);
}

#[test]
fn network_address_may_request_sixty_mails_an_hour() {
    let f = fixture();
    let results = at_once(10, 10, |n| f.send_reset(&format!("u{n}@example.com"), NOW));
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 60);
}

#[test]
fn reset_lifts_the_login_lock() {
    let f = fixture();
    f.sign_up("ann@example.com");
    for n in 1..=10 {
        let from = std::net::Ipv4Addr::new(10, 0, 0, n).into();
        f.log_in_from("ann@example.com", "wrong wrong", from, NOW)
            .map(|_| ())
            .unwrap_err();
    }
    f.send_reset("ann@example.com", NOW).unwrap();
    f.complete(&f.token(), NEW, NOW).unwrap();
    f.log_in("ann@example.com", NEW, NOW).unwrap();
}

#[test]
fn password_change_voids_reset_tokens() {
    let f = fixture();
    let opened = f.sign_up("ann@example.com");
    f.send_reset("ann@example.com", NOW).unwrap();
    let token = f.token();
    let who = Login {
        user: opened.user.id,
        login: opened.login,
    };
    let (current, new) = (password(PASSWORD), password(NEW));
    f.accounts
        .change_password(who, &current, &new, HERE, NOW, &InPlace)
        .wait()
        .unwrap();
    assert_eq!(f.complete(&token, NEW, NOW), INVALID);
}

#[test]
fn expired_tokens_are_swept() {
    let f = fixture();
    f.sign_up("ann@example.com");
    f.send_reset("ann@example.com", NOW).unwrap();
    assert_eq!(f.accounts.sweep(NOW + 1_799).unwrap().resets, 0);
    assert_eq!(f.accounts.sweep(NOW + 1_800).unwrap().resets, 1);
    f.assert_sound();
}

#[test]
fn mail_uses_the_requested_language_or_the_users() {
    let f = fixture();
    f.sign_up("ann@example.com");
    f.send_reset("ann@example.com", NOW).unwrap();
    let address = email("ann@example.com");
    f.accounts
        .send_reset(partner(1), &address, Locale::parse("de").ok(), HERE, NOW)
        .wait()
        .unwrap();
    let subjects: Vec<_> = f
        .mail
        .list(2)
        .unwrap()
        .into_iter()
        .map(|m| m.subject)
        .collect();
    assert_eq!(
        subjects,
        ["Neues Passwort wählen", "Välj ett nytt lösenord"]
    );
}
