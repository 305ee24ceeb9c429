//! Handlers of partners and their access tokens.

pub(crate) mod answer;
pub(crate) mod request;

use super::lab;
use crate::operators::partners::answer::{AddedPartner, AddedToken, PartnerLine, TokenLine};
use crate::operators::partners::request::{
    AddPartnerRequest, AddPartnerTokenRequest, ChangePartnerRequest, PartnerRequest,
    PartnerTokenRequest,
};
use playgate_http::access::auth::OperatorAuth;
use playgate_http::errors::api_error::ApiError;
use playgate_http::offload::bulk;
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_http::routing::resolve;
use playgate_services::Services;
use playgate_types::PartnerKind;

pub(crate) async fn partners(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let counts = services.accounts.counts();
    let lines: Vec<_> = services
        .partners
        .list()
        .iter()
        .map(|partner| PartnerLine::new(partner, counts.get(&partner.id).copied().unwrap_or(0)))
        .collect();
    Reply::json(&lines)
}

pub(crate) async fn add_partner(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: AddPartnerRequest,
) -> Result<Reply, ApiError> {
    if request.kind == PartnerKind::Lab {
        lab::check_environment(services)?;
    }
    let added = services.partners.add(&request.name, request.kind, cx.now)?;
    let (id, token) = added.await?;
    let id = id.to_string();
    // The only time that the token is shown: the store has its hash.
    let access_token = token.reveal();
    Reply::made(
        &id,
        &AddedPartner {
            partner_id: id.clone(),
            access_token,
        },
    )
}

pub(crate) async fn change_partner(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: ChangePartnerRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::partner(services, &request.partner)?;
    services.partners.update(id, request.update).await?;
    Ok(Reply::empty_object())
}

pub(crate) async fn remove_partner(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: PartnerRequest,
) -> Result<Reply, ApiError> {
    let now = cx.now;
    let id = resolve::partner(services, &request.partner)?;
    let accounts = services.accounts.clone();
    // Disabled first and deleted last, so that a removal that was interrupted can be repeated.
    bulk(services, move || accounts.remove_partner(id, now)).await?;
    Ok(Reply::no_content())
}

pub(crate) async fn tokens(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PartnerRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::partner(services, &request.partner)?;
    let partners = services.partners.list();
    let partner = partners.iter().find(|partner| partner.id == id);
    let lines: Vec<_> = partner
        .into_iter()
        .flat_map(|partner| &partner.tokens)
        .map(TokenLine::from)
        .collect();
    Reply::json(&lines)
}

pub(crate) async fn add_token(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: AddPartnerTokenRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::partner(services, &request.partner)?;
    let added = services.partners.add_token(id, &request.label, cx.now)?;
    let (info, token) = added.await?;
    let token_id = info.handle;
    let access_token = token.reveal();
    Reply::made(
        &token_id,
        &AddedToken {
            token_id: token_id.clone(),
            access_token,
        },
    )
}

pub(crate) async fn revoke_token(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PartnerTokenRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::partner(services, &request.partner)?;
    services.partners.revoke_token(id, &request.token).await?;
    Ok(Reply::no_content())
}
