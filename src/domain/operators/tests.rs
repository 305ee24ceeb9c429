//! Tests of operators and of the stored record format.

use std::sync::Arc;

use super::*;
use crate::identities::{IdentityKind, TokenRecord};
use playgate_ports::SeededEntropy;
use playgate_store::{Record as _, Store};
use playgate_types::TokenKind;

const NOW: UnixSeconds = UnixSeconds(1_767_225_600);

#[test]
fn token_authenticates_its_operator_until_they_are_revoked() {
    let store = Store::in_memory(schema(Schema::default()));
    let operators = Operators::open(store.clone(), Arc::new(SeededEntropy::new(1))).unwrap();
    let (id, token) = operators
        .add("Eva", Role::Agent, NOW)
        .unwrap()
        .wait()
        .unwrap();
    let presented = TokenHash::hash_presented(TokenKind::Operator, token.reveal()).unwrap();
    let found = operators.authenticate(&presented, NOW).unwrap();
    assert_eq!((found.id, found.role), (id, Role::Agent));
    assert_eq!(
        operators
            .add("Eva", Role::Admin, NOW)
            .and_then(Commit::wait)
            .map(|_| ()),
        Err(IdentityError::NameInUse(IdentityKind::Operator))
    );
    assert_eq!(
        operators
            .add("", Role::Admin, NOW)
            .and_then(Commit::wait)
            .map(|_| ()),
        Err(IdentityError::NameMalformed)
    );
    assert_eq!(operators.resolve("Eva"), Some(id));
    assert_eq!(operators.resolve(&id.to_string()), Some(id));
    let again = Operators::open(store.clone(), Arc::new(SeededEntropy::new(2))).unwrap();
    assert!(again.authenticate(&presented, NOW).is_some());
    operators.revoke(id).wait().unwrap();
    assert_eq!(operators.authenticate(&presented, NOW), None);
    assert_eq!(again.authenticate(&presented, NOW), None);
    assert_eq!(
        operators.revoke(id).wait(),
        Err(IdentityError::NotFound(IdentityKind::Operator))
    );
    assert!(store.verify().unwrap().tables.iter().all(|r| r.is_sound()));
}

#[test]
fn tokens_can_be_rotated_one_by_one() {
    let store = Store::in_memory(schema(Schema::default()));
    let operators = Operators::open(store.clone(), Arc::new(SeededEntropy::new(1))).unwrap();
    let (eva, first) = operators
        .add("Eva", Role::Admin, NOW)
        .unwrap()
        .wait()
        .unwrap();
    let (al, als) = operators
        .add("Al", Role::Agent, NOW)
        .unwrap()
        .wait()
        .unwrap();
    let (info, second) = operators
        .add_token(eva, "spare", NOW + 1)
        .unwrap()
        .wait()
        .unwrap();
    let operator_of = |token: &Token| {
        let hash = TokenHash::hash_presented(TokenKind::Operator, token.reveal()).unwrap();
        operators
            .authenticate(&hash, NOW + 2)
            .map(|operator| operator.id)
    };
    let listed = operators.tokens_of(eva);
    assert_eq!((listed.len(), &listed[1]), (2, &info));
    assert_eq!(
        (operator_of(&first), operator_of(&second), operator_of(&als)),
        (Some(eva), Some(eva), Some(al))
    );
    let old = listed[0].handle.to_uppercase();
    // The handle of another operator's token is rejected.
    let missing = Err(IdentityError::TokenNotFound(IdentityKind::Operator));
    assert_eq!(operators.revoke_token(al, &old).wait(), missing);
    operators.revoke_token(eva, &old).wait().unwrap();
    assert_eq!(
        (operator_of(&first), operator_of(&second)),
        (None, Some(eva))
    );
    assert_eq!(operators.revoke_token(eva, &old).wait(), missing);
    for _ in 1..IdentityKind::Operator.tokens_max() {
        operators.add_token(eva, "", NOW).unwrap().wait().unwrap();
    }
    let refused = operators
        .add_token(eva, "", NOW)
        .unwrap()
        .wait()
        .map(|_| ());
    assert_eq!(
        refused,
        Err(IdentityError::TooManyTokens(IdentityKind::Operator))
    );
    operators.revoke(eva).wait().unwrap();
    assert_eq!((operator_of(&second), operator_of(&als)), (None, Some(al)));
    let refused = operators
        .add_token(eva, "", NOW)
        .unwrap()
        .wait()
        .map(|_| ());
    assert_eq!(
        refused,
        Err(IdentityError::NotFound(IdentityKind::Operator))
    );
    assert!(store.verify().unwrap().tables.iter().all(|r| r.is_sound()));
}

#[test]
fn record_bytes_are_stable() {
    let operator = OperatorRecord {
        name: "A".to_owned(),
        role: Role::Agent,
        created: UnixSeconds(1),
    };
    assert_eq!(playgate_store::golden(&operator), "0201410202");
    let token = TokenRecord::new(OperatorId::from_bytes([7; 16]), UnixSeconds(1));
    let expected = format!("03{}020000", "07".repeat(16));
    assert_eq!(playgate_store::golden(&token), expected);
    let version_2 = [&[7; 16][..], &[2]].concat();
    assert_eq!(TokenRecord::upgrade(2, &version_2), Some(token));
}

#[test]
fn version_1_records_are_upgraded() {
    let hex = |text: &str| data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap();
    let old = OperatorRecord::upgrade(1, &hex(&format!("01410202{}", "09".repeat(32)))).unwrap();
    assert_eq!(
        (old.name.as_str(), old.role, old.created),
        ("A", Role::Agent, UnixSeconds(1))
    );
    let old = TokenRecord::<OperatorId>::upgrade(1, &hex(&"07".repeat(16))).unwrap();
    assert_eq!(old.holder, OperatorId::from_bytes([7; 16]));
    assert_eq!(OperatorRecord::upgrade(0, &[]), None);
}
