//! Tests of bulk imports.

use super::*;

impl Fixture {
    fn import(&self, addresses: &[&str]) -> u64 {
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
        let added = self
            .accounts
            .add_many(prepared.collect(), Box::new(|_, _, _| Ok(())))
            .wait();
        added.unwrap_or_else(|error| panic!("{error}"))
    }
}

#[test]
fn import_with_address_filter_adds_each_address_once() {
    let f = fixture();
    f.sign_up("first@example.com");
    let known = f.accounts.collect_addresses().unwrap();
    let twice = ["first@example.com", "a@example.com", "a@example.com"];
    assert_eq!(f.import(&twice), 1);
    // Addresses added concurrently, and those of the previous batch.
    f.sign_up("second@example.com");
    assert_eq!(f.import(&["second@example.com", "a@example.com"]), 0);
    // A second import starts and ends during the first.
    drop(f.accounts.collect_addresses().unwrap());
    assert_eq!(f.import(&["second@example.com", "b@example.com"]), 1);
    drop(known);
    assert_eq!(f.import(&["b@example.com", "c@example.com"]), 1);
    assert_eq!(f.accounts.count(), 5);
    f.assert_sound();
}
