//! In which country an address is, by a database in MaxMind's format that the operator keeps up to
//! date. The file is read into memory whole: one that is overwritten in place harms nobody.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use maxminddb::{LookupResult, MaxMindDbError, PathElement, Reader, path};

use super::watched_file::{FileStamp, Reloadable};
use crate::types::Country;

/// The largest database that is read, in bytes: those of whole cities have a tenth of it.
const MOST: u64 = 1 << 30;

/// How many networks of a database are looked at for a country before it counts as one of
/// something else.
const SAMPLE: usize = 10_000;

/// A database that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GeoIpError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is no database of this format.
    #[error("no database in MaxMind's format: {0}")]
    Format(#[from] MaxMindDbError),
    /// It is a database of something else.
    #[error("a database of the kind `{0}`, which tells no countries")]
    Other(String),
}

/// Addresses and their countries.
pub struct GeoIp {
    path: PathBuf,
    database: Reloadable<Reader<Vec<u8>>, FileStamp>,
}

impl GeoIp {
    /// Reads a database.
    ///
    /// # Errors
    /// [`GeoIpError`].
    pub fn open(path: &Path) -> Result<Self, GeoIpError> {
        Ok(Self {
            path: path.to_owned(),
            database: Reloadable::new(|| stamp(path), || read(path))?,
        })
    }

    /// The country of an address; nothing if the database knows none.
    #[must_use]
    pub fn country(&self, address: IpAddr) -> Option<Country> {
        let database = self.database.current();
        country_of(&database.lookup(address.to_canonical()).ok()?)
    }

    /// Reads the database again if its file has changed; blocks. Whether it has. After a failure
    /// the one in use stays, and the file is looked at again the next time.
    ///
    /// # Errors
    /// [`GeoIpError`].
    pub fn refresh(&self) -> Result<bool, GeoIpError> {
        self.database
            .refresh(|| stamp(&self.path), || read(&self.path))
    }
}

fn stamp(path: &Path) -> Result<FileStamp, GeoIpError> {
    Ok(FileStamp::read(path, MOST)?)
}

fn read(path: &Path) -> Result<Reader<Vec<u8>>, GeoIpError> {
    let reader = Reader::from_source(fs::read(path)?)?;
    let mut sample = reader.networks(Default::default())?.take(SAMPLE);
    if sample.any(|network| network.is_ok_and(|found| country_of(&found).is_some())) {
        return Ok(reader);
    }
    let kind = reader.metadata().database_type.clone();
    Err(GeoIpError::Other(kind))
}

/// The country of a record: `country.iso_code` in the databases of MaxMind and those made after
/// them, `country_code` or `country` in flat ones.
///
/// Decision: where the address is, not where its network is registered (`registered_country`): that
/// is what rights are sold by.
fn country_of(found: &LookupResult<'_, Vec<u8>>) -> Option<Country> {
    let paths: [&[PathElement<'_>]; 3] = [
        &path!["country", "iso_code"],
        &path!["country_code"],
        &path!["country"],
    ];
    paths.into_iter().find_map(|path| {
        // A record of another shape has no such path.
        let code: Option<&str> = found.decode_path(path).ok()?;
        Country::parse(code?).ok()
    })
}
