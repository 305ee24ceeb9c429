//! What every contestant does: two kinds of writes with the same bytes, and the rounds of a client.

use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;

/// Users that exist before the first turn. They start playback.
pub const SEEDED: u64 = 20_000;
/// High enough that no start of a run is refused; every contestant counts and compares all the same.
pub const SESSIONS_MAX: u32 = 1_000_000;
pub const ASSET: &str = "open-livestream";

/// A new user. The lengths are those of what Playgate stores, a password hash of Argon2 included.
#[derive(Clone)]
pub struct SignUp {
    pub user: [u8; 16],
    pub email: String,
    pub profile: String,
    pub credentials: String,
    pub token: [u8; 32],
    pub login: String,
}

/// A start of playback by one of the [`SEEDED`] users.
#[derive(Clone)]
pub struct Start {
    pub user: [u8; 16],
    pub session: [u8; 16],
    pub record: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Write {
    SignUp,
    Start,
}

impl Write {
    pub const ALL: [Self; 2] = [Self::SignUp, Self::Start];

    pub const fn name(self) -> &'static str {
        match self {
            Self::SignUp => "sign-up",
            Self::Start => "start",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|write| write.name() == name)
    }
}

/// A connection to a contestant. An answer comes when the contestant keeps its promise about the change.
pub trait Client {
    /// Stores profile, credentials and log-in unless the address is in use. Returns whether it did.
    fn sign_up(&mut self, new: &SignUp) -> impl Future<Output = bool>;

    /// Reads the user and the right to [`ASSET`], counts the user's sessions and stores one more, so that parallel starts
    /// cannot exceed the limit. Returns whether it did.
    fn start(&mut self, start: &Start) -> impl Future<Output = bool>;
}

/// SplitMix64: cheap, so that the clients cost little.
pub struct Random(u64);

impl Random {
    /// Differs between processes and turns: no address is new twice.
    pub fn new(client: usize) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("after 1970").as_nanos();
        let mut mixed = Self(client as u64 ^ u64::from(std::process::id()).rotate_left(32));
        Self(now as u64 ^ mixed.next())
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
        bytes
    }

    /// Returns ASCII text, eight characters of each number.
    fn text(&mut self, length: usize) -> String {
        let mut text = String::with_capacity(length + 8);
        while text.len() < length {
            let number = self.next();
            text.extend((0..8).map(|at| char::from(b'a' + (number >> (8 * at)) as u8 % 26)));
        }
        text.truncate(length);
        text
    }

    pub fn sign_up(&mut self) -> SignUp {
        SignUp {
            user: self.bytes(),
            email: format!("viewer-{:016x}@bench.example", self.next()),
            profile: self.text(70),
            credentials: self.text(105),
            token: self.bytes(),
            login: self.text(110),
        }
    }

    pub fn start(&mut self) -> Start {
        Start {
            user: seeded(self.next() % SEEDED).user,
            session: self.bytes(),
            record: self.text(150),
        }
    }
}

/// Returns one of the users that exist before the first turn. Its right is `right` of [`seeded_right`].
pub fn seeded(number: u64) -> SignUp {
    let mut random = Random(number.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let user = random.bytes();
    SignUp {
        user,
        email: format!("seeded-{number}@bench.example"),
        profile: "p".repeat(70),
        credentials: "c".repeat(105),
        token: random.bytes(),
        login: String::new(),
    }
}

pub fn seeded_right() -> String {
    "r".repeat(60)
}

/// Lets every client send its next write after the answer to the last one. Returns the number of answers.
pub async fn run<C: Client>(clients: &mut [C], write: Write, time: Duration) -> u64 {
    let until = Instant::now() + time;
    let clients = clients.iter_mut().enumerate().map(|(number, client)| {
        Box::pin(async move {
            let mut random = Random::new(number);
            let mut done = 0;
            while Instant::now() < until {
                let accepted = match write {
                    Write::SignUp => client.sign_up(&random.sign_up()).await,
                    Write::Start => client.start(&random.start()).await,
                };
                // A refused write is cheap and would flatter.
                assert!(accepted, "refused: {}", write.name());
                done += 1;
            }
            done
        })
    });
    join_all(clients).await.into_iter().sum()
}

/// Checks what a contestant refuses: a second user with an address, and a start of a user who does not exist.
pub async fn check<C: Client>(client: &mut C) {
    let mut random = Random::new(usize::MAX);
    let mut new = random.sign_up();
    assert!(client.sign_up(&new).await, "a sign-up was refused");
    new.user = random.sign_up().user;
    new.token = random.sign_up().token;
    assert!(!client.sign_up(&new).await, "an address was used twice");
    let mut start = random.start();
    assert!(client.start(&start).await, "a start was refused");
    start.user = new.user;
    assert!(!client.start(&start).await, "a start without a right");
}
