//! `playgate user`: manages users.

mod devices;
mod import;
mod named_user;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::explain_output::{self, WhyQuestion};
use super::store::note_aside;
use crate::client::time_arg::instant;
use crate::client::{Admin, path, read_secret, with_query};
use crate::global::Global;
use crate::output::{self, CommandResult, Failure};
use named_user::NamedUser;

/// Users of the partners
#[derive(Subcommand)]
pub(crate) enum UserCommand {
    /// Create a user
    Add(AddUser),
    /// Create users from a file with one JSON object per line, or an export of another service; members: email, password or passwordHash,
    /// name, country, locale, birthDate, disabled, parentalControl, tags, createdTimestamp, offers, partner
    ///
    /// passwordHash takes a hash from another service: argon2, bcrypt, scrypt or PBKDF2 in their usual
    /// formats, or as Django, Werkzeug, Spring Security and ASP.NET write them. The user keeps the same password;
    /// the first login replaces the hash. A user with neither must reset the password. Invalid lines, and lines
    /// with an unknown member, are reported by number and address and do not stop the import. Names that cannot be
    /// shown are cleaned and reported. Users are stored in batches, so an interrupted import can be repeated:
    /// existing users are counted and not changed. createdTimestamp is in Unix seconds or milliseconds, offers a
    /// list of ids.
    ///
    /// With --from, the file is an export of another service. Users keep their passwords where the export
    /// has them. Disabled accounts stay disabled. Hashes of unknown kinds are left out, with their lines.
    Import(import::ImportCommand),
    /// Change a user
    Change(ChangeUser),
    /// List users
    List {
        #[command(flatten)]
        filter: UserFilter,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Show a user
    Show(NamedUser),
    /// Disable a user's account: all logins end and new ones are rejected; data is kept
    Disable(NamedUser),
    /// Enable a disabled account
    Enable(NamedUser),
    /// Remove a user and all data about them
    Remove {
        #[command(flatten)]
        user: NamedUser,
        /// Skip the confirmation; required without a terminal
        #[arg(long)]
        yes: bool,
    },
    /// List the offers granted to a user, and those granted to all users
    Offers(NamedUser),
    /// Grant an offer to a user
    Grant {
        #[command(flatten)]
        user: NamedUser,
        /// Offer id
        offer: String,
        /// Expiry: a date such as 2027-01-31 (from 00:00 UTC), a time such as 2027-01-31T18:00:00Z, or Unix
        /// seconds [default: as the offer defines]
        #[arg(long, value_name = "TIME", value_parser = instant)]
        expiry: Option<i64>,
    },
    /// Revoke an offer from a user
    Revoke {
        #[command(flatten)]
        user: NamedUser,
        /// Offer id
        offer: String,
    },
    /// List a user's login sessions
    Sessions(NamedUser),
    /// List a user's devices, or remove one; playback on it ends
    Devices {
        #[command(flatten)]
        user: NamedUser,
        /// Device to remove: an id from the list
        #[arg(long, value_name = "ID", allow_hyphen_values = true)]
        remove: Option<String>,
    },
    /// List a user's running streams, or end one
    Streams {
        #[command(flatten)]
        user: NamedUser,
        /// Stream to end: an id from the list
        #[arg(long, value_name = "ID", allow_hyphen_values = true)]
        end: Option<String>,
    },
    /// List who watches: the oldest 1,000 running streams, of all users
    Watching {
        /// Only streams of this livestream, catch-up broadcast or video: its id
        asset: Option<String>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// End all login sessions of a user, including running players
    Logout(NamedUser),
    /// Set a user's PIN; without --pin-file a new random PIN is mailed
    Pin {
        #[command(flatten)]
        user: NamedUser,
        /// File with the PIN, `-` for standard input
        #[arg(long, value_name = "FILE")]
        pin_file: Option<PathBuf>,
    },
    /// Mail a user a link to choose a password
    Reset(NamedUser),
    /// Explain step by step why a user may or may not play an asset: offers, rights, PIN, devices, streams, playlist
    Why {
        #[command(flatten)]
        user: NamedUser,
        #[command(flatten)]
        question: WhyQuestion,
    },
}

#[derive(Args)]
pub(crate) struct UserFilter {
    /// Only users of this partner: id or name
    #[arg(long)]
    partner: Option<String>,
    /// Only users whose address or name contains this text, or with this id
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Only users of this country, such as SE
    #[arg(long)]
    country: Option<String>,
    /// Only users with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only users whose account is in this state
    #[arg(long, value_parser = ["active", "disabled"])]
    state: Option<String>,
    /// Maximum number of users [default: all]
    #[arg(long)]
    limit: Option<usize>,
}

#[derive(Args)]
pub(crate) struct AddUser {
    /// E-mail address
    email: String,
    /// Partner (id or name); not needed if there is only one partner
    #[arg(long)]
    partner: Option<String>,
    /// File with the password, `-` for standard input; without it the user must reset the password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    facts: UserAttributes,
    /// Print {"userId"}
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct UserAttributes {
    /// Name
    #[arg(long)]
    name: Option<String>,
    /// Country, such as SE
    #[arg(long)]
    country: Option<String>,
    /// Language of mails and messages, such as sv
    #[arg(long)]
    locale: Option<String>,
    /// Date of birth, as YYYY-MM-DD
    #[arg(long, value_name = "DATE")]
    birth_date: Option<String>,
}

impl UserAttributes {
    fn body(self) -> Map<String, Value> {
        let texts = [
            ("name", self.name),
            ("country", self.country),
            ("locale", self.locale),
            ("birthDate", self.birth_date),
        ];
        let given =
            |(member, text): (&str, Option<String>)| Some((member.to_owned(), text?.into()));
        texts.into_iter().filter_map(given).collect()
    }
}

#[derive(Args)]
pub(crate) struct ChangeUser {
    #[command(flatten)]
    user: NamedUser,
    #[command(flatten)]
    facts: UserAttributes,
    /// Another e-mail address; both addresses get a notice, and pending reset links end
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// All tags, separated by commas; an empty value removes all
    #[arg(long, value_name = "TAGS")]
    tags: Option<String>,
    /// Parental control
    #[arg(long, value_name = "on|off", value_parser = ["on", "off"])]
    parental: Option<String>,
    /// Age limit of parental control
    #[arg(long, value_name = "AGE")]
    parental_limit: Option<u8>,
}

const OFFERS: [output::Column; 5] = [
    ("OFFER", "offerId"),
    ("TYPE", "type"),
    ("STATE", "state"),
    ("SINCE", "purchasedAt"),
    ("EXPIRES", "expiry"),
];

pub(crate) async fn run(command: UserCommand, global: &Global) -> CommandResult {
    let mut admin = global.admin().await?;
    match command {
        UserCommand::Add(new) => add(&mut admin, new).await,
        UserCommand::Import(command) => import::run(&mut admin, &command).await,
        UserCommand::Change(changed) => change(&mut admin, changed).await,
        UserCommand::List { filter, json } => {
            let users = all(&mut admin, &filter).await?;
            let columns = [("ID", "userId"), ("E-MAIL", "email"), ("NAME", "name")];
            output::list(&users, &columns, json)
        }
        UserCommand::Show(user) => output::record(&admin.get(&user.path(&[])).await?, user.json),
        UserCommand::Disable(user) => set_disabled(&mut admin, &user, true).await,
        UserCommand::Enable(user) => set_disabled(&mut admin, &user, false).await,
        UserCommand::Remove { user, yes } => {
            remove(&mut admin, &user, yes).await?;
            note_aside(global);
            Ok(())
        }
        UserCommand::Offers(user) => {
            let offers = admin.get(&user.path(&["grants"])).await?;
            output::list(&offers, &OFFERS, user.json)
        }
        UserCommand::Grant {
            user,
            offer,
            expiry,
        } => {
            let body = expiry.map_or_else(|| json!({}), |expiry| json!({"expiry": expiry}));
            let grant = user.path(&["grants", &offer]);
            admin.put(&grant, &body).await?;
            let report = json!({"result": "granted", "user": user.user, "offer": offer});
            output::done(&format!("{} has {offer}", user.user), &report, user.json)
        }
        UserCommand::Revoke { user, offer } => {
            let grant = user.path(&["grants", &offer]);
            admin.delete(&grant).await?;
            let report = json!({"result": "revoked", "user": user.user, "offer": offer});
            let note = format!("{} no longer has {offer}", user.user);
            output::done(&note, &report, user.json)
        }
        UserCommand::Sessions(user) => devices::logins(&mut admin, &user).await,
        UserCommand::Devices { user, remove } => {
            devices::devices(&mut admin, &user, remove.as_deref()).await
        }
        UserCommand::Streams { user, end } => {
            devices::streams(&mut admin, &user, end.as_deref()).await
        }
        UserCommand::Watching { asset, json } => {
            devices::watching(&mut admin, asset.as_deref(), json).await
        }
        UserCommand::Logout(user) => {
            let logout = user.path(&["logout"]);
            admin.post(&logout, None).await?;
            user.done(
                "logged out",
                &format!("{} is logged out everywhere", user.user),
            )
        }
        UserCommand::Reset(user) => {
            let target = user.path(&["reset-mail"]);
            admin.post(&target, None).await?;
            user.done(
                "mailed",
                &format!(
                    "reset link for {} queued as mail: see `playgate mail list`",
                    user.user
                ),
            )
        }
        UserCommand::Pin { user, pin_file } => pin(&mut admin, &user, pin_file.as_deref()).await,
        UserCommand::Why { user, question } => {
            let target = user.path(&["why", &question.asset]);
            explain_output::why(&mut admin, target, &question, user.json).await
        }
    }
}

async fn remove(admin: &mut Admin, user: &NamedUser, yes: bool) -> CommandResult {
    let what = format!("removes {} and all data about them", user.user);
    output::confirm_removal(yes, &what)?;
    admin.delete(&user.path(&[])).await?;
    user.done("removed", &format!("removed {}", user.user))
}

async fn all(admin: &mut Admin, filter: &UserFilter) -> Result<Value, Failure> {
    let mut users = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let parameters = [
            ("partner", filter.partner.as_deref()),
            ("search", filter.search.as_deref()),
            ("country", filter.country.as_deref()),
            ("tag", filter.tag.as_deref()),
            ("state", filter.state.as_deref()),
            ("after", after.as_deref()),
        ];
        let page = admin
            .get(&with_query(path(&["users"]), &parameters))
            .await?;
        let Value::Array(page) = page else {
            return Err(Failure::failed(
                "the server answered with something else than a list of users",
            ));
        };
        let last = page.last().and_then(|user| user.get("userId")?.as_str());
        // The page after the last user is empty.
        let enough = filter
            .limit
            .is_some_and(|limit| users.len() + page.len() >= limit);
        after = last.map(str::to_owned);
        users.extend(page);
        if after.is_none() || enough {
            users.truncate(filter.limit.unwrap_or(usize::MAX));
            return Ok(Value::Array(users));
        }
    }
}

async fn add(admin: &mut Admin, new: AddUser) -> CommandResult {
    let mut body = new.facts.body();
    body.insert("email".to_owned(), new.email.into());
    if let Some(partner) = new.partner {
        body.insert("partner".to_owned(), partner.into());
    }
    if let Some(file) = &new.password_file {
        body.insert("password".to_owned(), read_secret::read(file)?.into());
    }
    let made = admin
        .post(&path(&["users"]), Some(&Value::Object(body)))
        .await?;
    output::record(&made, new.json)?;
    if new.password_file.is_none() {
        let id = output::text(&made, "userId");
        output::print_note(&format!(
            "no password yet: `playgate user reset {id}` mails a link to choose one"
        ));
    }
    Ok(())
}

async fn change(admin: &mut Admin, change: ChangeUser) -> CommandResult {
    let mut body = change.facts.body();
    if let Some(email) = change.email {
        body.insert("email".to_owned(), email.into());
    }
    if let Some(tags) = &change.tags {
        let tags: Vec<&str> = tags
            .split(',')
            .map(str::trim)
            .filter(|tag| !tag.is_empty())
            .collect();
        body.insert("tags".to_owned(), json!(tags));
    }
    let mut parental = Map::new();
    if let Some(switch) = change.parental {
        parental.insert("enabled".to_owned(), json!(switch == "on"));
    }
    if let Some(limit) = change.parental_limit {
        parental.insert("limit".to_owned(), json!(limit));
    }
    if !parental.is_empty() {
        body.insert("parentalControl".to_owned(), Value::Object(parental));
    }
    if body.is_empty() {
        return Err(Failure::usage(
            "nothing to change: pass at least one option",
        ));
    }
    let changed = admin
        .put(&change.user.path(&[]), &Value::Object(body))
        .await?;
    output::record(&changed, change.user.json)
}

async fn set_disabled(admin: &mut Admin, user: &NamedUser, disabled: bool) -> CommandResult {
    let body = json!({"disabled": disabled});
    admin.put(&user.path(&[]), &body).await?;
    let result = if disabled { "disabled" } else { "enabled" };
    user.done(result, &format!("{result} {}", user.user))
}

async fn pin(admin: &mut Admin, user: &NamedUser, file: Option<&Path>) -> CommandResult {
    let body = match file {
        Some(file) => json!({"pinCode": read_secret::read(file)?}),
        None => json!({}),
    };
    admin.put(&user.path(&["pin"]), &body).await?;
    match file {
        Some(_) => user.done("set", "PIN set"),
        None => user.done(
            "mailed",
            "a new PIN is queued as mail: see `playgate mail list`",
        ),
    }
}
