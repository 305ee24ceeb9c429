//! Handler of the bulk import of users: one JSON object per line.
//!
//! The body is cut into chunks of whole lines. A chunk is parsed on a worker thread while the
//! previous one is committed, so memory holds at most two chunks, however long the body is.
//! Committed batches persist: an import that was interrupted can be repeated and counts those users
//! as existing.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::resolve;
use crate::config::limits::USER_LINE;
use crate::domain::accounts::{
    Accounts, AccountsError, AddressFilterGuard, NewAccount, PreparedSignUp, Unhashed,
};
use crate::domain::partners::Partners;
use crate::http::access::auth::OperatorAuth;
use crate::http::errors::api_error::{ApiError, Details, ImportProblem};
use crate::http::offload::cold;
use crate::http::request::body::BodyStream;
use crate::http::request::context::Context;
use crate::http::request::strict_json::Object;
use crate::http::response::reply::Reply;
use crate::http::routing::endpoint::admin::partners::PartnerIdOrName;
use crate::http::routing::endpoint::admin::users::{AddUserRequest, ImportUsersRequest};
use crate::http::wire::users::UserImportReport;
use crate::services::Services;
use crate::types::{PartnerId, UnixSeconds};
use crate::worker_pool::pool::JobError;

/// Bytes per chunk: about 500 users with password hashes.
const CHUNK_BYTES: usize = 128 * 1024;
/// Users per commit. Small enough that other commits wait for a few milliseconds at most.
const COMMIT_USERS: usize = 500;
const PROBLEMS_MAX: usize = 1_000;
/// After this many lines, an import loads all e-mail addresses that are in use to save a lookup per
/// line. Loading costs time as well, so the import must also have an eighth as many lines as there
/// are users.
const LOAD_ADDRESSES_AFTER: u64 = 10_000;
/// Delay before an import retries when the queue of the hashing pool is full.
const HASH_RETRY: Duration = Duration::from_millis(200);

pub(crate) async fn import_users(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: ImportUsersRequest,
) -> Result<Reply, ApiError> {
    // Checked before the body is read: a typing error would otherwise be reported once for each line.
    if let Some(partner) = &request.partner {
        resolve::partner(services, partner)?;
    }
    let reader = UserReader {
        accounts: services.accounts.clone(),
        partners: services.partners.clone(),
        partner: request.partner,
        now: cx.now,
    };
    let mut import = UserImport {
        services,
        reader: Arc::new(reader),
        report: UserImportReport::new(request.dry_run),
        known: None,
    };
    let mut lines = UserLines::new(request.file);
    let _bulk = (!request.dry_run).then(|| services.accounts.bulk_writes());
    let outcome = import.run(&mut lines).await;
    let report = import.report;
    let counts = report.counts();
    // An empty file usually means that the export failed; a success with no users would hide that.
    if outcome.is_ok() && report.lines == 0 {
        return Err(ApiError::malformed(
            "the body is empty; send one JSON object per line",
        ));
    }
    match outcome {
        Ok(()) => {
            tracing::info!(request_id = %cx.request_id, counts, "imported users");
            Reply::counted(&counts, &report)
        }
        Err(error) => {
            tracing::warn!(
                request_id = %cx.request_id,
                counts,
                code = error.code().as_str(),
                "user import ended early"
            );
            // The client is still sending; a reset would hide the report from it.
            lines.body.drain().await;
            let report = serde_json::to_value(&report).map_err(ApiError::internal)?;
            Err(error.with_details(Details::Report(report)))
        }
    }
}

struct UserImport<'a> {
    services: &'a Services,
    reader: Arc<UserReader>,
    report: UserImportReport,
    known: Option<AddressFilterGuard>,
}

impl UserImport<'_> {
    async fn run(&mut self, lines: &mut UserLines) -> Result<(), ApiError> {
        let mut ready = Vec::new();
        loop {
            // While one batch waits for its commit, the next is read and hashed.
            let (added, batch) = tokio::join!(self.commit(ready), self.read(lines));
            let (added, existing) = added?;
            self.report.added += added;
            self.report.existing += existing;
            let Some(batch) = batch? else {
                return Ok(());
            };
            ready = self.accept(batch);
            self.load_addresses().await?;
        }
    }

    async fn load_addresses(&mut self) -> Result<(), ApiError> {
        // Loading costs a scan of all addresses, which pays only against that many single reads.
        let worth = LOAD_ADDRESSES_AFTER.max(count(self.services.accounts.count() / 8));
        if self.known.is_none() && !self.report.dry_run && self.report.lines >= worth {
            let accounts = self.services.accounts.clone();
            let known = cold(self.services, move || accounts.collect_addresses());
            self.known = Some(known.await?);
        }
        Ok(())
    }

    async fn commit(&self, ready: Vec<NewAccount>) -> Result<(u64, u64), ApiError> {
        let all = count(ready.len());
        if self.report.dry_run {
            // A dry run has counted the existing users when it read the lines.
            return Ok((all, 0));
        }
        let (mut added, mut ready) = (0, ready.into_iter());
        loop {
            // Small commits, so that a commit of a viewer waits for at most one of them.
            let batch: Vec<_> = ready.by_ref().take(COMMIT_USERS).collect();
            if batch.is_empty() {
                return Ok((added, all - added));
            }
            added += self.services.accounts.add_many(batch).await?;
        }
    }

    async fn read(&self, lines: &mut UserLines) -> Result<Option<UserBatch>, ApiError> {
        let Some(chunk) = lines.next().await? else {
            return Ok(None);
        };
        let (reader, dry_run) = (Arc::clone(&self.reader), self.report.dry_run);
        let mut batch = {
            let _turn = self.services.turns.import_reads.lock().await;
            cold(self.services, move || reader.read(&chunk, dry_run)).await?
        };
        // Only two at a time, to leave room in the pool for users who log in.
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

    /// Hashes a password in the pool. Waits for a free slot without a time limit.
    async fn hash(&self, unhashed: Unhashed) -> Result<NewAccount, ApiError> {
        // Shared with the job: a job that the queue sheds must not take the password with it.
        let waiting = Arc::new(Mutex::new(Some(unhashed)));
        loop {
            let (accounts, job) = (self.services.accounts.clone(), Arc::clone(&waiting));
            let queued = self.services.hashing.run(move |memory| {
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
                // The pool is full of logins, which come first. The import waits as long as it takes, within its
                // deadline.
                Err(JobError::Shed) => sleep(HASH_RETRY).await,
            }
        }
    }

    fn accept(&mut self, batch: UserBatch) -> Vec<NewAccount> {
        let report = &mut self.report;
        report.existing += batch.existing;
        report.rejected += count(batch.problems.len());
        // The report names that many; the number of rejected lines is complete.
        let room = PROBLEMS_MAX.saturating_sub(report.failed.len());
        let numbered = batch.problems.into_iter().take(room);
        report.failed.extend(numbered.map(|(line, message)| {
            // The batch counts its lines from 1.
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

#[derive(Default)]
struct UserBatch {
    lines: u64,
    ready: Vec<NewAccount>,
    unhashed: Vec<Unhashed>,
    existing: u64,
    problems: Vec<(u64, String)>,
}

struct UserReader {
    accounts: Accounts,
    partners: Partners,
    partner: Option<PartnerIdOrName>,
    now: UnixSeconds,
}

impl UserReader {
    fn read(&self, chunk: &[u8], dry_run: bool) -> Result<UserBatch, ApiError> {
        // Waits while the store lags behind, so that an import does not delay the commits of others.
        self.accounts.pace();
        let mut batch = UserBatch::default();
        // Most lines name the partner of the previous line, or none: cache the last lookup.
        let mut last = None;
        for line in chunk
            .strip_suffix(b"\n")
            .unwrap_or(chunk)
            .split(|&b| b == b'\n')
        {
            batch.lines += 1;
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            match self.prepare(line, &mut last) {
                // Checked first, to save the hash of a password that would not be stored.
                Ok(PreparedSignUp::Unhashed(user)) if self.exists(user.address())? => {
                    batch.existing += 1;
                }
                // In a real import, the commit finds those that exist.
                Ok(PreparedSignUp::Ready(user)) if dry_run && self.exists(user.address())? => {
                    batch.existing += 1;
                }
                // A dry run must not cost a hash for each line.
                Ok(PreparedSignUp::Unhashed(user)) if dry_run => {
                    batch.ready.push(user.without_password())
                }
                Ok(PreparedSignUp::Unhashed(user)) => batch.unhashed.push(user),
                Ok(PreparedSignUp::Ready(user)) => batch.ready.push(user),
                Err(error) => batch
                    .problems
                    .push((batch.lines, error.message().to_owned())),
            }
        }
        Ok(batch)
    }

    fn exists(
        &self,
        (partner, email): (PartnerId, &crate::types::Email),
    ) -> Result<bool, AccountsError> {
        Ok(self.accounts.find(partner, email)?.is_some())
    }

    fn prepare(
        &self,
        line: &[u8],
        last: &mut Option<(Option<PartnerIdOrName>, PartnerId)>,
    ) -> Result<PreparedSignUp, ApiError> {
        if line.len() > USER_LINE {
            return Err(ApiError::malformed("the line is longer than 16 KiB"));
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
        let prepared = self.accounts.prepare(partner, new, password, self.now);
        prepared.map_err(ApiError::from)
    }
}

struct UserLines {
    body: BodyStream,
    chunker: Chunker,
    ended: bool,
}

impl UserLines {
    fn new(body: BodyStream) -> Self {
        Self {
            body,
            chunker: Chunker::default(),
            ended: false,
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        while !self.ended {
            match self.body.chunk().await? {
                Some(bytes) => {
                    if let Some(chunk) = self.chunker.add(&bytes) {
                        return Ok(Some(chunk));
                    }
                }
                None => self.ended = true,
            }
        }
        Ok(self.chunker.finish())
    }
}

#[derive(Default)]
struct Chunker(Vec<u8>);

impl Chunker {
    /// Adds bytes and returns a chunk as soon as there is enough for one. An incomplete last line
    /// stays for the next chunk.
    ///
    /// Of an overlong line, only as many bytes are kept as prove that it is too long.
    fn add(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.0.extend_from_slice(bytes);
        if self.0.len() < CHUNK_BYTES {
            return None;
        }
        let Some(end) = self.0.iter().rposition(|&byte| byte == b'\n') else {
            // A line without end must not grow in memory. What is left proves that it is too long.
            self.0.truncate(USER_LINE + 1);
            return None;
        };
        let rest = self.0.split_off(end + 1);
        Some(std::mem::replace(&mut self.0, rest))
    }

    fn finish(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.0)).filter(|rest| !rest.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lengths of the lines, and the highest number of bytes held at a time.
    fn cut(chunks: &[&[u8]]) -> (Vec<usize>, usize) {
        let (mut chunker, mut found, mut most) = (Chunker::default(), Vec::new(), 0);
        for chunk in chunks {
            found.extend(chunker.add(chunk));
            most = most.max(chunker.0.len());
        }
        found.extend(chunker.finish());
        let lines = found.iter().flat_map(|chunk| {
            let text = chunk.strip_suffix(b"\n").unwrap_or(chunk);
            text.split(|&byte| byte == b'\n').map(<[u8]>::len)
        });
        (lines.collect(), most)
    }

    #[test]
    fn chunks_end_at_line_ends() {
        assert_eq!(cut(&[]).0, Vec::<usize>::new());
        assert_eq!(cut(&[b"ab\n\n", b"abc"]).0, [2, 0, 3]);
        let many = b"0123456789\n".repeat(CHUNK_BYTES);
        let chunks: Vec<&[u8]> = many.chunks(1_000).collect();
        let (lines, most) = cut(&chunks);
        assert_eq!(lines, vec![10; CHUNK_BYTES]);
        assert!(most < CHUNK_BYTES + 1_000);
    }

    #[test]
    fn overlong_line_is_not_buffered() {
        let long = vec![b'x'; 20 * CHUNK_BYTES];
        let mut chunks: Vec<&[u8]> = long.chunks(10_000).collect();
        chunks.push(b"\nab\n");
        let (lines, most) = cut(&chunks);
        assert!(lines[0] > USER_LINE, "{}", lines[0]);
        assert_eq!(lines[1..], [2]);
        assert!(most < CHUNK_BYTES + 10_000);
    }
}
