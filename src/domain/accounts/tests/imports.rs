//! Tests of bulk imports.

use super::*;

impl Fixture {
    fn import(&self, addresses: &[&str]) -> u64 {
        let ids = self.accounts.id_range();
        let prepared = addresses.iter().map(|address| {
            let id = self.accounts.id_in(&ids);
            let new = new_user(address);
            let prepared = self
                .accounts
                .prepare(id, partner(1), new, FirstPassword::None, NOW);
            match prepared.unwrap_or_else(|error| panic!("{error}")) {
                Prepared::Ready(account) => account,
                Prepared::Unhashed(_) => panic!("no password was given"),
            }
        });
        let added = self.accounts.add_many(prepared.collect()).wait();
        added.unwrap_or_else(|error| panic!("{error}"))
    }
}

#[test]
fn import_with_address_filter_adds_each_address_once() {
    let f = fixture();
    f.sign_up("first@example.com");
    let known = f.accounts.know_addresses().unwrap();
    let twice = ["first@example.com", "a@example.com", "a@example.com"];
    assert_eq!(f.import(&twice), 1);
    // Addresses added concurrently, and those of the previous batch.
    f.sign_up("second@example.com");
    assert_eq!(f.import(&["second@example.com", "a@example.com"]), 0);
    // A second import starts and ends during the first.
    drop(f.accounts.know_addresses().unwrap());
    assert_eq!(f.import(&["second@example.com", "b@example.com"]), 1);
    drop(known);
    assert_eq!(f.import(&["b@example.com", "c@example.com"]), 1);
    assert_eq!(f.accounts.count(), 5);
    f.assert_sound();
}

#[test]
fn ids_of_a_batch_share_only_their_range() {
    let f = fixture();
    let (one, other) = (f.accounts.id_range(), f.accounts.id_range());
    let ids: Vec<_> = [&one, &one, &other]
        .map(|range| f.accounts.id_in(range))
        .into();
    let range = |id: &UserId| id.as_bytes()[..2].to_vec();
    assert_eq!(range(&ids[0]), range(&ids[1]));
    assert_ne!(range(&ids[0]), range(&ids[2]));
    assert_ne!(ids[0].as_bytes()[2..10], ids[1].as_bytes()[2..10]);
}
