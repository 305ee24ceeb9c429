//! `playgate demo`: a server with a temporary store, filled through the operators' interface, and example
//! calls for the whole API.

mod browser;
mod content;
mod epg;
mod seed;

use clap::Args;
use serde_json::json;

use crate::global::{Global, load_at_start};
use crate::output::{self, CommandResult, Failure};
use crate::process::temp_dir::TempDataDir;
use crate::server::{Addresses, Reload, Server, Startup, on_runtime, start_log};
use playgate_services::DemoAccess;
use seed::DemoData;

/// Starts within a second: sample catalogue, livestreams with a current schedule, a partner, a user with a
/// PIN, stored mail, Clear Key and a playable encrypted clip. Prints example calls for the whole interface,
/// ready to paste into a shell, and serves until Ctrl-C.
#[derive(Args)]
pub(crate) struct Demo {
    #[command(flatten)]
    addresses: Addresses,
    /// Open the front page in a browser: that of $BROWSER, else the one of the desktop
    #[arg(long)]
    open: bool,
    /// Print one line of JSON when ready, instead of the calls
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub(crate) fn run(self, global: &Global) -> CommandResult {
        let mut inputs = global.inputs()?;
        inputs.demo = true;
        inputs.flags.extend(self.addresses.flags());
        if self.addresses.any_port() {
            inputs
                .flags
                .push(("ops.listen", "--listen", "127.0.0.1:0".to_owned()));
        }
        // A temporary store is deleted when this is dropped.
        let place = match global.data_dir {
            Some(_) => None,
            None => Some(TempDataDir::temporary("demo")?),
        };
        if let Some(place) = &place {
            inputs.flags.push(("data_dir", "demo", place.text()?));
        }
        let loaded = load_at_start(&inputs)?;
        start_log(&loaded)?;
        // A reload would begin with an empty temporary store, and the printed tokens would no longer work.
        let again = place.is_none().then_some(Reload { inputs });
        on_runtime(async {
            let startup = Startup::new(loaded).with_tls()?;
            let store = startup.open()?;
            let server = Server::start(startup, store, again).await?;
            let filled = seed::fill(&server.http).await?;
            let access = DemoAccess {
                partner_token: filled.partner_token.clone(),
                identity: seed::IDENTITY,
                access_key: seed::ACCESS_KEY,
                pin_code: seed::PIN_CODE,
                ops_url: ops_url(&server)?,
            };
            // Nothing else sets it, so it is still unset.
            let _ = server.http.services.demo.access.set(access);
            if self.json {
                output::json(&members(&server, &filled)?)?;
            } else {
                print_walk(&server, &filled)?;
            }
            if self.open {
                browser::open(&server.http.settings.public_url);
            }
            server.run().await
        })
    }
}

fn ops_url(server: &Server) -> Result<String, Failure> {
    let ops = server
        .ops
        .ok_or_else(|| Failure::usage("the demo needs a TCP address for `ops.listen`"))?;
    Ok(format!("http://{ops}"))
}

fn lab_url(server: &Server) -> String {
    format!("{}/lab/", server.http.settings.public_url)
}

fn watch_url(server: &Server) -> String {
    format!("{}watch.html", lab_url(server))
}

/// The members of the JSON line. Scripts depend on them: add members, never change or remove one.
fn members(server: &Server, filled: &DemoData) -> Result<serde_json::Value, Failure> {
    Ok(json!({
        "baseUrl": server.http.settings.public_url,
        "labUrl": lab_url(server),
        "watchUrl": watch_url(server),
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
        "dataDir": server.http.services.config.server.data_dir,
    }))
}

fn print_walk(server: &Server, filled: &DemoData) -> CommandResult {
    let base = &server.http.settings.public_url;
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
    output::line(content::WALK.trim_end())?;
    // Last, where a reader of a long output looks first. Notes go to standard error. The lines to paste have no comments:
    // zsh would run them.
    output::print_note(&format!(
        "\nPaste these lines into another shell to try the whole interface. Stop the demo with Ctrl-C.\n\n\
         What is on        {base}/\n\
         Watch             {}\n\
         Lab player        {}\n\
         API reference     {base}/docs\n\
         Console           {}/console/\n\
         Operator token    {}\n\
         Partner token     {}\n\
         Viewer            {}, password {}, PIN {}\n\
         Each call         playgate --data-dir {} requests tail",
        watch_url(server),
        lab_url(server),
        ops_url(server)?,
        filled.operator_token,
        filled.partner_token,
        seed::IDENTITY,
        seed::ACCESS_KEY,
        seed::PIN_CODE,
        server.http.services.config.server.data_dir.display()
    ));
    Ok(())
}
