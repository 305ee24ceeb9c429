//! Devices and networks that have logged in to an account have a count of their own.

use super::super::known_clients::KNOWN_MAX;
use super::*;
use playgate_types::time::DAY;

const OWNER: &str = "ann@example.com";
const QUARTER: i64 = 900;

fn network(n: usize) -> IpAddr {
    std::net::Ipv4Addr::from_bits(u32::try_from(0x0a00_0000 + n).unwrap()).into()
}

impl Fixture {
    fn try_with(&self, text: &str, from: IpAddr, device: Option<&str>, now: UnixSeconds) -> Tried {
        let client = LoginClient {
            program: None,
            device: device.map(str::to_owned),
        };
        let given = LoginAttempt {
            from,
            client,
            ..login_attempt(OWNER, text)
        };
        let pool = &InPlace;
        match self.accounts.log_in(partner(1), given, now, pool).wait() {
            Ok(_) => Tried::In,
            Err(AccountsError::InvalidCredentials) => Tried::Wrong,
            Err(AccountsError::TooManyAttempts(limit)) => Tried::Limited(limit.name),
            Err(other) => panic!("{other}"),
        }
    }

    /// Guesses until the limit, and returns the number of guesses that were checked.
    fn exhaust(&self, from: IpAddr, device: Option<&str>, now: UnixSeconds) -> usize {
        let tries = std::iter::repeat_with(|| self.try_with("a wrong password", from, device, now));
        tries.take_while(|tried| *tried == Tried::Wrong).count()
    }

    fn known_accounts(&self) -> usize {
        let all = |txn: &Txn<'_>| txn.scan::<KnownClientTable>(&playgate_store::All, 99);
        self.store.read(all).unwrap().len()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Tried {
    In,
    Wrong,
    Limited(&'static str),
}

#[test]
fn owner_gets_in_from_a_known_client_while_a_stranger_guesses_all_day() {
    let f = fixture();
    f.sign_up(OWNER);
    let away = network(1);
    assert_eq!(f.try_with(PASSWORD, away, Some("tv-1"), NOW), Tried::In);
    let mut guesses = 0;
    for quarter in 0..DAY / QUARTER {
        let now = NOW + quarter * QUARTER;
        // Each guess from another address.
        let guess = |n| f.try_with("a wrong password", network(1_000 + n), None, now);
        let stranger = (0..100_usize).map(guess);
        guesses += stranger.filter(|tried| *tried == Tried::Wrong).count();
        // Control: a client that has never logged in is kept out, with the right password too.
        let unknown = f.try_with(PASSWORD, network(2), Some("tv-2"), now);
        assert_eq!(unknown, Tried::Limited("login-account"));
        assert_eq!(f.log_in(OWNER, PASSWORD, now), Ok(()), "{quarter}");
        // The device in a network that the account does not know.
        let device = f.try_with(PASSWORD, network(3), Some("tv-1"), now);
        assert_eq!(device, Tried::In, "{quarter}");
        // Only the device: the eighth newest network is forgotten.
        assert_eq!(f.log_in(OWNER, PASSWORD, now), Ok(()));
    }
    assert!(guesses <= 960, "{guesses}");
}

#[test]
fn viewers_who_mistype_behind_one_address_do_not_lock_out_those_who_have_logged_in_there() {
    let f = fixture();
    let viewer = |n: usize| format!("viewer{n}@example.com");
    for n in 0..52 {
        f.sign_up(&viewer(n));
    }
    let (home, elsewhere) = (HERE, network(7));
    for n in 0..50 {
        for from in [home, elsewhere] {
            let wrong = f.log_in_from(&viewer(n), "a wrong password", from, NOW);
            assert_eq!(wrong.map(drop), Err(AccountsError::InvalidCredentials));
        }
    }
    f.log_in_from(&viewer(50), PASSWORD, home, NOW).unwrap();
    // Control: nobody has logged in from the other address.
    let refused = f.log_in_from(&viewer(51), PASSWORD, elsewhere, NOW);
    let limit = AttemptLimits::default().reached(AttemptKind::LoginAddress, 60);
    assert_eq!(
        refused.map(drop),
        Err(AccountsError::TooManyAttempts(limit))
    );
}

#[test]
fn guesses_in_a_known_network_at_all_its_accounts_are_limited() {
    let limits = AttemptLimits {
        login_known_address: AttemptRule {
            limit: 30,
            ..AttemptLimits::default().login_known_address
        },
        ..AttemptLimits::default()
    };
    let f = fixture_with(AccountSettings {
        limits,
        ..settings()
    });
    let viewer = |n: usize| format!("viewer{n}@example.com");
    for n in 0..40 {
        f.sign_up(&viewer(n));
    }
    let wrong = |n| f.log_in_from(&viewer(n), "a wrong password", HERE, NOW);
    let checked = (0..40)
        .map(|n| wrong(n).map(drop))
        .filter(|tried| *tried == Err(AccountsError::InvalidCredentials));
    assert_eq!(checked.count(), 30);
}

#[test]
fn viewer_who_mistypes_and_then_knows_the_password_does_not_count_for_the_address() {
    let f = fixture();
    let (hotel, viewer) = (network(9), |n: usize| format!("viewer{n}@example.com"));
    for n in 0..80 {
        f.sign_up(&viewer(n));
    }
    for n in 0..80 {
        for text in ["a wrong password", "another wrong one"] {
            let wrong = f.log_in_from(&viewer(n), text, hotel, NOW).map(drop);
            assert_eq!(wrong, Err(AccountsError::InvalidCredentials), "{n}");
        }
        f.log_in_from(&viewer(n), PASSWORD, hotel, NOW).unwrap();
    }
}

#[test]
fn right_passwords_take_back_no_guesses_at_other_accounts() {
    let f = fixture();
    f.sign_up(OWNER);
    let from = network(9);
    // A login of an attacker's own account between any two guesses, at the same second, several at once.
    let mut checked = 0;
    for n in 0..80 {
        let guess = f.log_in_from(&format!("u{n}@example.com"), "a wrong password", from, NOW);
        checked += usize::from(guess.map(drop) == Err(AccountsError::InvalidCredentials));
        at_once(4, 1, |_| drop(f.log_in_from(OWNER, PASSWORD, from, NOW)));
    }
    // The first login made the network known to the own account, and to no other.
    assert_eq!(checked, 50);
}

#[test]
fn only_success_makes_a_client_known() {
    let f = fixture();
    let given = new_user(OWNER);
    let first = FirstPassword::Plain(password(PASSWORD));
    let add = f.accounts.add(partner(1), given, first, NOW, &InPlace);
    add.wait().unwrap();
    let from = network(1);
    for _ in 0..10 {
        let tried = f.try_with("a wrong password", from, Some("tv-1"), NOW);
        assert_eq!(tried, Tried::Wrong);
    }
    assert_eq!(f.known_accounts(), 0);
    let owner = f.try_with(PASSWORD, from, Some("tv-1"), NOW);
    assert_eq!(owner, Tried::Limited("login-account"));
    // The limit ends; a right password makes device and network known.
    let later = NOW + 60;
    assert_eq!(f.try_with(PASSWORD, from, Some("tv-1"), later), Tried::In);
    assert_eq!(f.known_accounts(), 1);
}

#[test]
fn guesses_from_all_clients_that_an_account_knows_are_bounded() {
    let f = fixture();
    f.sign_up(OWNER);
    // More than it remembers: the oldest are forgotten.
    for n in 0..3 * KNOWN_MAX {
        let device = format!("device-{n}");
        assert_eq!(
            f.try_with(PASSWORD, network(n), Some(&device), NOW),
            Tried::In
        );
    }
    let mut guesses = f.exhaust(network(1_000), None, NOW);
    for n in 0..3 * KNOWN_MAX {
        guesses += f.exhaust(network(n), None, NOW);
        guesses += f.exhaust(network(1_000 + n), Some(&format!("device-{n}")), NOW);
        guesses += f.exhaust(network(n), Some("invented"), NOW);
    }
    // Strangers, eight networks, eight devices.
    assert_eq!(guesses, 10 * (1 + 2 * KNOWN_MAX));
}

#[test]
fn known_clients_survive_a_restart_and_a_change_of_the_address_and_end_with_the_account() {
    let f = fixture();
    let user = f.sign_up(OWNER).user.id;
    assert_eq!(f.try_with(PASSWORD, HERE, Some("tv-1"), NOW), Tried::In);
    let new = email("ann@example.org");
    let change = f.accounts.change_email_by_operator(&user, new, NOW);
    change.wait().unwrap();
    let again = f.opened_again(settings());
    for n in 0..10 {
        let given = login_attempt("ann@example.org", "a wrong password");
        let from = network(n);
        let given = LoginAttempt { from, ..given };
        let wrong = again.log_in(partner(1), given, NOW, &InPlace).wait();
        assert_eq!(wrong.map(drop), Err(AccountsError::InvalidCredentials));
    }
    let given = login_attempt("ann@example.org", PASSWORD);
    again
        .log_in(partner(1), given, NOW, &InPlace)
        .wait()
        .unwrap();
    again.remove(&user, NOW).wait().unwrap();
    assert_eq!(f.known_accounts(), 0);
    f.assert_sound();
}

#[test]
fn reset_lifts_the_locks_of_known_clients_and_makes_its_network_known() {
    let f = fixture();
    f.sign_up(OWNER);
    assert_eq!(f.exhaust(HERE, None, NOW), 10);
    let address = email(OWNER);
    let sent = f.accounts.send_reset(partner(1), &address, None, HERE, NOW);
    sent.wait().unwrap();
    let token = f.mailed(mail::MailKind::Reset, "token=");
    let token = TokenHash::hash_presented(TokenKind::Reset, &token).unwrap();
    let phone = network(5);
    let new = password("goats gruff and gruffer");
    let set = f
        .accounts
        .complete_reset(None, token, &new, phone, NOW, &InPlace);
    set.wait().unwrap();
    for n in 0..10 {
        let guess = f.try_with("a wrong password", network(100 + n), None, NOW);
        assert_eq!(guess, Tried::Wrong);
    }
    for from in [HERE, phone] {
        assert_eq!(f.try_with(new.reveal(), from, None, NOW), Tried::In);
    }
    let unknown = f.try_with(new.reveal(), network(6), None, NOW);
    assert_eq!(unknown, Tried::Limited("login-account"));
}
