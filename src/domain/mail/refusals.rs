//! Tells a server that refuses everybody from one that refuses an address.
//!
//! A rejection names one recipient even if the reason is the server's: a daily limit, relaying denied, a blocked sender.
//! So several different recipients refused in a row, and none accepted between, are the server's state.

use std::collections::HashSet;

use super::tables::MailKey;
use playgate_ports::mailer::{SendError, ServerUnavailable};
use playgate_types::Email;

/// Different recipients in a row. Two bad addresses in a row happen; three hardly do, and then a test of a few mails costs
/// nothing.
const IN_A_ROW: usize = 3;
/// Bounds the mails that are remembered when one recipient is refused again and again.
const MAILS_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct Refusals {
    recipients: HashSet<Email>,
    /// Mails that were given up in this row.
    given_up: Vec<MailKey>,
}

impl Refusals {
    /// Turns a refusal into a failure of the server if it is one in a row, and ends the row with an accepted mail.
    pub(super) fn judge(
        &mut self,
        (key, to, attempts): (MailKey, &Email, u32),
        result: Result<String, SendError>,
    ) -> Result<String, SendError> {
        let (response, what, lasting) = match result {
            Err(SendError::Refused(response)) => (response, "refuses", true),
            // The first attempt is often deferred on purpose (greylisting).
            Err(SendError::Later(response)) if attempts > 0 => (response, "defers", false),
            Ok(response) => {
                *self = Self::default();
                return Ok(response);
            }
            other => return other,
        };
        if self.recipients.len() < IN_A_ROW {
            self.recipients.insert(to.clone());
        }
        if self.recipients.len() < IN_A_ROW {
            if !lasting {
                return Err(SendError::Later(response));
            }
            if self.given_up.len() < MAILS_MAX {
                self.given_up.push(key);
            }
            return Err(SendError::Refused(response));
        }
        // The reply often repeats the address, which must not be logged.
        let said = response.replace(to.as_str(), "(recipient)");
        Err(SendError::Unavailable(ServerUnavailable {
            response: format!("the mail server {what} every recipient: {said}"),
            lasting,
        }))
    }

    /// Takes the mails that were given up before the server's state was known.
    pub(super) fn take_given_up(&mut self) -> Vec<MailKey> {
        std::mem::take(&mut self.given_up)
    }
}
