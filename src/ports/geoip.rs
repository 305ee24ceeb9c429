//! Maps IP addresses to countries with a MaxMind database that the operator updates. The file is read into
//! memory, so overwriting it in place is safe.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use maxminddb::{LookupResult, MaxMindDbError, PathElement, Reader, path};

use super::watched_file::{FileStamp, Reloadable};
use playgate_types::Country;

/// Maximum size of a database in bytes; city databases have a tenth of it.
const SIZE_MAX: u64 = 1 << 30;

/// Number of networks searched for a country before the database is rejected as one of another kind.
const NETWORKS_SEARCHED_MAX: usize = 10_000;

#[derive(Debug, thiserror::Error)]
pub enum GeoIpError {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error("not a database in MaxMind's format: {0}")]
    Format(#[from] MaxMindDbError),
    #[error("the database is of kind `{0}`, which contains no countries")]
    Other(String),
}

pub struct GeoIp {
    path: PathBuf,
    database: Reloadable<Reader<Vec<u8>>, FileStamp>,
}

impl GeoIp {
    pub fn open(path: &Path) -> Result<Self, GeoIpError> {
        Ok(Self {
            path: path.to_owned(),
            database: Reloadable::new(|| stamp(path), || read(path))?,
        })
    }

    pub fn country(&self, address: IpAddr) -> Option<Country> {
        let database = self.database.current();
        // A dual-stack socket reports IPv4 clients as mapped IPv6 addresses.
        country_of(&database.lookup(address.to_canonical()).ok()?)
    }

    pub fn refresh(&self) -> Result<bool, GeoIpError> {
        self.database
            .refresh(|| stamp(&self.path), || read(&self.path))
    }
}

fn stamp(path: &Path) -> Result<FileStamp, GeoIpError> {
    Ok(FileStamp::read(path, SIZE_MAX)?)
}

fn read(path: &Path) -> Result<Reader<Vec<u8>>, GeoIpError> {
    let reader = Reader::from_source(fs::read(path)?)?;
    // A database of networks or cities without countries has a valid format, and would answer nothing for
    // every viewer.
    let mut sample = reader
        .networks(Default::default())?
        .take(NETWORKS_SEARCHED_MAX);
    if sample.any(|network| network.is_ok_and(|found| country_of(&found).is_some())) {
        return Ok(reader);
    }
    let kind = reader.metadata().database_type.clone();
    Err(GeoIpError::Other(kind))
}

fn country_of(found: &LookupResult<'_, Vec<u8>>) -> Option<Country> {
    // MaxMind nests the country; DB-IP and IPinfo are flat. `registered_country` is not read: rights depend
    // on where the address is used, not on where its network is registered.
    let paths: [&[PathElement<'_>]; 3] = [
        &path!["country", "iso_code"],
        &path!["country_code"],
        &path!["country"],
    ];
    paths.into_iter().find_map(|path| {
        // A record of another structure has no such path.
        let code: Option<&str> = found.decode_path(path).ok()?;
        Country::parse(code?).ok()
    })
}
