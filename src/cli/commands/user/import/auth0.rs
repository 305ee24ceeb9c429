//! Auth0: one JSON object per line, from an export job or, with password hashes, from its support.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::foreign::{
    ForeignUser, ForeignUsers, account, file_problem, full_name, json_problem, millis,
};

#[derive(Deserialize)]
struct Auth0User {
    #[serde(alias = "Email")]
    email: Option<String>,
    #[serde(alias = "Name")]
    name: Option<String>,
    #[serde(alias = "Given Name")]
    given_name: Option<String>,
    #[serde(alias = "Family Name")]
    family_name: Option<String>,
    /// A bcrypt hash.
    #[serde(rename = "passwordHash", alias = "password_hash")]
    password_hash: Option<String>,
    custom_password_hash: Option<CustomHash>,
    #[serde(default)]
    blocked: bool,
    #[serde(alias = "Created At")]
    created_at: Option<Value>,
    locale: Option<String>,
    user_metadata: Option<Value>,
}

/// The hash of a user who was imported into Auth0. After the first login there, the user has a `passwordHash`.
#[derive(Deserialize)]
struct CustomHash {
    algorithm: String,
    hash: HashValue,
}

#[derive(Deserialize)]
struct HashValue {
    value: String,
}

pub(super) fn read(text: &str) -> Result<ForeignUsers, String> {
    let mut users = ForeignUsers::default();
    // The Management API, and what was made of its answers, has an array.
    if text.trim_start().starts_with('[') {
        let list: Vec<&RawValue> =
            serde_json::from_str(text).map_err(|error| file_problem(&error))?;
        users.push_each(text, &list, convert);
        return Ok(users);
    }
    for (line, row) in (1..).zip(text.lines()) {
        if row.trim().is_empty() {
            continue;
        }
        let user = serde_json::from_str(row).map_err(|error| json_problem(&error));
        users.push(line, account(row), user.and_then(convert));
    }
    Ok(users)
}

fn convert(user: Auth0User) -> Result<ForeignUser, String> {
    let custom = user.custom_password_hash.map(|custom| {
        // Only the hashes of these algorithms contain their own parameters.
        match custom.algorithm.as_str() {
            "bcrypt" | "argon2" | "pbkdf2" => Ok(custom.hash.value),
            other => Err(format!("the hash is {other}, which cannot be imported")),
        }
    });
    let names = full_name(user.given_name, user.family_name);
    // Auth0 uses the address as the name if it knows no other.
    let named = user.name.filter(|name| user.email.as_deref() != Some(name));
    let metadata = user.user_metadata.as_ref();
    let language = |name: &str| metadata?.get(name)?.as_str().map(str::to_owned);
    Ok(ForeignUser {
        created: millis(user.created_at.as_ref()),
        locale: user
            .locale
            .or_else(|| language("locale"))
            .or_else(|| language("lang")),
        password_hash: user.password_hash.map(Ok).or(custom).transpose()?,
        name: named.or(names),
        email: user.email,
        disabled: user.blocked,
    })
}
