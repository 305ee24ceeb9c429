//! What the service stands on: how it is reached, its certificate, its mail server, the sink of its
//! telemetry, its store.

use std::net::IpAddr;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Finding;
use crate::app;
use crate::cli::admin::{Admin, path};
use crate::cli::exit::{Failure, Outcome};
use crate::cli::{Global, missing_media, output, playable};
use crate::config::{Address, Config, Loaded};
use crate::ports::http_client::Target;
use crate::ports::{Clock as _, SystemClock};

/// How long a server may take to take a connection.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn check_configuration(loaded: &Loaded) -> Vec<Finding> {
    let config = &loaded.config;
    let mut findings = vec![addresses(config), proxies(config)];
    findings.extend(certificate(config));
    findings.push(mail(config).await);
    findings.extend(sink(config).await);
    let warnings = loaded.warnings.iter();
    findings.extend(
        warnings.map(|warning| Finding::warning("configuration", warning, "playgate config show")),
    );
    findings
}

/// Whether only this machine reaches an address.
fn is_local(address: &Address) -> bool {
    match address {
        Address::Tcp { host, .. } => {
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        Address::Unix(_) => true,
        // Its unit says.
        Address::Passed(_) => false,
    }
}

fn addresses(config: &Config) -> Finding {
    let public = config.server.listen.iter().chain(&config.tls.listen);
    if !is_local(&config.ops.listen) {
        return Finding::warning(
            "addresses",
            format!(
                "operators' listener {} can be reached from outside",
                config.ops.listen
            ),
            "set `ops.listen` to an address of this machine or of a network of operators",
        );
    }
    if public.clone().all(is_local) || config.server.public_url.is_some() {
        return Finding::ok(
            "addresses",
            "viewers' links lead to where they can be reached",
        );
    }
    Finding::warning(
        "addresses",
        "the service is reached from outside, and links in mails lead to its first listener",
        "set `public_url` to the address that partners know",
    )
}

fn proxies(config: &Config) -> Finding {
    let mut public = config.server.listen.iter().chain(&config.tls.listen);
    let trusted = !config.http.trusted_proxies.is_empty();
    if public.clone().all(is_local) && !trusted {
        return Finding::warning(
            "proxy",
            "only this machine reaches the service, so a proxy stands in front, and it is not known: to limits on guessing all viewers are one",
            "set `http.trusted_proxies` to the proxy's address; without a proxy there is nothing to do",
        );
    }
    if trusted && config.tls.listen.is_empty() && public.any(|address| !is_local(address)) {
        return Finding::warning(
            "proxy",
            "a proxy is trusted, and the service can be reached past it",
            "set `listen` to an address that only the proxy reaches",
        );
    }
    Finding::ok("proxy", if trusted { "is known" } else { "none" })
}

fn certificate(config: &Config) -> Option<Finding> {
    const MEND: &str = "renew `tls.cert` and `tls.key`; they are taken up without a restart";
    // A pair that cannot be used is a mistake of the configuration.
    let tls = app::tls(config).ok().flatten()?;
    Some(match tls.trouble(SystemClock.now()) {
        Some(trouble) => Finding::problem("tls", trouble, MEND),
        None => Finding::ok("tls", "the certificate is good"),
    })
}

async fn mail(config: &Config) -> Finding {
    let smtp = &config.smtp;
    let Some(host) = &smtp.host else {
        return Finding::warning(
            "mail",
            "no mail leaves this machine: messages are kept, `playgate mail list` shows them",
            "set `smtp.host` and `mail.from`",
        );
    };
    match connected(host, smtp.port()).await {
        Ok(finding) => Finding::ok("mail", finding),
        Err(trouble) => Finding::problem(
            "mail",
            trouble,
            "playgate mail test ADDRESS shows the whole dialogue",
        ),
    }
}

/// What becomes of events there the service says itself, where it runs.
async fn sink(config: &Config) -> Option<Finding> {
    const MEND: &str = "mend it, or `telemetry.forward.url`; what was not sent waits meanwhile";
    let url = config.telemetry_forward.url.as_ref()?;
    let connected = match Target::parse(url) {
        Ok(site) => {
            let (host, port) = site.address();
            connected(host, port).await
        }
        Err(error) => Err(error.to_string()),
    };
    Some(match connected {
        Ok(finding) => Finding::ok("forwarding", finding),
        Err(trouble) => Finding::warning("forwarding", trouble, MEND),
    })
}

/// Whether a server takes a connection, in words.
async fn connected(host: &str, port: u16) -> Result<String, String> {
    match timeout(PATIENCE, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(format!("{host}:{port} takes connections")),
        Ok(Err(error)) => Err(format!("{host}:{port}: {error}")),
        Err(_) => Err(format!("{host}:{port}: does not answer")),
    }
}

/// The service of the data directory, running or opened here; why there is none is a finding.
pub(super) async fn connect(global: &Global, findings: &mut Vec<Finding>) -> Option<Admin> {
    if let Ok(loaded) = global.load()
        && let Ok(None) = Admin::running(&loaded).await
    {
        let place = loaded.config.server.data_dir.display();
        findings.push(Finding::problem(
            "service",
            format!("no server runs on {place}"),
            "systemctl start playgate, or playgate serve; if one does run, tell its --data-dir or --config",
        ));
    }
    match global.admin().await {
        Ok(service) => Some(service),
        Err(failure) => {
            let mend = failure
                .advice()
                .unwrap_or("playgate store verify")
                .to_owned();
            findings.push(Finding::problem("store", failure.message(), mend));
            None
        }
    }
}

/// What the service itself says is in its way.
pub(super) async fn check_store(service: &mut Admin, findings: &mut Vec<Finding>) -> Outcome {
    let told = service.ask(Method::GET, "/readyz", None).await?;
    let body = told.unwrap_or_else(|refusal| refusal.into_body());
    findings.extend(listed(&body, "reasons", |said| {
        Finding::problem(
            "service",
            said,
            "the log tells more, and docs/operating.md what to do",
        )
    }));
    findings.extend(listed(&body, "warnings", |said| {
        let advice = match said.starts_with("clock: ") {
            true => "set the machine's clock right, then: playgate clock accept",
            false => "the log tells more",
        };
        Finding::warning("service", said, advice)
    }));
    if findings.iter().all(|finding| finding.part != "service") {
        findings.push(Finding::ok("service", "does its work"));
    }
    let partners = service.get(&path(&["partners"])).await?;
    if partners.as_array().is_some_and(Vec::is_empty) {
        let said = "there is no partner, so no client may ask anything";
        findings.push(Finding::warning(
            "partners",
            said,
            "playgate partner add NAME",
        ));
    }
    let sources = service.get(&path(&["epg", "sources"])).await?;
    findings.extend(sources.as_array().into_iter().flatten().filter_map(guide));
    let figures = service.text("/metrics").await?;
    findings.extend(unrated(&figures));
    Ok(())
}

/// Whether what the catalogue holds can be played: users are granted it all the same.
pub(super) async fn playability(
    service: &mut Admin,
    config: &Config,
) -> Result<Vec<Finding>, Failure> {
    let stuck = playable::unplayable(service, config).await?;
    let finding = |(said, mend): (String, &'static str)| Finding::warning("playback", said, mend);
    Ok(stuck.into_iter().map(finding).collect())
}

/// The share of broadcasts from which on somebody should look at the ratings of the guides: below it
/// they are news and sport, which boards do not rate.
const UNRATED_PERCENT: u64 = 10;

/// How much of the schedule nobody has rated.
fn unrated(figures: &str) -> Option<Finding> {
    let figure = |name: &str| {
        let mut lines = figures.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.parse::<u64>().ok()
    };
    let all = figure("playgate_schedule_broadcasts")?;
    let unrated = figure("playgate_schedule_unrated_broadcasts")?;
    let share = (unrated * 100).checked_div(all)?;
    let said = format!("{unrated} of {all} broadcasts ({share} %) have no age rating");
    Some(if share < UNRATED_PERCENT {
        Finding::ok("ratings", said)
    } else {
        Finding::warning(
            "ratings",
            format!("{said}: with `parental.unrated` = \"pin\" they ask for the PIN"),
            "set `unrated` for a source or a livestream, add ratings with `epg.ratings`, or set `parental.unrated`",
        )
    })
}

/// Whether offers name countries that only users' own records tell.
pub(super) async fn countries(
    service: &mut Admin,
    config: &Config,
) -> Result<Option<Finding>, Failure> {
    const MEND: &str = "set `geo.database`, or `geo.header` behind a proxy that tells the country";
    if config.geo.database.is_some() || config.geo.header.is_some() {
        return Ok(None);
    }
    let catalogue = service.get("/admin/v1/catalog?format=json").await?;
    let offers = catalogue.get("offer").and_then(Value::as_array);
    let names = |offer: &&Value| {
        let countries = offer.get("countries").and_then(Value::as_array);
        countries.is_some_and(|countries| !countries.is_empty())
    };
    let limited = offers.into_iter().flatten().filter(names).count();
    if limited == 0 {
        return Ok(None);
    }
    let offers = format!("offers that name countries: {limited}");
    let said = if config.geo.profile_fallback {
        format!("{offers}; only users' own records, given at sign-up, tell where they are")
    } else {
        format!("{offers}; nothing tells where users are, so nobody may play them")
    };
    Ok(Some(Finding::warning("countries", said, MEND)))
}

/// Whether the files are there that the catalogue names.
pub(super) async fn media(
    service: &mut Admin,
    config: &Config,
) -> Result<Option<Finding>, Failure> {
    const MEND: &str = "put them there, or name others in the catalogue; players get 404 meanwhile";
    let missing = missing_media::missing(service, &config.origin.media_dir).await?;
    Ok(missing.map(|said| Finding::warning("media", said, MEND)))
}

/// What is the matter with a source of guides.
fn guide(source: &Value) -> Option<Finding> {
    let name = output::text(source, "name");
    let said = match source["state"].as_str()? {
        "failing" => format!("{name} does not come: {}", output::text(source, "error")),
        "held" => format!("{name} looks implausible, and waits to be accepted"),
        _ => return None,
    };
    Some(Finding::warning(
        "guides",
        said,
        format!("playgate epg sources {name}"),
    ))
}

fn listed(body: &Value, member: &str, finding: impl Fn(String) -> Finding) -> Vec<Finding> {
    let parts = body.get(member).and_then(Value::as_object);
    let parts = parts.into_iter().flatten();
    parts
        .map(|(part, why)| finding(format!("{part}: {}", why.as_str().unwrap_or_default())))
        .collect()
}
