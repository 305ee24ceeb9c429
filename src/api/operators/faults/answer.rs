//! Faults as answers.

use std::time::Duration;

use serde::Serialize;

use playgate_domain::lab::{
    CutAt, FaultAction, FaultMatch, FaultView, LicenseFault, PlaylistFault,
};
use playgate_types::{Described, JsonType, format_span};

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FaultBody {
    /// Id by which the fault is removed.
    fault_id: String,
    /// Route as it was given.
    route: String,
    /// Conditions; the user appears as an id.
    #[serde(rename = "match")]
    #[described(JsonType::Named("FaultMatch"))]
    matching: MatchBody,
    /// Number of matching requests that are served normally first.
    after: u64,
    /// How often the fault is applied at most. Absent if it has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
    /// Share of the matching requests that get the fault.
    probability: f64,
    /// Seed of the random choice. The same seed chooses the same requests.
    seed: u64,
    /// What happens to the request.
    #[serde(rename = "do")]
    #[described(JsonType::Named("FaultAction"))]
    action: ActionBody,
    /// Time until the fault ends by itself. Absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[described(JsonType::Named("Span"))]
    until: Option<String>,
    /// Number of matching requests so far.
    calls: u64,
    /// How often the fault was applied.
    applied: u64,
}

#[derive(Serialize)]
struct MatchBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum ActionBody {
    Refuse {
        refuse: &'static str,
    },
    Delay {
        delay: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        jitter: Option<String>,
    },
    Status {
        status: u16,
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after: Option<u32>,
    },
    Cut {
        cut: &'static str,
    },
    License {
        license: &'static str,
    },
    Playlist {
        playlist: &'static str,
    },
}

impl From<&FaultView> for FaultBody {
    fn from(view: &FaultView) -> Self {
        let FaultMatch {
            user,
            asset,
            device,
            session,
        } = &view.fault.matching;
        Self {
            fault_id: view.id.to_string(),
            route: view.fault.route.clone(),
            matching: MatchBody {
                user: user.map(|user| user.to_string()),
                asset: asset.clone(),
                device: device.clone(),
                session: session.map(|session| session.to_string()),
            },
            after: view.fault.after,
            times: view.fault.times,
            probability: view.fault.probability,
            seed: view.fault.seed,
            action: ActionBody::from(&view.fault.action),
            until: view.expires_in.map(|left| {
                // Rounded to whole seconds, because people read it.
                format_span(Duration::from_secs(left.as_secs()))
            }),
            calls: view.calls,
            applied: view.applied,
        }
    }
}

impl From<&FaultAction> for ActionBody {
    fn from(action: &FaultAction) -> Self {
        match action {
            FaultAction::Refuse(code) => Self::Refuse { refuse: code },
            FaultAction::Delay { base, jitter } => Self::Delay {
                delay: format_span(*base),
                jitter: (!jitter.is_zero()).then(|| format_span(*jitter)),
            },
            FaultAction::Status {
                status,
                retry_after,
            } => Self::Status {
                status: *status,
                retry_after: *retry_after,
            },
            FaultAction::Cut(at) => Self::Cut {
                cut: match at {
                    CutAt::Head => "head",
                    CutAt::Body => "body",
                },
            },
            FaultAction::License(fault) => Self::License {
                license: match fault {
                    LicenseFault::Garbage => "garbage",
                    LicenseFault::Empty => "empty",
                    LicenseFault::ForeignKid => "foreignKid",
                },
            },
            FaultAction::Playlist(fault) => Self::Playlist {
                playlist: match fault {
                    PlaylistFault::Expired => "expired",
                    PlaylistFault::Missing => "missing",
                    PlaylistFault::Stale => "stale",
                },
            },
        }
    }
}
