//! The rules of operators, and the bytes of their records.

use super::*;
use crate::ports::entropy::SeededEntropy;

const NOW: UnixSeconds = UnixSeconds(1_767_225_600);

#[test]
fn a_token_is_good_until_its_operator_is_revoked() {
    let store = Store::in_memory(schema(Schema::default()));
    let operators = Operators::open(store.clone(), Arc::new(SeededEntropy::new(1))).unwrap();
    let (id, token) = operators.add("Eva", Role::Agent, NOW).unwrap();
    let presented = TokenHash::of_presented(TokenKind::Operator, token.reveal()).unwrap();
    let found = operators.authenticate(&presented).unwrap();
    assert_eq!((found.id, found.role), (id, Role::Agent));
    assert_eq!(
        operators.add("Eva", Role::Admin, NOW).map(|_| ()),
        Err(OperatorsError::NameInUse)
    );
    assert_eq!(
        operators.add("", Role::Admin, NOW).map(|_| ()),
        Err(OperatorsError::NameMalformed)
    );
    assert_eq!(operators.resolve("Eva"), Some(id));
    assert_eq!(operators.resolve(&id.to_string()), Some(id));
    let again = Operators::open(store.clone(), Arc::new(SeededEntropy::new(2))).unwrap();
    assert!(again.authenticate(&presented).is_some());
    operators.revoke(id).unwrap();
    assert_eq!(operators.authenticate(&presented), None);
    assert_eq!(again.authenticate(&presented), None);
    assert_eq!(operators.revoke(id), Err(OperatorsError::NotFound));
    assert!(store.verify().unwrap().iter().all(|r| r.is_sound()));
}

#[test]
fn the_records_are_golden() {
    let operator = OperatorRecord {
        name: "A".to_owned(),
        role: Role::Agent,
        created: UnixSeconds(1),
        token: TokenHash::from_bytes([9; 32]),
    };
    let expected = format!("0101410202{}", "09".repeat(32));
    assert_eq!(crate::store::golden(&operator), expected);
    let token = OperatorTokenRecord {
        operator: OperatorId::from_bytes([7; 16]),
    };
    let expected = format!("01{}", "07".repeat(16));
    assert_eq!(crate::store::golden(&token), expected);
}
