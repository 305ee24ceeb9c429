//! Access of operator roles to routes.

use crate::http::routing::route::{Endpoint, OperatorRoute, Route};
use crate::types::Role;

impl Route {
    /// Returns the roles that may use the route: content for catalogue and guide, agent for users, observer
    /// for all routes that only read. `None` for routes without an operator token.
    #[must_use]
    pub fn roles(&self) -> Option<&'static [Role]> {
        use OperatorRoute as O;
        let Endpoint::Operator(route) = self.target else {
            return None;
        };
        Some(match route {
            O::About | O::ReadClock | O::Partners | O::ScheduleLive | O::ScheduleDay => {
                &[Role::Admin, Role::Content, Role::Agent, Role::Observer]
            }
            O::ExportCatalog
            | O::CatalogHistory
            | O::ExplainRights
            | O::Rules
            | O::GuideSources
            | O::GuideSource
            | O::ReportTelemetry => &[Role::Admin, Role::Content, Role::Observer],
            O::ImportCatalog
            | O::UndoCatalog
            | O::ImportGuide
            | O::SetRights
            | O::ClearRights
            | O::SetDefaults
            | O::AddRule
            | O::RemoveRule
            | O::RefreshSource => &[Role::Admin, Role::Content],
            O::Users
            | O::ShowUser
            | O::Grants
            | O::UserSessions
            | O::ExplainEntitlement
            | O::Mails
            | O::ShowMail
            | O::PreviewMail
            | O::PlaybackSessions => &[Role::Admin, Role::Agent, Role::Observer],
            O::AddUser
            | O::ImportUsers
            | O::ChangeUser
            | O::RemoveUser
            | O::AddGrant
            | O::RevokeGrant
            | O::SetPin
            | O::MailReset
            | O::LogoutUser
            | O::ClearUserDevices
            | O::EndPlaybackSession => &[Role::Admin, Role::Agent],
            O::PartnerTokens
            | O::Operators
            | O::OperatorTokens
            | O::Audit
            | O::ExportTelemetry
            | O::Backups => &[Role::Admin, Role::Observer],
            O::MoveClock
            | O::ResetClock
            | O::AcceptClock
            | O::AddPartner
            | O::ChangePartner
            | O::RemovePartner
            | O::AddPartnerToken
            | O::RevokePartnerToken
            | O::AddOperator
            | O::RevokeOperator
            | O::AddOperatorToken
            | O::RevokeOperatorToken
            | O::TestMail
            | O::VerifyStore
            | O::RebuildStore
            | O::CreateSnapshot
            | O::CompactStore
            | O::CreateBackup
            | O::VerifyBackup
            | O::RestoreBackup
            | O::RestoreSentBackup => &[Role::Admin],
        })
    }
}
