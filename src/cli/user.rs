//! `playgate user`: operators' work on users.

use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate};
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::admin::{Admin, path, with_query};
use super::exit::{Failure, Outcome};
use super::{Global, explain_output, output, read_secret, user_import};

/// Users of the partners.
#[derive(Subcommand)]
pub enum Command {
    /// Make a user
    Add(Add),
    /// Make many users from a file of JSON objects, one a line, with the members
    /// email, password or passwordHash, name, country, locale, birthDate, partner
    ///
    /// A passwordHash is what another service stored: argon2, bcrypt, scrypt or PBKDF2 in their usual
    /// forms. The user goes on with the same password, and the first login stores our hash instead.
    /// Without either the user gets in by a reset. A line that is wrong is reported with its number
    /// and holds up no other. Users are stored in batches: an import that broke off can be run again,
    /// which counts those who are there and does not change them.
    Import {
        /// The file, `-` for standard input
        file: PathBuf,
        /// The partner whose users they are where a line names none: id or name
        #[arg(long)]
        partner: Option<String>,
        /// Report what would be added, and add nobody
        #[arg(long)]
        dry_run: bool,
        /// Print {"dryRun","lines","added","existing","rejected","failed"}
        #[arg(long)]
        json: bool,
    },
    /// Change what is known of a user
    Change(Change),
    /// List users
    List {
        /// Of this partner alone: id or name
        #[arg(long)]
        partner: Option<String>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Show a user's record
    Show {
        #[command(flatten)]
        user: Named,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shut a user's account: all logins end and none begins; what is held stays
    Disable {
        #[command(flatten)]
        user: Named,
    },
    /// Open a shut account again
    Enable {
        #[command(flatten)]
        user: Named,
    },
    /// Remove a user with all that is held about them
    Remove {
        #[command(flatten)]
        user: Named,
        /// Do not ask; needed where there is no terminal
        #[arg(long)]
        yes: bool,
    },
    /// List the offers that a user was given, beside those that belong to everybody
    Offers {
        #[command(flatten)]
        user: Named,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Give a user an offer
    Grant {
        #[command(flatten)]
        user: Named,
        /// The offer's id
        offer: String,
        /// When it ends: a date such as 2027-01-31, which begins in UTC, one with a time such as
        /// 2027-01-31T18:00:00Z, or Unix seconds; else as the offer says
        #[arg(long, value_name = "TIME", value_parser = instant)]
        expiry: Option<i64>,
    },
    /// Take an offer from a user
    Revoke {
        #[command(flatten)]
        user: Named,
        /// The offer's id
        offer: String,
    },
    /// List a user's login sessions
    Sessions {
        #[command(flatten)]
        user: Named,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// End all login sessions of a user, running players included
    Logout {
        #[command(flatten)]
        user: Named,
    },
    /// Set a user's PIN; without --pin-file a new one is drawn and mailed
    Pin {
        #[command(flatten)]
        user: Named,
        /// File with the PIN, `-` for standard input
        #[arg(long, value_name = "FILE")]
        pin_file: Option<PathBuf>,
    },
    /// Mail a user a link to choose a password
    Reset {
        #[command(flatten)]
        user: Named,
    },
    /// Tell step by step why a user may or may not play an asset now
    Why {
        #[command(flatten)]
        user: Named,
        /// Id of a livestream, a broadcast or a video on demand
        asset: String,
        /// Seconds back from the live point, such as -1800
        #[arg(long, allow_hyphen_values = true)]
        offset: Option<String>,
        /// The country that the user is in, such as SE
        #[arg(long)]
        country: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// A user who is meant.
#[derive(Args)]
pub struct Named {
    /// User id, or e-mail address
    #[arg(allow_hyphen_values = true)]
    user: String,
    /// The partner whose user it is, for an e-mail address: id or name; not needed if there is one
    #[arg(long)]
    partner: Option<String>,
}

impl Named {
    /// A path below the user.
    fn path(&self, below: &[&str]) -> String {
        let mut segments = vec!["users", self.user.as_str()];
        segments.extend(below);
        with_query(path(&segments), &[("partner", self.partner.as_deref())])
    }
}

/// A user who is to be made.
#[derive(Args)]
pub struct Add {
    /// E-mail address
    email: String,
    /// The partner whose user it is: id or name; not needed if there is one
    #[arg(long)]
    partner: Option<String>,
    /// File with the password, `-` for standard input; without one the user gets in by a reset mail
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    facts: UserAttributes,
    /// Print {"userId"}
    #[arg(long)]
    json: bool,
}

/// What is known of a user.
#[derive(Args)]
pub struct UserAttributes {
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

/// What is to be changed of a user.
#[derive(Args)]
pub struct Change {
    #[command(flatten)]
    user: Named,
    #[command(flatten)]
    facts: UserAttributes,
    /// All tags, with commas between them; an empty text takes them away
    #[arg(long, value_name = "TAGS")]
    tags: Option<String>,
    /// Parental control
    #[arg(long, value_name = "on|off", value_parser = ["on", "off"])]
    parental: Option<String>,
    /// The age limit of parental control
    #[arg(long, value_name = "AGE")]
    parental_limit: Option<u8>,
    /// Print the whole record as JSON
    #[arg(long)]
    json: bool,
}

const OFFERS: [output::Column; 5] = [
    ("OFFER", "offerId"),
    ("TYPE", "type"),
    ("STATE", "state"),
    ("SINCE", "purchasedAt"),
    ("EXPIRES", "expiry"),
];

/// An instant as a person types it, in Unix seconds.
fn instant(text: &str) -> Result<i64, &'static str> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d")
        .ok()
        .and_then(|day| day.and_hms_opt(0, 0, 0));
    if let Some(begin) = day {
        return Ok(begin.and_utc().timestamp());
    }
    let time = DateTime::parse_from_rfc3339(text).map(|time| time.timestamp());
    time.or_else(|_| text.parse())
        .map_err(|_| "neither a date, nor one with a time, nor Unix seconds")
}

/// Runs the command.
pub async fn run(command: Command, global: &Global) -> Outcome {
    let mut admin = global.admin().await?;
    match command {
        Command::Add(new) => add(&mut admin, new).await,
        Command::Import {
            file,
            partner,
            dry_run,
            json,
        } => user_import::run(&mut admin, &file, partner.as_deref(), dry_run, json).await,
        Command::Change(changed) => change(&mut admin, changed).await,
        Command::List { partner, json } => {
            let users = all(&mut admin, partner.as_deref()).await?;
            let columns = [("ID", "userId"), ("E-MAIL", "email"), ("NAME", "name")];
            output::list(&users, &columns, json)
        }
        Command::Show { user, json } => output::record(&admin.get(&user.path(&[])).await?, json),
        Command::Disable { user } => set_disabled(&mut admin, &user, true).await,
        Command::Enable { user } => set_disabled(&mut admin, &user, false).await,
        Command::Remove { user, yes } => remove(&mut admin, &user, yes).await,
        Command::Offers { user, json } => {
            let offers = admin.get(&user.path(&["grants"])).await?;
            output::list(&offers, &OFFERS, json)
        }
        Command::Grant {
            user,
            offer,
            expiry,
        } => {
            let body = expiry.map_or_else(|| json!({}), |expiry| json!({"expiry": expiry}));
            let grant = user.path(&["grants", &offer]);
            admin.call(Method::PUT, &grant, Some(&body)).await?;
            output::print_note(&format!("{} has {offer}", user.user));
            Ok(())
        }
        Command::Revoke { user, offer } => {
            let grant = user.path(&["grants", &offer]);
            admin.call(Method::DELETE, &grant, None).await?;
            output::print_note(&format!("{} no longer has {offer}", user.user));
            Ok(())
        }
        Command::Sessions { user, json } => {
            let sessions = admin.get(&user.path(&["sessions"])).await?;
            let columns = [
                ("ID", "sessionId"),
                ("SINCE", "createdTimestamp"),
                ("EXPIRES", "expires"),
            ];
            output::list(&sessions, &columns, json)
        }
        Command::Logout { user } => {
            admin
                .call(Method::POST, &user.path(&["logout"]), None)
                .await?;
            output::print_note(&format!("{} is logged out everywhere", user.user));
            Ok(())
        }
        Command::Reset { user } => {
            let target = user.path(&["reset-mail"]);
            admin.call(Method::POST, &target, None).await?;
            output::print_note(&format!("{} gets a link by mail", user.user));
            Ok(())
        }
        Command::Pin { user, pin_file } => pin(&mut admin, &user, pin_file.as_deref()).await,
        Command::Why {
            user,
            asset,
            offset,
            country,
            json,
        } => {
            let parameters = [
                ("offset", offset.as_deref()),
                ("country", country.as_deref()),
            ];
            let why = with_query(user.path(&["why", &asset]), &parameters);
            explain_output::show(&admin.get(&why).await?, json)
        }
    }
}

async fn remove(admin: &mut Admin, user: &Named, yes: bool) -> Outcome {
    let what = format!("{} with all that is held about them", user.user);
    // A script that holds a wrong id must not erase somebody without having said so.
    if !yes && !output::can_ask() {
        let why = format!("{what} would be removed, and there is no terminal to ask on");
        return Err(Failure::usage(why).hint("add `--yes` if that is meant"));
    }
    if !yes && !output::confirmed(&format!("Remove {what}?")) {
        return Err(Failure::failed("nothing was removed"));
    }
    admin.call(Method::DELETE, &user.path(&[]), None).await?;
    output::print_note(&format!("removed {}", user.user));
    Ok(())
}

/// All users, which come in pages.
async fn all(admin: &mut Admin, partner: Option<&str>) -> Result<Value, Failure> {
    let mut users = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let parameters = [("partner", partner), ("after", after.as_deref())];
        let page = admin
            .get(&with_query(path(&["users"]), &parameters))
            .await?;
        let Value::Array(page) = page else {
            return Err(Failure::failed("the answer is no list of users"));
        };
        let last = page.last().and_then(|user| user.get("userId")?.as_str());
        match last {
            None => return Ok(Value::Array(users)),
            Some(id) => after = Some(id.to_owned()),
        }
        users.extend(page);
    }
}

async fn add(admin: &mut Admin, new: Add) -> Outcome {
    let mut body = new.facts.body();
    body.insert("email".to_owned(), new.email.into());
    if let Some(partner) = new.partner {
        body.insert("partner".to_owned(), partner.into());
    }
    if let Some(file) = &new.password_file {
        body.insert("password".to_owned(), read_secret::read(file)?.into());
    }
    let made = admin
        .call(Method::POST, &path(&["users"]), Some(&Value::Object(body)))
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

async fn change(admin: &mut Admin, change: Change) -> Outcome {
    let mut body = change.facts.body();
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
        return Err(Failure::usage("nothing is to be changed"));
    }
    let changed = admin
        .call(
            Method::PUT,
            &change.user.path(&[]),
            Some(&Value::Object(body)),
        )
        .await?;
    output::record(&changed, change.json)
}

async fn set_disabled(admin: &mut Admin, user: &Named, disabled: bool) -> Outcome {
    let body = json!({"disabled": disabled});
    admin
        .call(Method::PUT, &user.path(&[]), Some(&body))
        .await?;
    let done = if disabled { "disabled" } else { "enabled" };
    output::print_note(&format!("{done} {}", user.user));
    Ok(())
}

async fn pin(admin: &mut Admin, user: &Named, file: Option<&Path>) -> Outcome {
    let body = match file {
        Some(file) => json!({"pinCode": read_secret::read(file)?}),
        None => json!({}),
    };
    admin
        .call(Method::PUT, &user.path(&["pin"]), Some(&body))
        .await?;
    output::print_note(match file {
        Some(_) => "the PIN is set",
        None => "a new PIN is on its way by mail",
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_typed_in_three_ways() {
        for text in ["2027-01-31", "2027-01-31T01:00:00+01:00", "1801353600"] {
            assert_eq!(instant(text), Ok(1_801_353_600), "{text}");
        }
        for text in ["", "tomorrow", "2027-02-30", "2027-01-31 18:00", "1e9"] {
            assert!(instant(text).is_err(), "{text}");
        }
    }
}
