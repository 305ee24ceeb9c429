//! POST users/import: many users from one body, a JSON object a line.
//!
//! The body is cut into pieces of whole lines. A piece is read on a cold thread while the piece before
//! it is committed, and memory holds no more than these two, whatever the length of the body. Batches
//! that are committed stay: an import that breaks off is run again and finds them existing.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::resolve;
use crate::app::App;
use crate::config::limits::USER_LINE;
use crate::domain::accounts::{
    Accounts, AccountsError, AddressesKnown, IdRange, NewAccount, Prepared, Unhashed,
};
use crate::domain::partners::Partners;
use crate::http::auth::OperatorAuth;
use crate::http::body::BodyStream;
use crate::http::context::Context;
use crate::http::endpoint::admin::system::PartnerRef;
use crate::http::endpoint::admin::users::{AddUserRequest, ImportUsersRequest};
use crate::http::error::{ApiError, Details, ImportProblem};
use crate::http::offload::cold;
use crate::http::reply::Reply;
use crate::http::strict_json::Object;
use crate::http::wire::users::UserImportReport;
use crate::http::worker_pool::JobError;
use crate::types::{PartnerId, UnixSeconds};

/// Bytes of lines that are read together: some 500 users with hashes.
const PIECE: usize = 128 * 1024;
/// Users of one commit, so that the commits of others wait for a few milliseconds at the most.
const COMMIT_USERS: usize = 500;
/// Rejected lines that the report names. The rest are counted.
const PROBLEMS: usize = 1_000;
/// After this many lines an import is worth collecting all addresses that are taken; and not before it
/// has an eighth as many lines as there are users, since those cost time too.
const KNOW_AFTER: u64 = 10_000;
/// How long an import waits for a place in the queue of hashes, before it asks again.
const HASH_RETRY: Duration = Duration::from_millis(200);

/// POST users/import.
///
/// # Errors
/// `PARTNER_NOT_FOUND` for the partner of the query; what ends the import early, with the report so far
/// in `details`.
pub async fn import_users(
    app: &App,
    cx: &Context,
    _auth: OperatorAuth,
    request: ImportUsersRequest,
) -> Result<Reply, ApiError> {
    if let Some(partner) = &request.partner {
        resolve::partner(app, partner)?;
    }
    let reader = Reader {
        accounts: app.accounts.clone(),
        partners: app.partners.clone(),
        partner: request.partner,
        now: cx.now,
    };
    let mut import = Import {
        app,
        reader: Arc::new(reader),
        report: UserImportReport::new(request.dry_run),
        known: None,
    };
    let mut lines = Lines::new(request.file);
    let outcome = import.run(&mut lines).await;
    let report = import.report;
    let counts = report.counts();
    // An empty file is the sign of an export that failed; a success without a user would hide it.
    if outcome.is_ok() && report.lines == 0 {
        return Err(ApiError::malformed(
            "the body is empty; send a JSON object a line",
        ));
    }
    match outcome {
        Ok(()) => {
            tracing::info!(request_id = %cx.request_id, counts, "users imported");
            Reply::counted(&counts, &report)
        }
        Err(error) => {
            tracing::warn!(
                request_id = %cx.request_id,
                counts,
                code = error.code().as_str(),
                "a user import ended early"
            );
            lines.body.drain().await;
            let report = serde_json::to_value(&report).map_err(ApiError::internal)?;
            Err(error.with_details(Details::Report(report)))
        }
    }
}

struct Import<'a> {
    app: &'a App,
    reader: Arc<Reader>,
    report: UserImportReport,
    known: Option<AddressesKnown>,
}

impl Import<'_> {
    async fn run(&mut self, lines: &mut Lines) -> Result<(), ApiError> {
        let mut ready = Vec::new();
        loop {
            let (added, batch) = tokio::join!(self.commit(ready), self.read(lines));
            let (added, existing) = added?;
            self.report.added += added;
            self.report.existing += existing;
            let Some(batch) = batch? else {
                return Ok(());
            };
            ready = self.accept(batch);
            self.know_addresses().await?;
        }
    }

    async fn know_addresses(&mut self) -> Result<(), ApiError> {
        let worth = KNOW_AFTER.max(count(self.app.accounts.count() / 8));
        if self.known.is_none() && !self.report.dry_run && self.report.lines >= worth {
            let accounts = self.app.accounts.clone();
            let known = cold(self.app, move || accounts.know_addresses());
            self.known = Some(known.await?);
        }
        Ok(())
    }

    /// Stores users; returns how many are new, and how many were there.
    async fn commit(&self, ready: Vec<NewAccount>) -> Result<(u64, u64), ApiError> {
        let all = count(ready.len());
        if self.report.dry_run {
            return Ok((all, 0));
        }
        let (mut added, mut ready) = (0, ready.into_iter());
        loop {
            let batch: Vec<_> = ready.by_ref().take(COMMIT_USERS).collect();
            if batch.is_empty() {
                return Ok((added, all - added));
            }
            added += self.app.accounts.add_many(batch).await?;
        }
    }

    async fn read(&self, lines: &mut Lines) -> Result<Option<Batch>, ApiError> {
        let Some(piece) = lines.next().await? else {
            return Ok(None);
        };
        let (reader, dry_run) = (Arc::clone(&self.reader), self.report.dry_run);
        let mut batch = cold(self.app, move || reader.read(&piece, dry_run)).await?;
        // Two at a time, so that an import leaves room in the pool for those who log in.
        let mut unhashed = std::mem::take(&mut batch.unhashed).into_iter();
        while let Some(first) = unhashed.next() {
            let second = async {
                match unhashed.next() {
                    Some(second) => self.hash(second).await.map(Some),
                    None => Ok(None),
                }
            };
            let (first, second) = tokio::join!(self.hash(first), second);
            batch.ready.push(first?);
            batch.ready.extend(second?);
        }
        Ok(Some(batch))
    }

    /// Hashes a password in the pool, and waits for a place there as long as it takes.
    async fn hash(&self, unhashed: Unhashed) -> Result<NewAccount, ApiError> {
        let waiting = Arc::new(Mutex::new(Some(unhashed)));
        loop {
            let (accounts, job) = (self.app.accounts.clone(), Arc::clone(&waiting));
            let queued = self.app.hashing.run(move |memory| {
                let unhashed = job.lock().take()?;
                Some(accounts.hash_password(unhashed, memory))
            });
            let hashed = match queued {
                Ok(queued) => queued.await,
                Err(_full) => Err(JobError::Shed),
            };
            match hashed {
                Ok(Some(hashed)) => return Ok(hashed?),
                Ok(None) | Err(JobError::Failed) => return Err(JobError::Failed.into()),
                Err(JobError::Shed) => sleep(HASH_RETRY).await,
            }
        }
    }

    /// Adds what was found in a piece to the report; returns who is to be stored.
    fn accept(&mut self, batch: Batch) -> Vec<NewAccount> {
        let report = &mut self.report;
        report.existing += batch.existing;
        report.rejected += count(batch.problems.len());
        let room = PROBLEMS.saturating_sub(report.failed.len());
        let numbered = batch.problems.into_iter().take(room);
        report.failed.extend(numbered.map(|(line, message)| {
            let line = Some(report.lines + line);
            ImportProblem { line, message }
        }));
        report.lines += batch.lines;
        batch.ready
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// What a piece of the body holds.
#[derive(Default)]
struct Batch {
    lines: u64,
    ready: Vec<NewAccount>,
    unhashed: Vec<Unhashed>,
    existing: u64,
    /// Lines, counted from 1 within the piece, and what is wrong with them.
    problems: Vec<(u64, String)>,
}

/// Reads lines, on a thread that may block.
struct Reader {
    accounts: Accounts,
    partners: Partners,
    partner: Option<PartnerRef>,
    now: UnixSeconds,
}

impl Reader {
    fn read(&self, piece: &[u8], dry_run: bool) -> Result<Batch, ApiError> {
        self.accounts.pace();
        let mut batch = Batch::default();
        // Most lines name the partner of the line before, or none.
        let mut last = None;
        let ids = self.accounts.id_range();
        for line in piece
            .strip_suffix(b"\n")
            .unwrap_or(piece)
            .split(|&b| b == b'\n')
        {
            batch.lines += 1;
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            match self.prepare(line, &ids, &mut last) {
                // A password that is there already costs no second hash.
                Ok(Prepared::Unhashed(user)) if self.is_there(user.address())? => {
                    batch.existing += 1;
                }
                Ok(Prepared::Ready(user)) if dry_run && self.is_there(user.address())? => {
                    batch.existing += 1;
                }
                Ok(Prepared::Unhashed(user)) if dry_run => {
                    batch.ready.push(user.without_password())
                }
                Ok(Prepared::Unhashed(user)) => batch.unhashed.push(user),
                Ok(Prepared::Ready(user)) => batch.ready.push(user),
                Err(error) => batch
                    .problems
                    .push((batch.lines, error.message().to_owned())),
            }
        }
        Ok(batch)
    }

    fn is_there(
        &self,
        (partner, email): (PartnerId, &crate::types::Email),
    ) -> Result<bool, AccountsError> {
        Ok(self.accounts.find(partner, email)?.is_some())
    }

    fn prepare(
        &self,
        line: &[u8],
        ids: &IdRange,
        last: &mut Option<(Option<PartnerRef>, PartnerId)>,
    ) -> Result<Prepared, ApiError> {
        if line.len() > USER_LINE {
            return Err(ApiError::malformed("the line has over 16 KiB"));
        }
        let (named, new, password) = AddUserRequest::read(&Object::read(line))?.into_parts();
        let partner = match last {
            Some((last, partner)) if *last == named => *partner,
            _ => {
                let meant = named.as_ref().or(self.partner.as_ref());
                let partner = resolve::partner_among(&self.partners, meant)?;
                last.insert((named, partner)).1
            }
        };
        let id = self.accounts.id_in(ids);
        let prepared = self.accounts.prepare(id, partner, new, password, self.now);
        prepared.map_err(ApiError::from)
    }
}

/// A body in pieces of whole lines.
struct Lines {
    body: BodyStream,
    pieces: Pieces,
    ended: bool,
}

impl Lines {
    fn new(body: BodyStream) -> Self {
        Self {
            body,
            pieces: Pieces::default(),
            ended: false,
        }
    }

    /// The next piece.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        while !self.ended {
            match self.body.chunk().await? {
                Some(bytes) => {
                    if let Some(piece) = self.pieces.add(&bytes) {
                        return Ok(Some(piece));
                    }
                }
                None => self.ended = true,
            }
        }
        Ok(self.pieces.rest())
    }
}

/// Cuts bytes into pieces that end with a line.
#[derive(Default)]
struct Pieces(Vec<u8>);

impl Pieces {
    /// Adds bytes; returns a piece once there is enough for one. The line that does not end in it waits
    /// for the next. Of a line that is too long only as much is kept as shows that it is.
    fn add(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.0.extend_from_slice(bytes);
        if self.0.len() < PIECE {
            return None;
        }
        let Some(end) = self.0.iter().rposition(|&byte| byte == b'\n') else {
            self.0.truncate(USER_LINE + 1);
            return None;
        };
        let rest = self.0.split_off(end + 1);
        Some(std::mem::replace(&mut self.0, rest))
    }

    /// What is left at the end.
    fn rest(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.0)).filter(|rest| !rest.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of the lines, and the most that was held at a time.
    fn cut(chunks: &[&[u8]]) -> (Vec<usize>, usize) {
        let (mut pieces, mut found, mut most) = (Pieces::default(), Vec::new(), 0);
        for chunk in chunks {
            found.extend(pieces.add(chunk));
            most = most.max(pieces.0.len());
        }
        found.extend(pieces.rest());
        let lines = found.iter().flat_map(|piece| {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            text.split(|&byte| byte == b'\n').map(<[u8]>::len)
        });
        (lines.collect(), most)
    }

    #[test]
    fn a_body_is_cut_at_the_ends_of_lines() {
        assert_eq!(cut(&[]).0, Vec::<usize>::new());
        assert_eq!(cut(&[b"ab\n\n", b"abc"]).0, [2, 0, 3]);
        let many = b"0123456789\n".repeat(PIECE);
        let chunks: Vec<&[u8]> = many.chunks(1_000).collect();
        let (lines, most) = cut(&chunks);
        assert_eq!(lines, vec![10; PIECE]);
        assert!(most < PIECE + 1_000);
    }

    #[test]
    fn a_line_that_is_too_long_is_not_held() {
        let long = vec![b'x'; 20 * PIECE];
        let mut chunks: Vec<&[u8]> = long.chunks(10_000).collect();
        chunks.push(b"\nab\n");
        let (lines, most) = cut(&chunks);
        assert!(lines[0] > USER_LINE, "{}", lines[0]);
        assert_eq!(lines[1..], [2]);
        assert!(most < PIECE + 10_000);
    }
}
