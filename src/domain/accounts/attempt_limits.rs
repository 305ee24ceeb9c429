//! What attempts are counted for, and how many are allowed.

use std::net::IpAddr;

use ring::digest;

use super::attempt_counter::AttemptRule;
use playgate_types::time::HOUR;
use playgate_types::{Email, LimitReached, PartnerId, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptKind {
    LoginAccount,
    LoginAddress,
    SignUpAddress,
    ResetMailAccount,
    ResetMailAddress,
    ResetAddress,
    Pin,
    PinMail,
    NoticeMail,
    /// The count of a known device or network.
    LoginKnownClient,
    /// Of all accounts that know the network.
    LoginKnownAddress,
    /// The share that one account has in the count of an address.
    AddressShare,
    KnownAddressShare,
}

impl AttemptKind {
    pub(super) const ALL: [Self; 13] = [
        Self::LoginAccount,
        Self::LoginAddress,
        Self::SignUpAddress,
        Self::ResetMailAccount,
        Self::ResetMailAddress,
        Self::ResetAddress,
        Self::Pin,
        Self::PinMail,
        Self::NoticeMail,
        Self::LoginKnownClient,
        Self::LoginKnownAddress,
        Self::AddressShare,
        Self::KnownAddressShare,
    ];

    /// The number is stored in keys and must never change.
    const fn number(self) -> u8 {
        match self {
            Self::LoginAccount => 1,
            Self::LoginAddress => 2,
            Self::SignUpAddress => 3,
            Self::ResetMailAccount => 4,
            Self::ResetMailAddress => 5,
            Self::ResetAddress => 6,
            Self::Pin => 7,
            Self::PinMail => 8,
            Self::NoticeMail => 9,
            Self::LoginKnownClient => 10,
            Self::LoginKnownAddress => 11,
            Self::AddressShare => 12,
            Self::KnownAddressShare => 13,
        }
    }

    pub(super) const fn share(self) -> Option<Self> {
        match self {
            Self::LoginAddress => Some(Self::AddressShare),
            Self::LoginKnownAddress => Some(Self::KnownAddressShare),
            _ => None,
        }
    }

    pub(super) const fn is_share(self) -> bool {
        matches!(self, Self::AddressShare | Self::KnownAddressShare)
    }

    const fn name(self) -> &'static str {
        match self {
            // The names do not tell a client whether an account knows it.
            Self::LoginAccount | Self::LoginKnownClient => "login-account",
            Self::LoginAddress
            | Self::LoginKnownAddress
            | Self::AddressShare
            | Self::KnownAddressShare => "login-address",
            Self::SignUpAddress => "sign-up",
            Self::ResetMailAccount => "reset-mail-account",
            Self::ResetMailAddress => "reset-mail",
            Self::ResetAddress => "reset",
            Self::Pin => "pin",
            Self::PinMail => "pin-mail",
            Self::NoticeMail => "notice-mail",
        }
    }
}

/// Number of the kind, and hash or id of the subject.
pub(super) type ThrottleKey = (u8, [u8; 16]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttemptSubject {
    kind: AttemptKind,
    id: [u8; 16],
}

impl AttemptSubject {
    /// Also for an address without an account.
    pub(super) fn account(kind: AttemptKind, partner: &PartnerId, email: &Email) -> Self {
        // Hashed, so that the table does not collect typed addresses.
        let id = hash(partner, email.as_str().as_bytes());
        Self { kind, id }
    }

    /// `lab` is the partner, if its clock can be moved.
    pub(super) fn address(kind: AttemptKind, lab: Option<&PartnerId>, address: IpAddr) -> Self {
        let id = network_bits(address).to_be_bytes();
        Self {
            kind,
            id: lab.map_or(id, |lab| hash(lab, &id)),
        }
    }

    pub(super) fn known_client(partner: &PartnerId, email: &Email, mark: u64) -> Self {
        let subject = [email.as_str().as_bytes(), &[0], &mark.to_be_bytes()].concat();
        Self {
            kind: AttemptKind::LoginKnownClient,
            id: hash(partner, &subject),
        }
    }

    /// For the count of an address, the share that an account has in it. A right password takes the whole share back.
    pub(super) fn share_of(&self, partner: &PartnerId, email: &Email) -> Option<Self> {
        let kind = self.kind.share()?;
        let subject = [&self.id, email.as_str().as_bytes()].concat();
        Some(Self {
            kind,
            id: hash(partner, &subject),
        })
    }

    pub(super) const fn id(&self) -> [u8; 16] {
        self.id
    }

    pub(super) const fn user(kind: AttemptKind, user: &UserId) -> Self {
        Self {
            kind,
            id: *user.as_bytes(),
        }
    }

    pub(super) const fn kind(&self) -> AttemptKind {
        self.kind
    }

    pub(super) const fn key(&self) -> ThrottleKey {
        (self.kind.number(), self.id)
    }
}

/// The network of a client: an IPv4 address, or the first 64 bits of an IPv6 address, which is the usual size of one subscriber's
/// network: a client can change the rest.
pub(super) fn network_bits(address: IpAddr) -> u128 {
    // An IPv4 client may also appear under its IPv4-mapped IPv6 address.
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits() >> 64 << 64,
    }
}

fn hash(partner: &PartnerId, subject: &[u8]) -> [u8; 16] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(partner.as_bytes());
    context.update(subject);
    let mut id = [0; 16];
    // The first 16 bytes of the hash.
    for (to, from) in id.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    id
}

/// How many times more wrong passwords an address may have at accounts that know it. Many viewers of a campus mistype; a
/// stranger among them must not try every account.
pub const KNOWN_FACTOR: u32 = 10;

/// Section `limits` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptLimits {
    pub login_account: AttemptRule,
    pub login_address: AttemptRule,
    /// Wrong passwords per address at accounts that know it.
    pub login_known_address: AttemptRule,
    pub sign_up: AttemptRule,
    /// Reset mails per account; further ones are dropped silently.
    pub reset_mail_account: AttemptRule,
    pub reset_mail_address: AttemptRule,
    pub reset: AttemptRule,
    pub pin: AttemptRule,
    pub pin_mail: AttemptRule,
    /// Password notices per account; further ones are dropped silently.
    pub notice_mail: AttemptRule,
}

impl Default for AttemptLimits {
    fn default() -> Self {
        const QUARTER: i64 = HOUR / 4;
        const LOCKS: &[i64] = &[60, 120, 240, 480, 900];
        let rule = |limit, window, locks| AttemptRule {
            limit,
            window,
            locks,
        };
        Self {
            login_account: rule(10, QUARTER, LOCKS),
            // Many users may share an address.
            login_address: rule(50, QUARTER, LOCKS),
            login_known_address: rule(50 * KNOWN_FACTOR, QUARTER, LOCKS),
            sign_up: rule(100, 600, &[]),
            reset_mail_account: rule(3, HOUR, &[]),
            reset_mail_address: rule(60, HOUR, &[]),
            reset: rule(60, QUARTER, &[]),
            // A PIN has few digits, so few guesses.
            pin: rule(5, QUARTER, &[QUARTER]),
            pin_mail: rule(3, HOUR, &[]),
            notice_mail: rule(3, HOUR, &[]),
        }
    }
}

impl AttemptLimits {
    pub(super) const fn rule(&self, kind: AttemptKind) -> &AttemptRule {
        match kind {
            AttemptKind::LoginAccount | AttemptKind::LoginKnownClient => &self.login_account,
            AttemptKind::LoginAddress | AttemptKind::AddressShare => &self.login_address,
            AttemptKind::LoginKnownAddress | AttemptKind::KnownAddressShare => {
                &self.login_known_address
            }
            AttemptKind::SignUpAddress => &self.sign_up,
            AttemptKind::ResetMailAccount => &self.reset_mail_account,
            AttemptKind::ResetMailAddress => &self.reset_mail_address,
            AttemptKind::ResetAddress => &self.reset,
            AttemptKind::Pin => &self.pin,
            AttemptKind::PinMail => &self.pin_mail,
            AttemptKind::NoticeMail => &self.notice_mail,
        }
    }

    pub(super) const fn reached(&self, kind: AttemptKind, retry_after: i64) -> LimitReached {
        let rule = match kind {
            // The figures do not tell either.
            AttemptKind::LoginKnownAddress => &self.login_address,
            other => self.rule(other),
        };
        LimitReached {
            name: kind.name(),
            limit: rule.limit,
            window: rule.window,
            retry_after,
        }
    }

    pub(super) fn rule_of(&self, key: &ThrottleKey) -> Option<&AttemptRule> {
        // `None` for a kind that this version does not know.
        AttemptKind::ALL
            .into_iter()
            .find(|kind| kind.number() == key.0)
            .map(|kind| self.rule(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_addresses_count_per_subscriber() {
        let subject = |text: &str| {
            AttemptSubject::address(AttemptKind::LoginAddress, None, text.parse().unwrap())
        };
        assert_eq!(subject("2001:db8::1"), subject("2001:db8::ffff:1"));
        assert_ne!(subject("2001:db8::1"), subject("2001:db8:0:1::1"));
        assert_ne!(subject("192.0.2.1"), subject("192.0.2.2"));
        assert_eq!(subject("192.0.2.1"), subject("::ffff:192.0.2.1"));
    }
}
