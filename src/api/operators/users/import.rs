//! The bulk import of users: one JSON object per line.
//!
//! The body is cut into chunks of whole lines. A chunk is parsed on a worker thread while the
//! previous one is committed, so memory holds at most two chunks, however long the body is.
//! Committed batches persist: an import that was interrupted can be repeated and counts those users
//! as existing.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use crate::operators::users::answer::{ReportedLine, UserImportBody};
use crate::operators::users::line::{UnknownMembers, UserLine};
use crate::operators::users::lines::UserLines;
use crate::operators::users::request::ImportUsersRequest;
use playgate_config::limits::USER_LINE;
use playgate_domain::accounts::{Accounts, AddressWatch, NewAccount, PreparedSignUp, Unhashed};
use playgate_domain::catalog::Catalog;
use playgate_domain::partners::Partners;
use playgate_http::errors::api_error::Details;
use playgate_http::offload::cold;
use playgate_http::routing::resolve;
use playgate_http::{ApiError, Context, Object, OperatorAuth, PartnerIdOrName, Reply};
use playgate_process::JobError;
use playgate_services::Services;
use playgate_types::{Email, OfferId, OperatorId, PartnerId, UnixSeconds};

crate::openapi::words::words! { => r##"
[requests.ImportedUser]
"..." = "NewUser"
offers = "[string]?: Ids of offers that the user gets, until their duration ends."

[operations.admin_import_users]
summary = "Import users"
text = '''
The body has one JSON object per line, with the members of `NewUser`. It is read as it arrives and stored in batches of some hundred users. An empty body is an error.

- A faulty line is rejected with its number; the other lines are imported.
- A line with an unknown member is rejected, with the name that was probably meant. With `ignoreUnknown` such members are left out and noted.
- A name that cannot be shown is cleaned and noted; it never costs the account.
- A line whose user exists is counted and changes nothing, so an interrupted import can be run again.
- If the import ends early, the error has the report so far in `details`.
- Password hashes are stored as sent. A plain password must be hashed here, at about fifty per second and core.
- The audit record gets one entry with the counts.'''
query.partner = "Partner?: Partner of the users on lines that name none."
query.dryRun = "Flag?: Reports who would be added and adds nobody."
query.ignoreUnknown = "Flag?: Leaves out unknown members of lines instead of rejecting the lines."
send = { text = "The users, one JSON object per line.", media = ["application/x-ndjson"], of = "ImportedUser", example = '''
{"email": "ann@example.com", "password": "troll under the bridge", "name": "Ann"}
{"email": "ben@example.com", "country": "SE"}
''' }
returns."200" = "UserImport: The import report."
errors = ["PARTNER_NOT_FOUND"]
"## }

/// Users per commit. Small enough that other commits wait for a few milliseconds at most.
const COMMIT_USERS: usize = 500;

const PROBLEMS_MAX: usize = 1_000;

/// Addresses of a file that are remembered to name those that occur twice: about 32 MiB.
const SEEN_MAX: usize = 1_000_000;

/// Characters of an address in a report.
const ACCOUNT_MAX: usize = 254;

/// After this many lines, an import collects all e-mail addresses that are in use to save a lookup per
/// line. That costs time as well, so the import must also have an eighth as many lines as there
/// are users.
const COLLECT_ADDRESSES_AFTER: u64 = 10_000;

/// Delay before an import retries when the queue of the hashing pool is full.
const HASH_RETRY: Duration = Duration::from_millis(200);

pub(crate) async fn import_users(
    services: &Services,
    cx: &Context,
    auth: OperatorAuth,
    request: ImportUsersRequest,
) -> Result<Reply, ApiError> {
    // Checked before the body is read: a typing error would otherwise be reported once for each line.
    if let Some(partner) = &request.partner {
        resolve::partner(services, partner)?;
    }
    let reader = UserReader {
        accounts: services.accounts.clone(),
        partners: services.partners.clone(),
        catalog: services.catalog.clone(),
        partner: request.partner,
        unknown: request.unknown,
        seen: Mutex::default(),
        now: cx.now,
    };
    let mut import = UserImport {
        services,
        reader: Arc::new(reader),
        report: UserImportBody::new(request.dry_run),
        by: auth.operator(),
        now: cx.now,
        watch: None,
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
    report: UserImportBody,
    by: Option<OperatorId>,
    now: UnixSeconds,
    /// `None` in a dry run.
    watch: Option<Arc<AddressWatch>>,
}

impl UserImport<'_> {
    async fn run(&mut self, lines: &mut UserLines) -> Result<(), ApiError> {
        if !self.report.dry_run {
            let accounts = self.services.accounts.clone();
            self.watch = Some(cold(self.services, move || accounts.watch_addresses()).await?);
        }
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
            self.collect_addresses().await?;
        }
    }

    async fn collect_addresses(&mut self) -> Result<(), ApiError> {
        // This costs a scan of all addresses, which pays only against that many single reads.
        let worth = COLLECT_ADDRESSES_AFTER.max(count(self.services.accounts.count() / 8));
        if let Some(watch) = &self.watch
            && self.report.lines >= worth
            && !watch.has_all_addresses()
        {
            let watch = Arc::clone(watch);
            cold(self.services, move || watch.collect()).await?;
        }
        Ok(())
    }

    async fn commit(&self, ready: Vec<ReadUser<NewAccount>>) -> Result<(u64, u64), ApiError> {
        let all = count(ready.len());
        let Some(watch) = &self.watch else {
            return Ok((all, 0));
        };
        let (mut added, mut ready) = (0, ready.into_iter());
        loop {
            // Small commits, so that a commit of a viewer waits for at most one of them.
            let batch = ready.by_ref().take(COMMIT_USERS);
            let (batch, offers): (Vec<_>, Vec<_>) =
                batch.map(|user| (user.account, user.offers)).unzip();
            if batch.is_empty() {
                return Ok((added, all - added));
            }
            let grants = &self.services.grants;
            let also = grants.for_new_users(offers, self.by, self.now);
            added += self
                .services
                .accounts
                .add_many(batch, also, Arc::clone(watch))
                .await?;
        }
    }

    async fn read(&self, lines: &mut UserLines) -> Result<Option<UserBatch>, ApiError> {
        let Some(chunk) = lines.next().await? else {
            return Ok(None);
        };
        let (reader, dry_run) = (Arc::clone(&self.reader), self.report.dry_run);
        let before = self.report.lines;
        let mut batch = {
            let _turn = self.services.turns.import_reads.lock().await;
            cold(self.services, move || reader.read(&chunk, before, dry_run)).await?
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
    async fn hash(&self, user: ReadUser<Unhashed>) -> Result<ReadUser<NewAccount>, ApiError> {
        let ReadUser { account, offers } = user;
        let account = self.hash_account(account).await?;
        Ok(ReadUser { account, offers })
    }

    async fn hash_account(&self, unhashed: Unhashed) -> Result<NewAccount, ApiError> {
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

    fn accept(&mut self, batch: UserBatch) -> Vec<ReadUser<NewAccount>> {
        let report = &mut self.report;
        report.existing += batch.existing;
        report.rejected += count(batch.problems.len());
        report.noted += count(batch.notes.len());
        // The report names that many; the numbers are complete.
        for (lines, found) in [
            (&mut report.failed, batch.problems),
            (&mut report.notes, batch.notes),
        ] {
            let room = PROBLEMS_MAX.saturating_sub(lines.len());
            lines.extend(found.into_iter().take(room));
        }
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
    ready: Vec<ReadUser<NewAccount>>,
    unhashed: Vec<ReadUser<Unhashed>>,
    existing: u64,
    problems: Vec<ReportedLine>,
    notes: Vec<ReportedLine>,
}

struct ReadUser<A> {
    account: A,
    offers: Vec<OfferId>,
}

struct UserReader {
    accounts: Accounts,
    partners: Partners,
    catalog: Catalog,
    partner: Option<PartnerIdOrName>,
    unknown: UnknownMembers,
    /// The lines of the addresses so far, by hash.
    seen: Mutex<HashMap<u64, u64, RandomState>>,
    now: UnixSeconds,
}

/// A line of an array with one user a line, without the brackets and commas of the array.
fn without_array(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b",").unwrap_or(line);
    if matches!(line, b"[" | b"]") {
        return &[];
    }
    let inner = line.strip_prefix(b"[").unwrap_or(line).trim_ascii_start();
    match inner.first() {
        Some(b'{') => inner.strip_suffix(b"]").unwrap_or(inner).trim_ascii_end(),
        // No user, such as an empty array: it is refused as it stands.
        _ => line,
    }
}

impl UserReader {
    /// `before` is the number of lines before the chunk.
    fn read(&self, chunk: &[u8], before: u64, dry_run: bool) -> Result<UserBatch, ApiError> {
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
            let line = without_array(line.trim_ascii());
            if line.is_empty() {
                continue;
            }
            self.read_line(line, before, dry_run, &mut last, &mut batch)?;
        }
        Ok(batch)
    }

    fn read_line(
        &self,
        line: &[u8],
        before: u64,
        dry_run: bool,
        last: &mut Option<(Option<PartnerIdOrName>, PartnerId)>,
        batch: &mut UserBatch,
    ) -> Result<(), ApiError> {
        let number = before + batch.lines;
        let body = Object::read(if line.len() > USER_LINE { b"" } else { line });
        let account = body.text("email").ok().flatten();
        let account = account.map(|email| email.chars().take(ACCOUNT_MAX).collect::<String>());
        let reported = |message: String| ReportedLine {
            line: number,
            account: account.clone(),
            message,
        };
        let (prepared, offers, notes) = match self.prepare(line, &body, last) {
            Ok(prepared) => prepared,
            Err(error) => {
                batch.problems.push(reported(error.message().to_owned()));
                return Ok(());
            }
        };
        batch.notes.extend(notes.into_iter().map(reported));
        let earlier = self.earlier_line(prepared.address(), number);
        if let Some(earlier) = earlier {
            let email = prepared.address().1;
            batch.notes.push(reported(format!(
                "has the address {email} of line {earlier}; that line's user is kept"
            )));
        }
        // Here and not by the commit, which would make every other commit wait for the reads, and before a password is
        // hashed that would not be stored.
        let (partner, email) = prepared.address();
        if earlier.is_some() || self.accounts.is_taken(partner, email)? {
            batch.existing += 1;
            return Ok(());
        }
        match prepared {
            // A dry run must not cost a hash for each line.
            PreparedSignUp::Unhashed(user) if dry_run => {
                let account = user.without_password();
                batch.ready.push(ReadUser { account, offers });
            }
            PreparedSignUp::Unhashed(account) => batch.unhashed.push(ReadUser { account, offers }),
            PreparedSignUp::Ready(account) => batch.ready.push(ReadUser { account, offers }),
        }
        Ok(())
    }

    /// Returns the line that has the same address, and remembers this one.
    fn earlier_line(&self, address: (PartnerId, &Email), line: u64) -> Option<u64> {
        let mut seen = self.seen.lock();
        let hash = seen.hasher().hash_one(address);
        if let Some(earlier) = seen.get(&hash) {
            return Some(*earlier);
        }
        if seen.len() < SEEN_MAX {
            seen.insert(hash, line);
        }
        None
    }

    fn prepare(
        &self,
        line: &[u8],
        body: &Object,
        last: &mut Option<(Option<PartnerIdOrName>, PartnerId)>,
    ) -> Result<(PreparedSignUp, Vec<OfferId>, Vec<String>), ApiError> {
        if line.len() > USER_LINE {
            return Err(ApiError::malformed("the line is longer than 16 KiB"));
        }
        let UserLine {
            user,
            offers,
            notes,
        } = UserLine::read(body, self.unknown)?;
        let (named, new, password, state) = user.into_parts();
        let catalog = self.catalog.snapshot();
        if let Some(unknown) = offers.iter().find(|offer| catalog.offer(offer).is_none()) {
            return Err(body.refuse("offers", format!("the catalogue has no offer {unknown}")));
        }
        let partner = match last {
            Some((last, partner)) if *last == named => *partner,
            _ => {
                let meant = named.as_ref().or(self.partner.as_ref());
                let partner = resolve::partner_among(&self.partners, meant)?;
                last.insert((named, partner)).1
            }
        };
        let accounts = &self.accounts;
        let prepared = accounts.prepare_imported(partner, new, password, state, self.now)?;
        Ok((prepared, offers, notes))
    }
}
