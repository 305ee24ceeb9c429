//! Tests of bulk imports.

use super::*;

impl Fixture {
    fn prepared(&self, addresses: &[&str]) -> Vec<NewAccount> {
        let prepared = addresses.iter().map(|address| {
            let new = new_user(address);
            let prepared = self
                .accounts
                .prepare(partner(1), new, FirstPassword::None, NOW);
            match prepared.unwrap_or_else(|error| panic!("{error}")) {
                PreparedSignUp::Ready(account) => account,
                PreparedSignUp::Unhashed(_) => panic!("no password was given"),
            }
        });
        prepared.collect()
    }

    fn is_free(&self, account: &NewAccount) -> bool {
        let (partner, email) = account.address();
        !self.accounts.is_taken(partner, email).unwrap()
    }

    fn commit(&self, accounts: Vec<NewAccount>, watch: &Arc<AddressWatch>) -> u64 {
        let added = self
            .accounts
            .add_many(accounts, Box::new(|_, _, _| Ok(())), Arc::clone(watch))
            .wait();
        added.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Does what an import does with each chunk of its lines.
    fn import(&self, addresses: &[&str], watch: &Arc<AddressWatch>) -> u64 {
        let mut accounts = self.prepared(addresses);
        accounts.retain(|account| self.is_free(account));
        self.commit(accounts, watch)
    }
}

#[test]
fn import_adds_each_address_once() {
    for collects in [false, true] {
        let f = fixture();
        f.sign_up("first@example.com");
        let watch = f.accounts.watch_addresses().unwrap();
        if collects {
            watch.collect().unwrap();
        }
        let twice = ["first@example.com", "a@example.com", "a@example.com"];
        assert_eq!(f.import(&twice, &watch), 1);
        // Addresses added concurrently, and those of the previous batch.
        f.sign_up("second@example.com");
        assert_eq!(
            f.import(&["second@example.com", "a@example.com"], &watch),
            0
        );
        // A second import starts and ends during the first.
        drop(f.accounts.watch_addresses().unwrap());
        assert_eq!(
            f.import(&["second@example.com", "b@example.com"], &watch),
            1
        );
        drop(watch);
        let watch = f.accounts.watch_addresses().unwrap();
        assert_eq!(f.import(&["b@example.com", "c@example.com"], &watch), 1);
        assert_eq!(f.accounts.count(), 5);
        f.assert_sound();
    }
}

#[test]
fn address_that_is_taken_between_check_and_commit_of_an_import_stays_with_its_user() {
    for collects in [false, true] {
        let f = fixture();
        let watch = f.accounts.watch_addresses().unwrap();
        if collects {
            watch.collect().unwrap();
        }
        let accounts = f.prepared(&["a@example.com", "b@example.com"]);
        assert!(accounts.iter().all(|account| f.is_free(account)));
        f.sign_up("a@example.com");
        assert_eq!(f.commit(accounts, &watch), 1);
        assert_eq!(f.accounts.count(), 2);
        f.assert_sound();
    }
}
