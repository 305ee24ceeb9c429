//! Tests of accounts with a store in memory.

mod foreign;
mod guessing;
mod imports;
mod known_clients;
mod login;
mod operators;
mod pins;
mod records;
mod resets;

use std::sync::Barrier;
use std::thread;

use super::*;
use crate::decision::DecisionTrace;
use crate::mail::{self, Mail};
use crate::partners::{self, Partners};
use playgate_ports::SeededEntropy;
use playgate_types::{Locale, Pin, Token, TokenHash, TokenKind};

const NOW: UnixSeconds = UnixSeconds(1_767_225_600);
const PASSWORD: &str = "troll under the bridge";
/// The lowest cost that argon2 accepts, so that tests are fast.
const CHEAP: Cost = Cost {
    memory_kib: 8,
    iterations: 1,
    parallelism: 1,
};
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

struct Fixture {
    store: Store,
    mail: Mail,
    partners: Partners,
    accounts: Accounts,
}

fn settings() -> AccountSettings {
    AccountSettings {
        cost: CHEAP,
        ..AccountSettings::default()
    }
}

fn fixture() -> Fixture {
    fixture_with(settings())
}

fn fixture_with(settings: AccountSettings) -> Fixture {
    let store = Store::in_memory(partners::schema(mail::schema(schema(Schema::default()))));
    let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(1));
    let mail = Mail::open(
        store.clone(),
        Arc::clone(&entropy),
        &[1; 32],
        mail::MailSettings::default(),
        None,
    )
    .unwrap();
    let dependencies = dependencies(&store, &mail, Vec::new());
    for n in [1, 2] {
        partners::seed(&store, partner(n), &format!("partner {n}"));
    }
    let partners = dependencies.partners.clone();
    let accounts = Accounts::open(store.clone(), entropy, settings, dependencies).unwrap();
    Fixture {
        store,
        mail,
        partners,
        accounts,
    }
}

fn dependencies(store: &Store, mail: &Mail, erasers: Vec<Eraser>) -> Dependencies {
    Dependencies {
        mail: mail.clone(),
        partners: Partners::open(store.clone(), Arc::new(SeededEntropy::new(3))).unwrap(),
        erasers,
        revokers: Vec::new(),
        key: [7; 32],
        expiry: Arc::default(),
    }
}

fn partner(n: u8) -> PartnerId {
    PartnerId::from_bytes([n; 16])
}

fn email(text: &str) -> Email {
    Email::parse(text).unwrap()
}

fn password(text: &str) -> Password {
    Password::new(text).unwrap()
}

fn pin(text: &str) -> Pin {
    Pin::parse(text).unwrap()
}

fn new_user(address: &str) -> NewUser {
    NewUser {
        email: email(address),
        name: None,
        country: None,
        locale: Locale::parse("sv").ok(),
        birth_date: None,
    }
}

fn presented(token: &Token) -> TokenHash {
    TokenHash::hash_presented(TokenKind::User, token.reveal()).unwrap()
}

/// Hashes on the calling thread.
struct InPlace;

impl HashPool for InPlace {
    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut HashMemory) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        Ok(job(&mut HashMemory::default()))
    }
}

/// Runs something else after each hash, before the commit that uses it.
struct Meanwhile<F>(F);

impl<F: Fn() + Sync> HashPool for Meanwhile<F> {
    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut HashMemory) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let result = InPlace.run(job).await;
        (self.0)();
        result
    }
}

/// Blocks the test thread on a future.
trait Wait: Future + Sized {
    fn wait(self) -> Self::Output {
        pollster::block_on(self)
    }
}

impl<F: Future> Wait for F {}

fn login_attempt(address: &str, text: &str) -> LoginAttempt {
    LoginAttempt {
        email: email(address),
        password: password(text),
        from: HERE,
        client: LoginClient::default(),
        trace: DecisionTrace::off(),
    }
}

impl Fixture {
    /// The accounts of the same store, as after a restart.
    fn opened_again(&self, settings: AccountSettings) -> Accounts {
        let dependencies = dependencies(&self.store, &self.mail, Vec::new());
        let entropy = Arc::new(SeededEntropy::new(2));
        Accounts::open(self.store.clone(), entropy, settings, dependencies).unwrap()
    }

    fn sign_up(&self, address: &str) -> NewLogin {
        self.accounts
            .sign_up(
                partner(1),
                new_user(address),
                &password(PASSWORD),
                HERE,
                NOW,
                &InPlace,
            )
            .wait()
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn log_in_from(
        &self,
        address: &str,
        text: &str,
        from: IpAddr,
        now: UnixSeconds,
    ) -> Result<NewLogin, AccountsError> {
        let given = LoginAttempt {
            from,
            client: LoginClient::default(),
            ..login_attempt(address, text)
        };
        self.accounts
            .log_in(partner(1), given, now, &InPlace)
            .wait()
    }

    /// Whether a login may be tried, as far as limits go.
    fn may_try(
        &self,
        partner: PartnerId,
        address: &str,
        from: IpAddr,
    ) -> Result<(), AccountsError> {
        let given = login_attempt(address, PASSWORD);
        let given = LoginAttempt { from, ..given };
        self.accounts.check_login_rate(partner, &given, NOW)
    }

    fn log_in(&self, address: &str, text: &str, now: UnixSeconds) -> Result<(), AccountsError> {
        self.log_in_from(address, text, HERE, now).map(|_| ())
    }

    fn is_known(&self, opened: &NewLogin, now: UnixSeconds) -> bool {
        self.accounts
            .authenticate(&presented(&opened.token), partner(1), now)
            .is_some()
    }

    /// The text after a marker in the newest mail of a kind.
    fn mailed(&self, kind: mail::MailKind, after: &str) -> String {
        let mails = self.mail.list(100).unwrap();
        let newest = mails.iter().find(|m| m.kind == kind).unwrap();
        let letter = self.mail.show(&newest.id, mail::Secrets::Shown);
        let letter = letter.unwrap().unwrap();
        let (_, rest) = letter.text.split_once(after).unwrap();
        rest.split_whitespace().next().unwrap().to_owned()
    }

    fn mails(&self, kind: mail::MailKind) -> usize {
        let mails = self.mail.list(100).unwrap();
        mails.iter().filter(|m| m.kind == kind).count()
    }

    fn assert_sound(&self) {
        for report in self.store.verify().unwrap().tables {
            assert!(report.is_sound(), "{report:?}");
        }
    }
}

/// Runs `work` on several threads at once, `each` times per thread.
fn at_once<T: Send>(threads: usize, each: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(threads);
    let (barrier, work) = (&barrier, &work);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    barrier.wait();
                    (0..each)
                        .map(|n| work(thread * each + n))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().unwrap())
            .collect()
    })
}
