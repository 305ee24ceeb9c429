//! Firebase: the JSON file of `firebase auth:export`, and the hash parameters of the project.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::foreign::{ForeignUser, ForeignUsers, file_problem, millis, phc_base64};

#[derive(Deserialize)]
struct Export<'a> {
    #[serde(borrow)]
    users: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FirebaseUser {
    /// Required, so that a file of another service is rejected.
    #[serde(rename = "localId")]
    _local_id: String,
    email: Option<String>,
    display_name: Option<String>,
    #[serde(default)]
    disabled: bool,
    password_hash: Option<String>,
    salt: Option<String>,
    created_at: Option<Value>,
}

struct HashConfig {
    signer_key: String,
    separator: String,
    rounds: u32,
    mem_cost: u32,
}

pub(super) fn read(text: &str, config: Option<&str>) -> Result<ForeignUsers, String> {
    let export: Export<'_> = serde_json::from_str(text).map_err(|error| file_problem(&error))?;
    let config = config.map(HashConfig::parse).transpose()?;
    let mut users = ForeignUsers::default();
    users.push_each(text, &export.users, |user: FirebaseUser| {
        let hash = user.password_hash.filter(|hash| !hash.is_empty());
        Ok(ForeignUser {
            email: user.email,
            name: user.display_name,
            password_hash: hash
                .map(|hash| match &config {
                    Some(config) => config.phc(&hash, user.salt.as_deref().unwrap_or_default()),
                    None => Err(
                        "the user has a password; give its parameters with --hash-config"
                            .to_owned(),
                    ),
                })
                .transpose()?,
            disabled: user.disabled,
            created: millis(user.created_at.as_ref()),
            locale: None,
        })
    });
    Ok(users)
}

impl HashConfig {
    /// Reads `name: value` lines, with or without the braces and commas of the console.
    fn parse(text: &str) -> Result<Self, String> {
        let value = |name: &str| {
            // The Firebase console shows the parameters in this form, which resembles JSON but is not JSON.
            let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
            let found = pairs.find(|(key, _)| key.trim().trim_matches('"') == name);
            let (_, value) = found.ok_or_else(|| format!("--hash-config: `{name}` is missing"))?;
            Ok::<_, String>(
                value
                    .trim()
                    .trim_end_matches(',')
                    .trim_matches('"')
                    .to_owned(),
            )
        };
        let number = |name: &str| {
            let text = value(name)?;
            text.parse()
                .map_err(|_| format!("--hash-config: `{name}` is not a number: {text}"))
        };
        let base64 = |name: &str| {
            phc_base64(&value(name)?).map_err(|_| format!("--hash-config: `{name}` is not base64"))
        };
        let algorithm = value("algorithm")?;
        // Other algorithms belong to users who were imported into Firebase and have not logged in since.
        if algorithm != "SCRYPT" {
            return Err(format!(
                "--hash-config: the algorithm is {algorithm}, not SCRYPT"
            ));
        }
        Ok(Self {
            signer_key: base64("base64_signer_key")?,
            separator: base64("base64_salt_separator")?,
            rounds: number("rounds")?,
            mem_cost: number("mem_cost")?,
        })
    }

    fn phc(&self, hash: &str, salt: &str) -> Result<String, String> {
        let (salt, hash) = (phc_base64(salt)?, phc_base64(hash)?);
        let Self {
            signer_key,
            separator,
            rounds,
            mem_cost,
        } = self;
        // Firebase has one set of parameters per project. A stored hash carries its own, because users of several
        // projects may be imported.
        Ok(format!(
            "$firebase-scrypt$ln={mem_cost},r={rounds}${salt}${separator}${signer_key}${hash}"
        ))
    }
}
