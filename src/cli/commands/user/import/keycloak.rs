//! Keycloak: a realm export with users, or one of its user files.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::foreign::{ForeignUser, ForeignUsers, file_problem, full_name, millis, phc_base64};

#[derive(Deserialize)]
struct Realm<'a> {
    #[serde(borrow)]
    users: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeycloakUser {
    /// Required, so that a file of another service is rejected.
    username: String,
    email: Option<String>,
    first_name: Option<String>,
    last_name: Option<String>,
    #[serde(default)]
    enabled: bool,
    created_timestamp: Option<Value>,
    /// Lists of texts by name; `locale` is the user's language.
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
    #[serde(default)]
    credentials: Vec<Credential>,
}

/// Secret and parameters are JSON texts inside JSON strings.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Credential {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    secret_data: String,
    #[serde(default)]
    credential_data: String,
}

#[derive(Deserialize)]
struct SecretData {
    value: String,
    #[serde(default)]
    salt: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CredentialData {
    hash_iterations: u32,
    algorithm: String,
    #[serde(default)]
    additional_parameters: BTreeMap<String, Vec<String>>,
}

pub(super) fn read(text: &str) -> Result<ForeignUsers, String> {
    // A realm, or the list that the administration interface gives.
    let list: Vec<&RawValue> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).map_err(|error| file_problem(&error))?
    } else {
        let realm: Realm<'_> = serde_json::from_str(text).map_err(|error| file_problem(&error))?;
        realm.users
    };
    let mut users = ForeignUsers::default();
    users.push_each(text, &list, convert);
    Ok(users)
}

fn convert(user: KeycloakUser) -> Result<ForeignUser, String> {
    let mut credentials = user.credentials.iter();
    // Other credentials are one-time codes and keys, which are not imported.
    let password = credentials.find(|credential| credential.kind == "password");
    let locale = user.attributes.get("locale").and_then(|locale| {
        let first = locale.as_array().and_then(|list| list.first());
        first.unwrap_or(locale).as_str().map(str::to_owned)
    });
    // Realms that log in by address have it as the name, and may leave `email` out.
    let address = user.email.filter(|email| !email.is_empty());
    let named = Some(user.username).filter(|name| name.contains('@'));
    Ok(ForeignUser {
        email: address.or(named),
        locale,
        created: millis(user.created_timestamp.as_ref()),
        name: full_name(user.first_name, user.last_name),
        password_hash: password.map(hash).transpose()?,
        disabled: !user.enabled,
    })
}

fn salted(secret: &SecretData) -> Result<(String, String), String> {
    Ok((phc_base64(&secret.salt)?, phc_base64(&secret.value)?))
}

fn hash(credential: &Credential) -> Result<String, String> {
    let bad = |_| "the password credential is incomplete".to_owned();
    let secret: SecretData = serde_json::from_str(&credential.secret_data).map_err(bad)?;
    let data: CredentialData = serde_json::from_str(&credential.credential_data).map_err(bad)?;
    let rounds = data.hash_iterations;
    match data.algorithm.as_str() {
        // Of an extension; the hash has its parameters.
        "bcrypt" => Ok(secret.value),
        name @ ("pbkdf2" | "pbkdf2-sha256" | "pbkdf2-sha512") => {
            let (salt, value) = salted(&secret)?;
            Ok(format!("${name}$i={rounds}${salt}${value}"))
        }
        "argon2" => {
            let (salt, value) = salted(&secret)?;
            let parameter = |name: &str| {
                let list = data.additional_parameters.get(name);
                let first = list.and_then(|list| list.first());
                first.ok_or_else(|| format!("the argon2 credential has no `{name}`"))
            };
            // PHC strings contain the version as a number: 0x13 or 0x10.
            let version = match parameter("version")?.as_str() {
                "1.3" => 19,
                "1.0" => 16,
                other => return Err(format!("argon2 has no version {other}")),
            };
            let (kind, memory) = (parameter("type")?, parameter("memory")?);
            let parallelism = parameter("parallelism")?;
            Ok(format!(
                "$argon2{kind}$v={version}$m={memory},t={rounds},p={parallelism}${salt}${value}"
            ))
        }
        other => Err(format!("the hash is {other}, which cannot be imported")),
    }
}
