//! Authentication and first rate limits of requests, from memory.

use std::net::IpAddr;
use std::sync::Arc;

use dashmap::DashMap;

use playgate_domain::accounts::{Accounts, AccountsError, AttemptKind};
use playgate_domain::lab::Lab;
use playgate_domain::operators::Operators;
use playgate_domain::partners::Partners;
use playgate_http::access::auth::PARTNER_LIMIT;
use playgate_http::{Authenticator, OperatorIdentity, PartnerIdentity, RateClass, UserIdentity};
use playgate_services::Services;
use playgate_types::{
    LimitReached, Locale, PartnerId, PartnerKind, TokenHash, UnixSeconds, UserId,
};

pub(super) struct TokenAuthenticator {
    partners: Partners,
    operators: Operators,
    accounts: Accounts,
    lab: Arc<Lab>,
    rates: PartnerRateLimiter,
}

impl TokenAuthenticator {
    pub(super) fn new(services: &Services) -> Self {
        let limit = services.config.limits.partner_requests_per_second;
        Self {
            partners: services.partners.clone(),
            operators: services.operators.clone(),
            accounts: services.accounts.clone(),
            lab: Arc::clone(&services.lab),
            rates: PartnerRateLimiter::new(limit),
        }
    }
}

impl Authenticator for TokenAuthenticator {
    fn partner(&self, token: &TokenHash, now: UnixSeconds) -> Option<PartnerIdentity> {
        let (partner, kind) = self.partners.authenticate(token, now)?;
        let clock_offset = match kind {
            PartnerKind::Lab => self.lab.clock_offset(&partner),
            PartnerKind::Standard => 0,
        };
        Some(PartnerIdentity {
            partner,
            token: *token,
            kind,
            clock_offset,
        })
    }

    fn user(
        &self,
        token: &TokenHash,
        partner: PartnerId,
        now: UnixSeconds,
    ) -> Option<UserIdentity> {
        // Looked up within the partner: a token of another partner's user is unknown here.
        let login = self.accounts.authenticate(token, partner, now)?;
        Some(UserIdentity {
            user: login.user,
            login: login.login,
        })
    }

    fn operator(&self, token: &TokenHash, now: UnixSeconds) -> Option<OperatorIdentity> {
        let operator = self.operators.authenticate(token, now)?;
        Some(OperatorIdentity {
            operator: operator.id,
            role: operator.role,
        })
    }

    fn locale(&self, user: UserId) -> Option<Locale> {
        self.accounts.user(&user)?.locale.clone()
    }

    fn admit(
        &self,
        class: RateClass,
        partner: Option<PartnerId>,
        peer: IpAddr,
        now: UnixSeconds,
    ) -> Result<(), LimitReached> {
        if let Some(partner) = partner {
            self.rates.admit(partner, now)?;
        }
        let kind = match class {
            RateClass::SignUp => AttemptKind::SignUpAddress,
            RateClass::Reset => AttemptKind::ResetAddress,
            RateClass::ResetMail => AttemptKind::ResetMailAddress,
            // Which limits apply depends on the account, which the body names.
            RateClass::Login | RateClass::General => return Ok(()),
        };
        let partner = partner.as_ref();
        match self.accounts.check_address_rate(kind, partner, peer, now) {
            Err(AccountsError::TooManyAttempts(limit)) => Err(limit),
            // Other errors are found and reported by the handler.
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

pub(super) struct PartnerRateLimiter {
    limit: u32,
    running: DashMap<PartnerId, (UnixSeconds, u32)>,
}

impl PartnerRateLimiter {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            limit,
            running: DashMap::new(),
        }
    }

    fn admit(&self, partner: PartnerId, now: UnixSeconds) -> Result<(), LimitReached> {
        // 0 stands for no limit.
        if self.limit == 0 {
            return Ok(());
        }
        // The entry stays locked to the end: two requests cannot both take the last place.
        let mut running = self.running.entry(partner).or_insert((now, 0));
        // A new second starts with a full allowance: one map entry for a partner, and no queue. A request that read
        // the clock before another one of the next second arrives after it, and must not start that second again.
        if !(-1..=0).contains(&now.since(running.0)) {
            *running = (now, 0);
        }
        if running.1 >= self.limit {
            return Err(LimitReached {
                name: PARTNER_LIMIT,
                limit: self.limit,
                window: 1,
                retry_after: 1,
            });
        }
        running.1 += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partner_over_its_limit_waits_for_the_next_second() {
        let rates = PartnerRateLimiter::new(2);
        let (one, other) = (
            PartnerId::from_bytes([1; 16]),
            PartnerId::from_bytes([2; 16]),
        );
        let at = |partner, second| rates.admit(partner, UnixSeconds(second)).is_ok();
        assert!(at(one, 5) && at(one, 5) && !at(one, 5));
        assert!(at(other, 5) && at(one, 6));
        // Readings of the second before count to this one. A clock that is set back starts again.
        assert!(at(one, 5) && !at(one, 6) && !at(one, 5) && at(one, 3));
        let free = PartnerRateLimiter::new(0);
        assert!((0..1_000).all(|_| free.admit(one, UnixSeconds(1)).is_ok()));
    }
}
