//! Store formats that no release has, so that tests can upgrade a fleet. A debug build has them up to the number in
//! `PLAYGATE_NEXT_FORMAT`. The upgrade to each of them gives every user a tag.

use std::time::Duration;

use super::tables::{UserRecord, Users};
use playgate_store::{Durability, Schema, Store, StoreError};
use playgate_types::UserId;

/// Users per commit. A pause after each commit lets the faults of a test come in the middle of an upgrade.
const USERS_PER_COMMIT: usize = 20;
const PAUSE: Duration = Duration::from_millis(20);

fn format() -> Option<String> {
    std::env::var_os("PLAYGATE_NEXT_FORMAT")?.into_string().ok()
}

pub(super) fn schema(mut schema: Schema) -> Schema {
    let format = format().and_then(|format| format.parse().ok());
    while format.is_some_and(|format| schema.format() < format) {
        schema = schema.upgraded_by(tag_users);
    }
    schema
}

fn tag_users(store: &Store) -> Result<(), StoreError> {
    let mut from: Option<UserId> = None;
    loop {
        let part = store.write(Durability::Durable, move |txn| {
            let users = txn.scan_from::<Users>(from.as_ref(), USERS_PER_COMMIT)?;
            let last = users.last().map(|(id, _)| *id);
            for (id, user) in users {
                let (Some(user), Some(format)) = (user, format()) else {
                    continue;
                };
                let tag = format!("format-{format}");
                if !user.tags.contains(&tag) {
                    let tags = [user.tags.clone(), vec![tag]].concat();
                    txn.put::<Users>(&id, &UserRecord { tags, ..user })?;
                }
            }
            Ok::<_, StoreError>(last)
        });
        let last = part.wait()?;
        // Each part begins with the last user of the one before, so an unchanged last user is the end.
        if last == from {
            return Ok(());
        }
        from = last;
        std::thread::park_timeout(PAUSE);
    }
}
