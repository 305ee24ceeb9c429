//! A table with records of a typical size, for measurements of the store.

use playgate_store::{Record, Table};

pub struct BenchTable;

#[derive(serde::Serialize, serde::Deserialize)]
pub struct BenchRecord(pub Vec<u8>);

impl Record for BenchRecord {}

impl Table for BenchTable {
    const NAME: &'static str = "others";
    type Key = u64;
    type Record = BenchRecord;
}
