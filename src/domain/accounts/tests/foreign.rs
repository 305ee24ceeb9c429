//! Tests of imported hashes, and of the cost of a login.

use super::*;

/// bcrypt hash of [`IMPORTED`], made by libxcrypt.
const BCRYPT: &str = "$2b$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e";
const IMPORTED: &str = "correct horse";

/// Hashes on the calling thread and counts the hashes.
struct Counting(Arc<HashCounts>);

impl HashPool for Counting {
    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut HashMemory) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        Ok(job(&mut HashMemory::counted(Arc::clone(&self.0))))
    }
}

impl Fixture {
    fn import_hash(&self, n: u8, address: &str, hash: &str) -> Result<UserId, AccountsError> {
        let hash = ForeignHash::parse(hash).unwrap_or_else(|why| panic!("{why}"));
        let password = FirstPassword::Hashed(hash);
        self.accounts
            .add(partner(n), new_user(address), password, NOW, &InPlace)
            .wait()
            .map(|user| user.id)
    }

    fn stored(&self, user: &UserId) -> String {
        let credentials = self.store.read(|txn| txn.get::<CredentialTable>(user));
        credentials.unwrap().unwrap().password
    }

    /// The result of a login, and the numbers of argon2 and other hashes that it took.
    fn cost_of(&self, n: u8, address: &str, text: &str) -> (bool, (u64, u64)) {
        let counts = Arc::new(HashCounts::default());
        let pool = Counting(Arc::clone(&counts));
        let given = login_attempt(address, text);
        let result = self.accounts.log_in(partner(n), given, NOW, &pool).wait();
        (result.is_ok(), (counts.argon2(), counts.foreign()))
    }
}

#[test]
fn imported_hash_is_replaced_at_the_first_login() {
    let f = fixture();
    let user = f.import_hash(1, "ann@example.com", BCRYPT).unwrap();
    assert_eq!(f.stored(&user), BCRYPT);
    assert_eq!(
        f.log_in("ann@example.com", "correct horsf", NOW),
        Err(AccountsError::InvalidCredentials)
    );
    assert_eq!(f.stored(&user), BCRYPT);
    // One hash with the old function, one with argon2id.
    assert_eq!(f.cost_of(1, "ann@example.com", IMPORTED), (true, (1, 1)));
    assert!(f.stored(&user).starts_with("$argon2id$v=19$m=8,t=1,p=1$"));
    assert_eq!(f.cost_of(1, "ann@example.com", IMPORTED), (true, (1, 0)));
    assert_eq!(
        f.import_hash(1, "ann@example.com", BCRYPT),
        Err(AccountsError::EmailInUse)
    );
    f.assert_sound();
}

#[test]
fn imported_argon2id_hash_at_current_cost_is_kept() {
    let f = fixture();
    let made = hashing::hash(
        IMPORTED,
        CHEAP,
        &SeededEntropy::new(9),
        &mut HashMemory::default(),
    );
    let made = made.unwrap_or_else(|_| panic!("a sound cost"));
    let user = f.import_hash(1, "ann@example.com", &made).unwrap();
    assert_eq!(f.cost_of(1, "ann@example.com", IMPORTED), (true, (1, 0)));
    assert_eq!(f.stored(&user), made);
}

#[test]
fn every_rejected_login_costs_one_hash() {
    let f = fixture();
    f.sign_up("ann@example.com");
    let shut = f.sign_up("bob@example.com").user.id;
    let change = OperatorChange {
        disabled: Some(true),
        ..OperatorChange::default()
    };
    let changed = f
        .accounts
        .change_by_operator(&shut, change, NOW, &InPlace)
        .wait();
    assert!(changed.is_ok());
    let none = FirstPassword::None;
    let added = f
        .accounts
        .add(
            partner(1),
            new_user("carl@example.com"),
            none,
            NOW,
            &InPlace,
        )
        .wait();
    assert!(added.is_ok());
    for (address, text) in [
        ("nobody@example.com", PASSWORD),
        ("nobody@example.com", ""),
        ("ann@example.com", "wrong wrong"),
        ("ann@example.com", ""),
        ("bob@example.com", PASSWORD),
        ("bob@example.com", "wrong wrong"),
        ("carl@example.com", ""),
    ] {
        assert_eq!(f.cost_of(1, address, text), (false, (1, 0)), "{address}");
    }
    assert_eq!(f.cost_of(1, "ann@example.com", PASSWORD), (true, (1, 0)));
    // A locked account costs no hash, whether it exists or not.
    for address in ["ann@example.com", "nobody@example.com"] {
        while f.log_in(address, "wrong wrong", NOW) == Err(AccountsError::InvalidCredentials) {}
        assert_eq!(f.cost_of(1, address, PASSWORD), (false, (0, 0)));
    }
}

#[test]
fn unknown_address_is_checked_against_a_user_of_the_same_partner() {
    let f = fixture();
    // All users of one partner are imported, none of the other.
    for n in 0..20 {
        f.import_hash(1, &format!("user{n}@example.com"), BCRYPT)
            .unwrap();
    }
    let mut ours = new_user("ann@example.com");
    ours.locale = None;
    let word = password(PASSWORD);
    let signed_up = f
        .accounts
        .sign_up(partner(2), ours, &word, HERE, NOW, &InPlace)
        .wait();
    assert!(signed_up.is_ok());
    for n in 0..15 {
        let address = format!("nobody{n}@example.com");
        assert_eq!(f.cost_of(1, &address, IMPORTED), (false, (0, 1)));
        assert_eq!(f.cost_of(2, &address, PASSWORD), (false, (1, 0)));
        assert_eq!(f.cost_of(3, &address, PASSWORD), (false, (1, 0)));
    }
}

#[test]
fn decoy_of_an_address_is_stable() {
    let f = fixture();
    for n in 0..20 {
        f.import_hash(1, &format!("user{n}@example.com"), BCRYPT)
            .unwrap();
        f.sign_up(&format!("own{n}@example.com"));
    }
    let decoy = |accounts: &Accounts, n: usize| {
        let address = email(&format!("nobody{n}@example.com"));
        accounts
            .0
            .store
            .read(|txn| accounts.decoy(txn, partner(1), &address))
            .unwrap()
    };
    let again = f.opened_again(settings());
    let chosen: Vec<_> = (0..20).map(|n| decoy(&f.accounts, n)).collect();
    assert!((0..20).all(|n| decoy(&again, n) == chosen[n]));
    // Decoys of both kinds, like the users.
    let brought = chosen.iter().filter(|hash| *hash == BCRYPT).count();
    assert!((1..20).contains(&brought), "{brought}");
}

#[test]
fn names_of_the_partner_and_the_service_are_rejected_as_passwords() {
    let f = fixture_with(AccountSettings {
        password_words: vec!["Springfield".to_owned()],
        ..settings()
    });
    let (acme, _) = f
        .partners
        .add(
            "Acme Television",
            playgate_types::PartnerKind::Standard,
            NOW,
        )
        .unwrap()
        .wait()
        .unwrap();
    let sign_up = |text: &str| {
        let new = new_user("ann@example.com");
        f.accounts
            .sign_up(acme, new, &password(text), HERE, NOW, &InPlace)
            .wait()
            .map(|_| ())
    };
    let common = Err(AccountsError::PasswordTooCommon);
    for text in [
        "acme television",
        "Television1!",
        "springfield",
        "ann@example.com",
    ] {
        assert_eq!(sign_up(text), common, "{text}");
    }
    assert_eq!(sign_up("acme sends television"), Ok(()));
}
