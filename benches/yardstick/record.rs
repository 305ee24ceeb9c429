//! A table whose records are as large as most, for measurements of the store.

use playgate::store::{Record, Table};

/// The table.
pub struct Others;

/// Its records.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Other(pub Vec<u8>);

impl Record for Other {}

impl Table for Others {
    const NAME: &'static str = "others";
    type Key = u64;
    type Record = Other;
}
