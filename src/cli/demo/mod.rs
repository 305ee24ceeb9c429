//! `playgate demo`: everything at once. A server over a temporary store, filled through the same
//! interface that operators use, and the calls that walk the whole of it.

mod content;
mod epg;
mod seed;
mod temp_dir;

use clap::Args;
use serde_json::json;

use super::exit::{Failure, Outcome};
use super::reload::Reload;
use super::serve::Addresses;
use super::server::{Server, on_runtime, start_log};
use super::startup::Startup;
use super::{Global, configured, output};
use seed::Filled;
use temp_dir::TempDataDir;

/// Ready within a second: sample catalogue, livestreams with a schedule around now, a partner, a
/// user with a PIN, a mail sink, Clear Key and a playable encrypted clip. Prints the calls that walk
/// the whole interface, ready to be pasted into a shell, and serves until Ctrl-C.
#[derive(Args)]
pub struct Demo {
    #[command(flatten)]
    addresses: Addresses,
    /// Print one line of JSON instead when ready
    #[arg(long)]
    json: bool,
}

impl Demo {
    /// Runs the command.
    pub fn run(self, global: &Global) -> Outcome {
        let mut inputs = global.inputs()?;
        inputs.demo = true;
        inputs.flags.extend(self.addresses.flags());
        if self.addresses.any_port() {
            inputs
                .flags
                .push(("ops.listen", "--listen", "127.0.0.1:0".to_owned()));
        }
        // Held to the end: a temporary store goes with it.
        let place = match global.data_dir {
            Some(_) => None,
            None => Some(TempDataDir::temporary()?),
        };
        if let Some(place) = &place {
            inputs.flags.push(("data_dir", "demo", place.text()?));
        }
        let loaded = configured(&inputs)?;
        start_log(&loaded)?;
        let again = place.is_none().then_some(Reload { inputs });
        on_runtime(async {
            let beginning = Startup::new(loaded).with_tls()?;
            let store = beginning.open()?;
            let server = Server::start(beginning, store, again).await?;
            let filled = seed::fill(&server.app).await?;
            if self.json {
                output::json(&members(&server, &filled)?)?;
            } else {
                print_walk(&server, &filled)?;
            }
            server.run().await
        })
    }
}

fn ops_url(server: &Server) -> Result<String, Failure> {
    let ops = server
        .ops
        .ok_or_else(|| Failure::usage("the demo needs an address for `ops.listen`"))?;
    Ok(format!("http://{ops}"))
}

/// The members of the one line of JSON. Scripts rely on them: they are added to, never changed.
fn members(server: &Server, filled: &Filled) -> Result<serde_json::Value, Failure> {
    Ok(json!({
        "baseUrl": server.app.http.public_url,
        "opsUrl": ops_url(server)?,
        "operatorToken": filled.operator_token,
        "partnerToken": filled.partner_token,
        "identity": seed::IDENTITY,
        "accessKey": seed::ACCESS_KEY,
        "pinCode": seed::PIN_CODE,
        "livestreams": {"open": "open", "blackout": "blackout"},
        "offsetOpen": epg::OFFSET_OPEN,
        "vod": {
            "open": "film-open",
            "adult": "film-adult",
            "premium": "film-premium",
            "clear": "film-clear",
        },
        "catchup": filled.catchup,
    }))
}

/// Prints the variables and the calls that use them.
fn print_walk(server: &Server, filled: &Filled) -> Outcome {
    let base = &server.app.http.public_url;
    // What is read stands apart from what is pasted, which has no comments: zsh would run them.
    output::print_note(&format!(
        "The demo serves {base}, described at {base}/docs; Ctrl-C ends it.\n\
         The operators' console, to be opened in a browser: {}/console/ with the token {}\n\
         Paste these lines into another shell: they walk the whole interface.\n",
        ops_url(server)?,
        filled.operator_token
    ));
    let variables = [
        ("BASE", base.clone()),
        ("OPS", ops_url(server)?),
        (
            "P",
            format!("Service-AccessToken: {}", filled.partner_token),
        ),
        (
            "O",
            format!("Authorization: Bearer {}", filled.operator_token),
        ),
        ("IDENTITY", seed::IDENTITY.to_owned()),
        ("ACCESS_KEY", seed::ACCESS_KEY.to_owned()),
        ("PIN_CODE", seed::PIN_CODE.to_owned()),
        ("CATCHUP", filled.catchup.clone()),
        ("OFFSET_OPEN", epg::OFFSET_OPEN.to_string()),
    ];
    for (name, value) in variables {
        output::line(&format!("{name}='{value}'"))?;
    }
    output::line(content::WALK.trim_end())
}
