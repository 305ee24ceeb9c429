//! Requests about backups.

use playgate_http::errors::api_error::{ApiError, CombineResults};
use playgate_http::request::body::BodyStream;
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackupRequest {
    pub name: String,
}

impl ParseRequest for BackupRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            name: input.text("backup")?.into_owned(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestoreBackupRequest {
    pub name: String,
    /// Permits a backup of another installation.
    pub adopt: bool,
}

impl ParseRequest for RestoreBackupRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (name, adopt) = (input.text("backup"), input.query.flag("adopt")).combine()?;
        Ok(Self {
            name: name.into_owned(),
            adopt,
        })
    }
}

pub(crate) struct RestoreSentBackupRequest {
    pub adopt: bool,
    pub file: BodyStream,
}

impl ParseRequest for RestoreSentBackupRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            adopt: input.query.flag("adopt")?,
            file: payload.streamed()?,
        })
    }
}
