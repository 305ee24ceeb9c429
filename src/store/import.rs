//! Imports the export of another store into an empty one.

use std::io::BufRead;
use std::path::Path;

use crate::disk_space;
use crate::error::StoreError;
use crate::handle::Store;
use crate::layout::StoreLayout;
use crate::maintenance::dump::Imported;
use crate::options::Options;
use crate::schema::Schema;
use crate::table::TreeName;

pub struct Import<'a> {
    pub directory: &'a Path,
    pub schema: &'a Schema,
    pub options: Options,
    pub bytes: Option<u64>,
    /// Tables that a service fills by itself. A store with records only in these counts as empty.
    pub self_filled_tables: &'a [TreeName],
}

impl Import<'_> {
    /// Imports the records into a staged store and installs it once it is complete. After a kill there
    /// is either the empty store or the whole import. Damaged lines are skipped and reported.
    pub fn run(self, input: &mut dyn BufRead) -> Result<Imported, StoreError> {
        /// Upper bound: WAL, engine and snapshot each hold all records, in less space than the
        /// text.
        const SPACE_FACTOR: u64 = 3;
        // The store is opened first: one that is newer, in use or not empty is rejected before anything is written.
        let store = Store::open(self.directory, self.schema.clone(), self.options.clone())?;
        store.must_be_empty(self.self_filled_tables)?;
        let instance = store.instance().ok_or(StoreError::Closed)?;
        drop(store);
        let layout = StoreLayout::new(self.directory, self.options.sync);
        let _lock = layout.lock()?;
        if let Some(bytes) = self.bytes {
            disk_space::require_free(self.directory, SPACE_FACTOR * bytes)?;
        }
        // An earlier import may have been interrupted.
        layout.clear_staged()?;
        let staged = layout.staged();
        let imported = self.fill(&staged, instance, input).and_then(|imported| {
            layout.mark_staged_complete()?;
            Ok(imported)
        });
        match imported {
            Ok(imported) => {
                // The complete store replaces the empty one; before this point nothing has changed.
                layout.install_staged()?;
                Ok(imported)
            }
            Err(error) => {
                let _ = layout.clear_staged();
                Err(error)
            }
        }
    }

    fn fill(
        &self,
        staged: &StoreLayout,
        instance: [u8; 16],
        input: &mut dyn BufRead,
    ) -> Result<Imported, StoreError> {
        let options = Options {
            instance,
            // The seed must differ from that of the empty store, which may have been created just now.
            timeline: self.options.timeline.map(|byte| !byte),
            // Backups of the directory's store do not belong to the imported one.
            backups: None,
            ..self.options.clone()
        };
        let store = Store::open(staged.directory(), self.schema.clone(), options)?;
        let imported = store.import(input)?;
        store.checkpoint()?;
        Ok(imported)
    }
}
