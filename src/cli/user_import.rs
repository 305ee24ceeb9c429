//! `playgate user import`: many users from one file, one request each, so that what one of them has
//! wrong holds up no other and a broken-off import can be run again.
//!
//! Decision: JSON objects, one a line, and no CSV: every service can write them, and a hash has
//! commas.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use http::Method;
use serde_json::{Value, json};

use super::admin::{Admin, path};
use super::exit::{Failure, Outcome};
use super::output;

/// Bytes of the longest line: many times what a user's facts take.
const LINE_MAX: u64 = 16 * 1024;

/// What became of the lines.
#[derive(Default)]
struct Figures {
    added: u64,
    existing: u64,
    failed: Vec<Value>,
}

/// Adds the users of a file of JSON objects, one a line, `-` for standard input. `partner` is whose
/// they are where a line does not say.
pub async fn run(admin: &mut Admin, file: &Path, partner: Option<&str>, as_json: bool) -> Outcome {
    let mut lines: Box<dyn BufRead> = if file.as_os_str() == "-" {
        Box::new(BufReader::new(io::stdin()))
    } else {
        let file = File::open(file).map_err(|error| Failure::file(file, &error))?;
        Box::new(BufReader::new(file))
    };
    let mut figures = Figures::default();
    let watched = output::watched();
    let mut number = 0_u64;
    while let Some(line) = next_line(&mut lines).map_err(|error| Failure::file(file, &error))? {
        number += 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        match add(admin, &line, partner).await? {
            Ok(true) => figures.added += 1,
            Ok(false) => figures.existing += 1,
            Err(message) => figures
                .failed
                .push(json!({"line": number, "message": message})),
        }
        if watched && number.is_multiple_of(100) {
            output::progress(&format!("{number} lines"));
        }
    }
    if watched && number >= 100 {
        output::progress("");
    }
    report(&figures, as_json)
}

/// The next line, without its end; nothing at the end of the file.
fn next_line(lines: &mut dyn BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = io::Read::take(lines, LINE_MAX).read_until(b'\n', &mut line)?;
    if u64::try_from(read).is_ok_and(|read| read == LINE_MAX) {
        return Err(io::Error::other("a line has over 16 KiB"));
    }
    Ok((read > 0).then_some(line))
}

/// Adds one user: whether they are new, or why not.
async fn add(
    admin: &mut Admin,
    line: &[u8],
    partner: Option<&str>,
) -> Result<Result<bool, String>, Failure> {
    let Ok(Value::Object(mut user)) = serde_json::from_slice(line) else {
        return Ok(Err("is no JSON object".to_owned()));
    };
    if let Some(partner) = partner {
        user.entry("partner").or_insert_with(|| json!(partner));
    }
    let body = Value::Object(user);
    let answer = admin
        .ask(Method::POST, &path(&["users"]), Some(&body))
        .await?;
    Ok(match answer {
        Ok(_) => Ok(true),
        Err(refusal) if refusal.code == "EMAIL_IN_USE" => Ok(false),
        Err(refusal) => Err(refusal.message),
    })
}

fn report(figures: &Figures, as_json: bool) -> Outcome {
    let Figures {
        added,
        existing,
        failed,
    } = figures;
    if as_json {
        output::json(&json!({"added": added, "existing": existing, "failed": failed}))?;
    } else {
        output::line(&format!("added     {added}\nexisting  {existing}"))?;
        for failure in failed {
            let (line, message) = (
                output::text(failure, "line"),
                output::text(failure, "message"),
            );
            output::note(&format!("line {line}: {message}"));
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::failed(format!(
            "{} users were not added",
            failed.len()
        )))
    }
}
