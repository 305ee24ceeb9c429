//! Rate limits on guessing, counted in the store.
//!
//! An attempt is counted as a failure before any work, on the writer thread, and refunded after success. So
//! concurrent guesses cannot exceed the limit, and a restart forgets none. Unknown accounts are counted like
//! existing ones.

use std::net::IpAddr;

use ring::digest;

use super::attempt_counter::{AttemptCounter, AttemptRule, CountedAttempt};
use super::tables::Throttles;
use crate::store::{StoreError, Txn};
use crate::types::time::HOUR;
use crate::types::{Email, LimitReached, PartnerId, UnixSeconds, UserId};

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

    const fn share(self) -> Option<Self> {
        match self {
            Self::LoginAddress => Some(Self::AddressShare),
            Self::LoginKnownAddress => Some(Self::KnownAddressShare),
            _ => None,
        }
    }

    const fn is_share(self) -> bool {
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
pub(crate) const KNOWN_FACTOR: u32 = 10;

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

#[derive(Debug)]
pub(super) enum Refused {
    TooMany(LimitReached),
    Store(StoreError),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

#[derive(Debug)]
pub(super) struct Reservation(Vec<(AttemptSubject, CountedAttempt)>);

/// Counts an attempt for each of the subjects, or for none of them. The share of an address follows it in `subjects`.
pub(super) fn reserve(
    txn: &mut Txn<'_>,
    limits: &AttemptLimits,
    subjects: &[AttemptSubject],
    now: UnixSeconds,
) -> Result<Reservation, Refused> {
    let mut marks: Vec<(AttemptSubject, CountedAttempt)> = Vec::with_capacity(subjects.len());
    let mut refused: Option<LimitReached> = None;
    for subject in subjects {
        let mut counter = txn.get::<Throttles>(&subject.key())?.unwrap_or_default();
        if subject.kind.is_share() {
            // It follows the count of its address: the same attempt has the same time in both.
            if let Some((_, mark)) = marks.last() {
                counter.add(limits.rule(subject.kind), *mark, now);
                txn.put::<Throttles>(&subject.key(), &counter)?;
                marks.push((*subject, *mark));
            }
            continue;
        }
        match counter.reserve(limits.rule(subject.kind), now) {
            Ok(mark) => {
                // If the batch fails, nothing is written.
                txn.put::<Throttles>(&subject.key(), &counter)?;
                marks.push((*subject, mark));
            }
            // The longest wait is reported, since the others end before it.
            Err(seconds) if refused.is_none_or(|other| other.retry_after < seconds) => {
                refused = Some(limits.reached(subject.kind, seconds));
            }
            Err(_) => {}
        }
    }
    match refused {
        Some(limit) => Err(Refused::TooMany(limit)),
        None => Ok(Reservation(marks)),
    }
}

pub(super) fn at_limit(
    txn: &Txn<'_>,
    limits: &AttemptLimits,
    subjects: &[AttemptSubject],
    now: UnixSeconds,
) -> Result<Vec<AttemptSubject>, StoreError> {
    let mut at_limit = Vec::new();
    for subject in subjects {
        let counter = txn.get::<Throttles>(&subject.key())?.unwrap_or_default();
        if counter.refusal_at(limits.rule(subject.kind), now).is_some() {
            at_limit.push(*subject);
        }
    }
    Ok(at_limit)
}

/// Counts an action that is dropped silently at its limit, and returns whether it may proceed.
pub(super) fn admit(
    txn: &mut Txn<'_>,
    limits: &AttemptLimits,
    subject: AttemptSubject,
    now: UnixSeconds,
) -> Result<bool, StoreError> {
    match reserve(txn, limits, &[subject], now) {
        Ok(_) => Ok(true),
        Err(Refused::TooMany(_)) => Ok(false),
        Err(Refused::Store(error)) => Err(error),
    }
}

/// Takes an attempt back that was not evaluated, or that was right.
pub(super) fn refund(
    txn: &mut Txn<'_>,
    limits: &AttemptLimits,
    reservation: &Reservation,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    take_back(txn, limits, reservation, now, AttemptCounter::take)
}

/// Takes back a right attempt, and for the address also the wrong ones before it at the same account: a viewer who mistyped and
/// then knew the password does not count against others behind the address. The count of the account keeps them.
pub(super) fn settle(
    txn: &mut Txn<'_>,
    limits: &AttemptLimits,
    reservation: &Reservation,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    take_back(txn, limits, reservation, now, AttemptCounter::take_all)
}

fn take_back(
    txn: &mut Txn<'_>,
    limits: &AttemptLimits,
    reservation: &Reservation,
    now: UnixSeconds,
    take: fn(&mut AttemptCounter, CountedAttempt) -> Vec<CountedAttempt>,
) -> Result<(), StoreError> {
    let share = reservation.0.iter().find(|(of, _)| of.kind.is_share());
    for (subject, mark) in reservation.0.iter().filter(|(of, _)| !of.kind.is_share()) {
        let own = vec![*mark];
        let marks = match share.filter(|_| subject.kind.share().is_some()) {
            // Only what is left of the share: each attempt is taken back once, or those of other accounts would be.
            Some((share, _)) => change(txn, limits, *share, now, |counter| take(counter, *mark))?,
            None => own,
        };
        change(txn, limits, *subject, now, |counter| {
            for mark in marks {
                counter.refund(limits.rule(subject.kind), mark, now);
            }
        })?;
    }
    Ok(())
}

/// Changes a counter, if a reset has not deleted it meanwhile.
fn change<T: Default>(
    txn: &mut Txn<'_>,
    limits: &AttemptLimits,
    subject: AttemptSubject,
    now: UnixSeconds,
    change: impl FnOnce(&mut AttemptCounter) -> T,
) -> Result<T, StoreError> {
    let Some(mut counter) = txn.get::<Throttles>(&subject.key())? else {
        return Ok(T::default());
    };
    let result = change(&mut counter);
    // Idle counters are deleted, so that successful logins leave no record.
    if counter.is_idle(limits.rule(subject.kind), now) {
        txn.delete::<Throttles>(&subject.key())?;
    } else {
        txn.put::<Throttles>(&subject.key(), &counter)?;
    }
    Ok(result)
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
