//! Tests of partners and of the stored record format.

use std::sync::Arc;

use super::*;
use crate::domain::identities::TokenRecord;
use crate::ports::entropy::SeededEntropy;
use crate::store::{Durability, Record as _, Store};

const NOW: UnixSeconds = UnixSeconds(1_767_225_600);

fn partners() -> (Store, Partners) {
    let store = Store::in_memory(schema(Schema::default()));
    let partners = Partners::open(store.clone(), Arc::new(SeededEntropy::new(1))).unwrap();
    (store, partners)
}

fn hash_of(token: &Token) -> TokenHash {
    TokenHash::hash_partner_token(token.reveal()).unwrap()
}

#[test]
fn token_authenticates_its_partner_until_it_is_revoked() {
    let (store, partners) = partners();
    let (acme, first) = partners.add("Acme", NOW).unwrap().wait().unwrap();
    let (other, others) = partners.add("Other", NOW).unwrap().wait().unwrap();
    let (_, second) = partners.add_token(acme, NOW + 1).wait().unwrap();
    for (token, partner) in [(&first, acme), (&second, acme), (&others, other)] {
        assert_eq!(partners.authenticate(&hash_of(token)), Some(partner));
    }
    let listed = partners.list();
    assert_eq!(listed[0].tokens.len(), 2);
    partners
        .revoke_token(acme, &listed[0].tokens[0].handle.to_uppercase())
        .wait()
        .unwrap();
    assert_eq!(partners.authenticate(&hash_of(&first)), None);
    assert_eq!(partners.authenticate(&hash_of(&second)), Some(acme));
    // The handle of another partner's token is rejected.
    assert_eq!(
        partners
            .revoke_token(acme, &listed[1].tokens[0].handle)
            .wait(),
        Err(IdentityError::TokenNotFound(IdentityKind::Partner))
    );
    assert!(store.verify().unwrap().tables.iter().all(|r| r.is_sound()));
}

#[test]
fn disabled_or_removed_partner_is_rejected_at_once() {
    let (store, partners) = partners();
    let (id, token) = partners.add("Acme", NOW).unwrap().wait().unwrap();
    partners.set_disabled(id, true).wait().unwrap();
    assert_eq!(partners.authenticate(&hash_of(&token)), None);
    partners.set_disabled(id, false).wait().unwrap();
    assert_eq!(partners.authenticate(&hash_of(&token)), Some(id));
    let removed = || {
        store
            .write(Durability::Durable, move |txn| remove(txn, &id))
            .wait()
    };
    removed().unwrap();
    assert_eq!(partners.authenticate(&hash_of(&token)), None);
    assert_eq!(
        removed(),
        Err(IdentityError::NotFound(IdentityKind::Partner))
    );
    assert!(partners.list().is_empty());
    assert!(store.verify().unwrap().tables.iter().all(|r| r.is_sound()));
}

#[test]
fn names_are_unique_and_resolve_to_partners() {
    let (_, partners) = partners();
    let (id, _) = partners.add(" Acme ", NOW).unwrap().wait().unwrap();
    assert_eq!(
        partners.add("Acme", NOW).and_then(Commit::wait).map(|_| ()),
        Err(IdentityError::NameInUse(IdentityKind::Partner))
    );
    for bad in ["", "  ", "a\nb", &"x".repeat(129)] {
        assert_eq!(
            partners.add(bad, NOW).and_then(Commit::wait).map(|_| ()),
            Err(IdentityError::NameMalformed)
        );
    }
    assert_eq!(partners.resolve("Acme"), Some(id));
    assert_eq!(partners.resolve(&id.to_string()), Some(id));
    assert_eq!(partners.resolve("acme"), None);
}

#[test]
fn number_of_tokens_is_limited() {
    let (_, partners) = partners();
    let (id, _) = partners.add("Acme", NOW).unwrap().wait().unwrap();
    for _ in 1..IdentityKind::Partner.tokens_max() {
        partners.add_token(id, NOW).wait().unwrap();
    }
    assert_eq!(
        partners.add_token(id, NOW).wait().map(|_| ()),
        Err(IdentityError::TooManyTokens(IdentityKind::Partner))
    );
}

#[test]
fn tokens_survive_a_restart() {
    let (store, partners) = partners();
    let (id, token) = partners.add("Acme", NOW).unwrap().wait().unwrap();
    let again = Partners::open(store, Arc::new(SeededEntropy::new(2))).unwrap();
    assert_eq!(again.authenticate(&hash_of(&token)), Some(id));
}

#[test]
fn update_changes_only_the_given_members() {
    let (_, partners) = partners();
    let (id, _) = partners.add("Acme", NOW).unwrap().wait().unwrap();
    assert_eq!(partners.duration_unit(&id), None);
    let unit = |duration_unit| PartnerUpdate {
        duration_unit: Some(duration_unit),
        ..PartnerUpdate::default()
    };
    partners
        .update(id, unit(Some(DurationUnit::Seconds)))
        .wait()
        .unwrap();
    partners.set_disabled(id, true).wait().unwrap();
    assert_eq!(partners.duration_unit(&id), Some(DurationUnit::Seconds));
    partners.update(id, unit(None)).wait().unwrap();
    let listed = partners.list();
    assert_eq!((listed[0].disabled, listed[0].duration_unit), (true, None));
    let unknown = PartnerId::from_bytes([1; 16]);
    assert_eq!(
        partners.update(unknown, unit(None)).wait(),
        Err(IdentityError::NotFound(IdentityKind::Partner))
    );
}

#[test]
fn record_bytes_are_stable() {
    let version_1 = PartnerRecord {
        name: "A".to_owned(),
        created: UnixSeconds(1),
        disabled: true,
        duration_unit: None,
    };
    let bytes = [1, b'A', 2, 1];
    assert_eq!(PartnerRecord::upgrade(1, &bytes), Some(version_1.clone()));
    assert_eq!(crate::store::golden(&version_1), "020141020100");
    let with_unit = PartnerRecord {
        duration_unit: Some(DurationUnit::Seconds),
        ..version_1
    };
    assert_eq!(crate::store::golden(&with_unit), "02014102010101");
    let token = TokenRecord {
        holder: PartnerId::from_bytes([7; 16]),
        created: UnixSeconds(1),
    };
    let expected = format!("01{}02", "07".repeat(16));
    assert_eq!(crate::store::golden(&token), expected);
}
