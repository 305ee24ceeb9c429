//! Tests of partners and of the stored record format.

use std::sync::Arc;

use super::*;
use crate::identities::TokenRecord;
use PartnerKind::{Lab, Standard};
use playgate_ports::SeededEntropy;
use playgate_store::{Durability, Record as _, Store};

const NOW: UnixSeconds = UnixSeconds(1_767_225_600);

fn partners() -> (Store, Partners) {
    let store = Store::in_memory(schema(Schema::default()));
    let partners = Partners::open(store.clone(), Arc::new(SeededEntropy::new(1))).unwrap();
    (store, partners)
}

fn hash_of(token: &Token) -> TokenHash {
    TokenHash::hash_partner_token(token.reveal()).unwrap()
}

fn partner_of(partners: &Partners, token: &Token) -> Option<PartnerId> {
    let (id, _) = partners.authenticate(&hash_of(token), NOW)?;
    Some(id)
}

#[test]
fn token_authenticates_its_partner_until_it_is_revoked() {
    let (store, partners) = partners();
    let (acme, first) = partners.add("Acme", Standard, NOW).unwrap().wait().unwrap();
    let (other, others) = partners
        .add("Other", Standard, NOW)
        .unwrap()
        .wait()
        .unwrap();
    let (_, second) = partners
        .add_token(acme, "", NOW + 1)
        .unwrap()
        .wait()
        .unwrap();
    for (token, partner) in [(&first, acme), (&second, acme), (&others, other)] {
        assert_eq!(partner_of(&partners, token), Some(partner));
    }
    let listed = partners.list();
    assert_eq!(listed[0].tokens.len(), 2);
    partners
        .revoke_token(acme, &listed[0].tokens[0].handle.to_uppercase())
        .wait()
        .unwrap();
    assert_eq!(partner_of(&partners, &first), None);
    assert_eq!(partner_of(&partners, &second), Some(acme));
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
    let (id, token) = partners.add("Acme", Standard, NOW).unwrap().wait().unwrap();
    partners.set_disabled(id, true).wait().unwrap();
    assert_eq!(partner_of(&partners, &token), None);
    partners.set_disabled(id, false).wait().unwrap();
    assert_eq!(partner_of(&partners, &token), Some(id));
    let removed = || {
        store
            .write(Durability::Durable, move |txn| remove(txn, &id))
            .wait()
    };
    removed().unwrap();
    assert_eq!(partner_of(&partners, &token), None);
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
    let (id, _) = partners
        .add(" Acme ", Standard, NOW)
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(
        partners
            .add("Acme", Standard, NOW)
            .and_then(Commit::wait)
            .map(|_| ()),
        Err(IdentityError::NameInUse(IdentityKind::Partner))
    );
    for bad in ["", "  ", "a\nb", &"x".repeat(129)] {
        assert_eq!(
            partners
                .add(bad, Standard, NOW)
                .and_then(Commit::wait)
                .map(|_| ()),
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
    let (id, _) = partners.add("Acme", Standard, NOW).unwrap().wait().unwrap();
    for _ in 1..IdentityKind::Partner.tokens_max() {
        partners.add_token(id, "", NOW).unwrap().wait().unwrap();
    }
    assert_eq!(
        partners.add_token(id, "", NOW).unwrap().wait().map(|_| ()),
        Err(IdentityError::TooManyTokens(IdentityKind::Partner))
    );
}

#[test]
fn tokens_survive_a_restart() {
    let (store, partners) = partners();
    let (id, token) = partners.add("Acme", Standard, NOW).unwrap().wait().unwrap();
    let again = Partners::open(store, Arc::new(SeededEntropy::new(2))).unwrap();
    assert_eq!(partner_of(&again, &token), Some(id));
}

#[test]
fn update_changes_only_the_given_members() {
    let (_, partners) = partners();
    let (id, _) = partners.add("Acme", Standard, NOW).unwrap().wait().unwrap();
    assert_eq!(partners.duration_units()(&id), None);
    let unit = |duration_unit| PartnerUpdate {
        duration_unit: Some(duration_unit),
        ..PartnerUpdate::default()
    };
    partners
        .update(id, unit(Some(DurationUnit::Seconds)))
        .wait()
        .unwrap();
    partners.set_disabled(id, true).wait().unwrap();
    assert_eq!(partners.duration_units()(&id), Some(DurationUnit::Seconds));
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
        kind: Standard,
    };
    let bytes = [1, b'A', 2, 1];
    assert_eq!(PartnerRecord::upgrade(1, &bytes), Some(version_1.clone()));
    let bytes = [1, b'A', 2, 1, 0];
    assert_eq!(PartnerRecord::upgrade(2, &bytes), Some(version_1.clone()));
    assert_eq!(playgate_store::golden(&version_1), "03014102010000");
    let with_unit = PartnerRecord {
        duration_unit: Some(DurationUnit::Seconds),
        kind: Lab,
        ..version_1
    };
    assert_eq!(playgate_store::golden(&with_unit), "0301410201010101");
    let token = TokenRecord::new(PartnerId::from_bytes([7; 16]), UnixSeconds(1));
    let version_1 = [&[7; 16][..], &[2]].concat();
    assert_eq!(TokenRecord::upgrade(1, &version_1), Some(token.clone()));
    let expected = format!("02{}020000", "07".repeat(16));
    assert_eq!(playgate_store::golden(&token), expected);
    let used = TokenRecord {
        label: "tv".to_owned(),
        used: Some(UnixSeconds(3)),
        ..token
    };
    let expected = format!("02{}020274760106", "07".repeat(16));
    assert_eq!(playgate_store::golden(&used), expected);
}

#[test]
fn last_use_of_a_token_is_known_at_once_and_written_once_a_minute() {
    let (store, partners) = partners();
    let (acme, token) = partners.add("Acme", Standard, NOW).unwrap().wait().unwrap();
    let (_, spare) = partners
        .add_token(acme, " television ", NOW)
        .unwrap()
        .wait()
        .unwrap();
    let listed = |partners: &Partners| {
        let mut tokens = partners.list()[0].tokens.clone();
        tokens.sort_by(|a, b| a.label.cmp(&b.label));
        tokens
            .into_iter()
            .map(|token| (token.label, token.used))
            .collect::<Vec<_>>()
    };
    let unused = [(String::new(), None), ("television".to_owned(), None)];
    assert_eq!(listed(&partners), unused);
    assert_eq!(partners.save_uses(), Ok(0));
    let at = |token: &Token, seconds| {
        assert!(
            partners
                .authenticate(&hash_of(token), NOW + seconds)
                .is_some()
        );
    };
    // Within the resolution the first use stays.
    for seconds in [0, 1, 59] {
        at(&spare, seconds);
    }
    assert_eq!(listed(&partners)[1].1, Some(NOW));
    at(&spare, 60);
    at(&token, 61);
    let used = [Some(NOW + 61), Some(NOW + 60)];
    assert_eq!(
        listed(&partners)
            .iter()
            .map(|(_, used)| *used)
            .collect::<Vec<_>>(),
        used
    );
    assert_eq!((partners.save_uses(), partners.save_uses()), (Ok(2), Ok(0)));
    let again = Partners::open(store, Arc::new(SeededEntropy::new(2))).unwrap();
    assert_eq!(
        listed(&again)
            .iter()
            .map(|(_, used)| *used)
            .collect::<Vec<_>>(),
        used
    );
    // A token that was revoked after its last use leaves nothing to write.
    at(&spare, 300);
    let handle = hash_of(&spare).handle();
    partners.revoke_token(acme, &handle).wait().unwrap();
    assert_eq!(partners.save_uses(), Ok(0));
    for bad in ["a\nb", &"x".repeat(65)] {
        let refused = partners.add_token(acme, bad, NOW).map(|_| ());
        assert_eq!(refused, Err(IdentityError::LabelMalformed));
    }
}

#[test]
fn kind_of_a_partner_is_stored() {
    let (_, partners) = partners();
    let (lab, token) = partners.add("Lab", Lab, NOW).unwrap().wait().unwrap();
    let (acme, _) = partners.add("Acme", Standard, NOW).unwrap().wait().unwrap();
    let kinds = [lab, acme].map(|id| partners.kind(&id));
    assert_eq!(kinds, [Some(Lab), Some(Standard)]);
    let found = partners.authenticate(&hash_of(&token), NOW);
    assert_eq!(found, Some((lab, Lab)));
    partners
        .update(lab, PartnerUpdate::default())
        .wait()
        .unwrap();
    assert_eq!(partners.kind(&lab), Some(Lab));
}
