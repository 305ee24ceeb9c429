//! The exit codes of errors of the layers below, and what to do about them.

use super::failure::{ADOPT, Exit, Failure};
use playgate_app::AppError;
use playgate_domain::backups::BackupError;
use playgate_fleet::membership::MembershipError;
use playgate_fleet::peers::PeerError;
use playgate_store::StoreError;
use playgate_store::replication::SharedLogError;

impl From<AppError> for Failure {
    fn from(error: AppError) -> Self {
        match error {
            AppError::Store(error) => error.into(),
            AppError::Setting(_) => Self::usage(error.to_string()),
            AppError::File { .. } => Self::usage(error.to_string()),
            AppError::Key(error) => {
                let failure = Self::fatal(&error);
                match error.advice() {
                    Some(advice) => failure.hint(advice),
                    None => failure,
                }
            }
            AppError::Telemetry(_) | AppError::Quality(_) | AppError::Threads(_) => {
                Self::fatal(error)
            }
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::fatal(&error);
        match error {
            StoreError::InUse => failure.hint(
                "only one process can open the store: another command has it open, or a server that is starting or could not create its administration socket on a full or read-only disk",
            ),
            StoreError::Newer { .. } | StoreError::NewerRecord { .. } => failure.hint(
                "install that version or a newer one, or run `playgate backup restore FILE`",
            ),
            StoreError::Older { .. } => failure.hint(
                "start the service: it writes a backup and upgrades the store; then repeat the command (a fleet is upgraded as docs/fleet.md says)",
            ),
            StoreError::InFleet => failure.hint(
                "start the service and repeat the command, which then reaches the owner; or run `playgate fleet leave`",
            ),
            StoreError::NotJoined => failure.hint("run `playgate fleet join` again, with a new invitation"),
            StoreError::NotReplaceable(_) => failure.hint(
                "stop the service, move what `store` leads to and the other files of the data directory to one file system, and let `data_dir`, the mount point or the link name their common directory",
            ),
            StoreError::NotEmpty => failure.hint("import into a new data directory"),
            StoreError::Foreign => failure.hint(ADOPT),
            StoreError::Lost(_) => failure.hint(
                "restore a backup (`playgate backup list`, `playgate backup restore FILE`), export readable records with `playgate store export --salvage FILE`, or continue without the lost data with `playgate store recover --accept-loss`",
            ),
            StoreError::Hung => failure,
            StoreError::Damaged { .. } => failure.hint("`playgate store verify` lists the damage"),
            StoreError::Full
            | StoreError::NoRoom { .. }
            | StoreError::NoDescriptor(_)
            | StoreError::NotSynced(_)
            | StoreError::Overloaded
            | StoreError::TooLarge { .. }
            | StoreError::Failed(_)
            | StoreError::Engine(_)
            | StoreError::Io(_)
            | StoreError::Moved
            | StoreError::Unsettled
            | StoreError::SharedLog(_)
            | StoreError::ChangeTooLarge
            | StoreError::Closed => failure,
        }
    }
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Self {
        let message = error.to_string();
        match error {
            BackupError::NotFound => {
                Self::new(Exit::NotFound, message).hint("`playgate backup list` lists the names")
            }
            BackupError::Foreign => Self::failed(message).hint(ADOPT),
            BackupError::Store(error) => error.into(),
            BackupError::NoDirectory(_)
            | BackupError::Directory { .. }
            | BackupError::Damaged { .. }
            | BackupError::Newer { .. } => Self::failed(message),
        }
    }
}

impl From<MembershipError> for Failure {
    fn from(error: MembershipError) -> Self {
        match error {
            MembershipError::BadWord => Self::usage(error.to_string())
                .hint("copy the whole word that `playgate fleet invite` printed"),
            MembershipError::Damaged(_) => Self::fatal(error).hint(
                "install the newest version of a member; or move the data directory away, run `playgate fleet leave --name NAME` on another member, and join again",
            ),
            MembershipError::File { .. } => Self::fatal(error),
        }
    }
}

impl From<SharedLogError> for Failure {
    fn from(error: SharedLogError) -> Self {
        let failure = Self::failed(error.to_string());
        match error {
            SharedLogError::Unknown(_) => {
                failure.hint("check that etcd runs, and `fleet.endpoints`, `fleet.ca`; if the data of etcd are lost, run `playgate fleet recover` on the member with the highest commit")
            }
            SharedLogError::Refused(_) => failure.hint(
                "check `fleet.username` and `fleet.password`, and whether etcd has reached its quota (`etcdctl alarm list`)",
            ),
            SharedLogError::Foreign
            | SharedLogError::Restored { .. }
            | SharedLogError::MemberAhead { .. }
            | SharedLogError::Behind { .. }
            | SharedLogError::Recovered { .. }
            | SharedLogError::Dissolved { .. }
            | SharedLogError::Truncated { .. }
            | SharedLogError::Damaged { .. } => failure,
        }
    }
}

impl From<PeerError> for Failure {
    fn from(error: PeerError) -> Self {
        let failure = Self::failed(error.to_string());
        match error {
            PeerError::Connect { .. } => failure.hint(
                "check that the service of that member runs, and its `fleet.listen` and `fleet.advertise`",
            ),
            PeerError::OtherKey { .. } => failure.hint("run `playgate fleet invite` on a member of the fleet"),
            PeerError::Busy { .. } | PeerError::Refused { .. } | PeerError::File(_) => failure,
        }
    }
}
