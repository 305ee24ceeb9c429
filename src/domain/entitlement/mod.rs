//! t
use crate::store::Schema;
/// x
pub fn schema(schema: Schema) -> Schema { schema }
