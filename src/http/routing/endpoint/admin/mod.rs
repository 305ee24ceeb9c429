//! Requests of the administration interface.

pub(crate) mod backups;
pub(crate) mod content;
pub(crate) mod rights;
pub(crate) mod schedule;
pub(crate) mod system;
pub(crate) mod telemetry;
pub(crate) mod users;

use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::routing::endpoint::admin::backups::{
    BackupRequest, RestoreBackupRequest, RestoreSentBackupRequest,
};
use crate::http::routing::endpoint::admin::content::{
    ExportCatalogRequest, ImportCatalogRequest, ImportGuideRequest, RefreshSourceRequest,
    SourceRequest, UndoCatalogRequest,
};
use crate::http::routing::endpoint::admin::rights::{
    AddRuleRequest, BroadcastRightsRequest, RemoveRuleRequest, SetDefaultsRequest, SetRightsRequest,
};
use crate::http::routing::endpoint::admin::schedule::{ScheduleDayRequest, ScheduleLiveRequest};
use crate::http::routing::endpoint::admin::system::{
    AddOperatorRequest, AddPartnerRequest, AuditRequest, ChangePartnerRequest,
    EndPlaybackSessionRequest, MailRequest, MoveClockRequest, OperatorRequest,
    OperatorTokenRequest, PartnerRequest, PartnerTokenRequest, PreviewMailRequest, TestMailRequest,
};
use crate::http::routing::endpoint::admin::telemetry::{
    ExportTelemetryRequest, ReportTelemetryRequest,
};
use crate::http::routing::endpoint::admin::users::{
    AddUserRequest, ChangeUserRequest, ExplainEntitlementRequest, GrantRequest, ImportUsersRequest,
    RevokeGrantRequest, SetPinRequest, UserRequest, UsersRequest,
};
use crate::http::routing::endpoint::{Input, Payload};
use crate::http::routing::route::OperatorRoute;

pub(crate) enum OperatorEndpoint {
    About,
    ReadClock,
    MoveClock(MoveClockRequest),
    ResetClock,
    AcceptClock,
    Partners,
    AddPartner(AddPartnerRequest),
    ChangePartner(ChangePartnerRequest),
    RemovePartner(PartnerRequest),
    PartnerTokens(PartnerRequest),
    AddPartnerToken(PartnerRequest),
    RevokePartnerToken(PartnerTokenRequest),
    Operators,
    AddOperator(AddOperatorRequest),
    RevokeOperator(OperatorRequest),
    OperatorTokens(OperatorRequest),
    AddOperatorToken(OperatorRequest),
    RevokeOperatorToken(OperatorTokenRequest),
    Audit(AuditRequest),
    ExportCatalog(ExportCatalogRequest),
    ImportCatalog(ImportCatalogRequest),
    CatalogHistory,
    UndoCatalog(UndoCatalogRequest),
    ImportGuide(ImportGuideRequest),
    WhyRights(BroadcastRightsRequest),
    SetRights(SetRightsRequest),
    ClearRights(BroadcastRightsRequest),
    SetDefaults(SetDefaultsRequest),
    Rules,
    AddRule(AddRuleRequest),
    RemoveRule(RemoveRuleRequest),
    ScheduleLive(ScheduleLiveRequest),
    ScheduleDay(ScheduleDayRequest),
    GuideSources,
    GuideSource(SourceRequest),
    RefreshSource(RefreshSourceRequest),
    Users(UsersRequest),
    AddUser(Box<AddUserRequest>),
    ImportUsers(ImportUsersRequest),
    ShowUser(UserRequest),
    ChangeUser(Box<ChangeUserRequest>),
    RemoveUser(UserRequest),
    Grants(UserRequest),
    Grant(GrantRequest),
    RevokeGrant(RevokeGrantRequest),
    SetPin(SetPinRequest),
    MailReset(UserRequest),
    UserSessions(UserRequest),
    LogoutUser(UserRequest),
    ClearUserDevices(UserRequest),
    Why(ExplainEntitlementRequest),
    Mails,
    ShowMail(MailRequest),
    PreviewMail(PreviewMailRequest),
    TestMail(TestMailRequest),
    PlaybackSessions,
    EndPlaybackSession(EndPlaybackSessionRequest),
    ExportTelemetry(ExportTelemetryRequest),
    ReportTelemetry(ReportTelemetryRequest),
    VerifyStore,
    RebuildStore,
    RenewBase,
    CompactStore,
    Backups,
    CreateBackup,
    VerifyBackup(BackupRequest),
    RestoreBackup(RestoreBackupRequest),
    RestoreSentBackup(RestoreSentBackupRequest),
}

impl OperatorEndpoint {
    /// Parses the parameters of a route.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the parameters; a "not found" code for a malformed id in the
    /// path.
    pub(crate) fn parse(
        route: OperatorRoute,
        input: &Input<'_>,
        payload: Payload,
    ) -> Result<Self, ApiError> {
        use OperatorRoute as R;
        let user = || UserRequest::parse(input);
        let partner = || PartnerRequest::parse(input);
        let operator = || OperatorRequest::parse(input);
        Ok(match route {
            R::About => Self::About,
            R::ReadClock => Self::ReadClock,
            R::MoveClock => Self::MoveClock(MoveClockRequest::parse(payload)?),
            R::ResetClock => Self::ResetClock,
            R::AcceptClock => Self::AcceptClock,
            R::Partners => Self::Partners,
            R::AddPartner => Self::AddPartner(AddPartnerRequest::parse(payload)?),
            R::ChangePartner => Self::ChangePartner(ChangePartnerRequest::parse(input, payload)?),
            R::RemovePartner => Self::RemovePartner(partner()?),
            R::PartnerTokens => Self::PartnerTokens(partner()?),
            R::AddPartnerToken => Self::AddPartnerToken(partner()?),
            R::RevokePartnerToken => Self::RevokePartnerToken(PartnerTokenRequest::parse(input)?),
            R::Operators => Self::Operators,
            R::AddOperator => Self::AddOperator(AddOperatorRequest::parse(payload)?),
            R::RevokeOperator => Self::RevokeOperator(operator()?),
            R::OperatorTokens => Self::OperatorTokens(operator()?),
            R::AddOperatorToken => Self::AddOperatorToken(operator()?),
            R::RevokeOperatorToken => {
                Self::RevokeOperatorToken(OperatorTokenRequest::parse(input)?)
            }
            R::Audit => Self::Audit(AuditRequest::parse(input)?),
            R::ExportCatalog => Self::ExportCatalog(ExportCatalogRequest::parse(input)?),
            R::ImportCatalog => Self::ImportCatalog(ImportCatalogRequest::parse(input, payload)?),
            R::CatalogHistory => Self::CatalogHistory,
            R::UndoCatalog => Self::UndoCatalog(UndoCatalogRequest::parse(input)?),
            R::ImportGuide => Self::ImportGuide(ImportGuideRequest::parse(input, payload)?),
            R::ExplainRights => Self::WhyRights(BroadcastRightsRequest::parse(input)?),
            R::SetRights => Self::SetRights(SetRightsRequest::parse(input, payload)?),
            R::ClearRights => Self::ClearRights(BroadcastRightsRequest::parse(input)?),
            R::SetDefaults => Self::SetDefaults(SetDefaultsRequest::parse(input, payload)?),
            R::Rules => Self::Rules,
            R::AddRule => Self::AddRule(AddRuleRequest::parse(payload)?),
            R::RemoveRule => Self::RemoveRule(RemoveRuleRequest::parse(input)?),
            R::ScheduleLive => Self::ScheduleLive(ScheduleLiveRequest::parse(input)?),
            R::ScheduleDay => Self::ScheduleDay(ScheduleDayRequest::parse(input)?),
            R::GuideSources => Self::GuideSources,
            R::GuideSource => Self::GuideSource(SourceRequest::parse(input)?),
            R::RefreshSource => Self::RefreshSource(RefreshSourceRequest::parse(input)?),
            R::Users => Self::Users(UsersRequest::parse(input)?),
            R::AddUser => Self::AddUser(Box::new(AddUserRequest::parse(input, payload)?)),
            R::ImportUsers => Self::ImportUsers(ImportUsersRequest::parse(input, payload)?),
            R::ShowUser => Self::ShowUser(user()?),
            R::ChangeUser => Self::ChangeUser(Box::new(ChangeUserRequest::parse(input, payload)?)),
            R::RemoveUser => Self::RemoveUser(user()?),
            R::Grants => Self::Grants(user()?),
            R::AddGrant => Self::Grant(GrantRequest::parse(input, payload)?),
            R::RevokeGrant => Self::RevokeGrant(RevokeGrantRequest::parse(input)?),
            R::SetPin => Self::SetPin(SetPinRequest::parse(input, payload)?),
            R::MailReset => Self::MailReset(user()?),
            R::UserSessions => Self::UserSessions(user()?),
            R::LogoutUser => Self::LogoutUser(user()?),
            R::ClearUserDevices => Self::ClearUserDevices(user()?),
            R::ExplainEntitlement => Self::Why(ExplainEntitlementRequest::parse(input)?),
            R::Mails => Self::Mails,
            R::ShowMail => Self::ShowMail(MailRequest::parse(input)?),
            R::PreviewMail => Self::PreviewMail(PreviewMailRequest::parse(input)?),
            R::TestMail => Self::TestMail(TestMailRequest::parse(payload)?),
            R::PlaybackSessions => Self::PlaybackSessions,
            R::EndPlaybackSession => {
                Self::EndPlaybackSession(EndPlaybackSessionRequest::parse(input)?)
            }
            R::ExportTelemetry => Self::ExportTelemetry(ExportTelemetryRequest::parse(input)?),
            R::ReportTelemetry => Self::ReportTelemetry(ReportTelemetryRequest::parse(input)?),
            R::VerifyStore => Self::VerifyStore,
            R::RebuildStore => Self::RebuildStore,
            R::CreateSnapshot => Self::RenewBase,
            R::CompactStore => Self::CompactStore,
            R::Backups => Self::Backups,
            R::CreateBackup => Self::CreateBackup,
            R::VerifyBackup => Self::VerifyBackup(BackupRequest::parse(input)?),
            R::RestoreBackup => Self::RestoreBackup(RestoreBackupRequest::parse(input)?),
            R::RestoreSentBackup => {
                Self::RestoreSentBackup(RestoreSentBackupRequest::parse(input, payload)?)
            }
        })
    }
}

/// An id in a path that cannot be parsed cannot exist: it is answered as an unknown one.
fn known<T, E>(read: Result<T, E>, code: ErrorCode) -> Result<T, ApiError> {
    read.map_err(|_| {
        let what = code.as_str().trim_end_matches("_NOT_FOUND");
        ApiError::new(
            code,
            format!("there is no such {}", what.to_ascii_lowercase()),
        )
    })
}
