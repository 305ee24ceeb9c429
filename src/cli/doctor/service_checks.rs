//! Checks of the service: addresses, proxy, certificate, mail server, telemetry forwarding, store.

use std::net::IpAddr;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::finding::DoctorFinding;
use super::playable;
use crate::client::{Admin, missing_media, path};
use crate::global::Global;
use crate::output::{self, CommandResult, Failure, members};
use playgate_config::{Config, ListenAddress, Loaded};
use playgate_ports::{Clock as _, RequestTarget, SystemClock};

const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn check_configuration(loaded: &Loaded) -> Vec<DoctorFinding> {
    let config = &loaded.config;
    let mut findings = vec![addresses(config), proxies(config)];
    findings.extend(certificate(config));
    findings.push(mail(config).await);
    findings.extend(sink(config).await);
    let warnings = loaded.warnings.iter();
    findings.extend(
        warnings.map(|warning| {
            DoctorFinding::warning("configuration", warning, "playgate config show")
        }),
    );
    findings
}

fn is_local(address: &ListenAddress) -> bool {
    match address {
        ListenAddress::Tcp { host, .. } => {
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        ListenAddress::Unix(_) => true,
        // The address is in the socket unit; assume that it is public.
        ListenAddress::Passed(_) => false,
    }
}

fn addresses(config: &Config) -> DoctorFinding {
    let public = config.server.listen.iter().chain(&config.tls.listen);
    if !is_local(&config.ops.listen) {
        return DoctorFinding::warning(
            "addresses",
            format!(
                "operations listener {} is reachable from other machines",
                config.ops.listen
            ),
            "set `ops.listen` to a loopback address or to an address in the operators' network",
        );
    }
    if config.links_lead_here() {
        return DoctorFinding::warning(
            "addresses",
            "links in mails lead to this machine itself: `public_url` is not set, or names this machine",
            "set `public_url` to the address that viewers use",
        );
    }
    if config.server.public_url.is_some() {
        return DoctorFinding::ok("addresses", "`public_url` is set");
    }
    if public.clone().all(is_local) {
        return DoctorFinding::ok("addresses", "the service is reachable on this machine only");
    }
    DoctorFinding::warning(
        "addresses",
        "`public_url` is not set: links in mails use the address of the first listener",
        "set `public_url` to the address that clients use",
    )
}

fn proxies(config: &Config) -> DoctorFinding {
    let mut public = config.server.listen.iter().chain(&config.tls.listen);
    let trusted = !config.http.trusted_proxies.is_empty();
    if public.clone().all(is_local) && !trusted {
        return DoctorFinding::warning(
            "proxy",
            "listening on loopback only and no trusted proxy set: all clients share one rate limit",
            "set `http.trusted_proxies` to the proxy's address; ignore this if there is no proxy",
        );
    }
    // Clients that bypass the proxy meet none of its filters and limits.
    if trusted && config.tls.listen.is_empty() && public.any(|address| !is_local(address)) {
        return DoctorFinding::warning(
            "proxy",
            "a proxy is trusted, but clients can bypass it",
            "set `listen` to an address that only the proxy can reach",
        );
    }
    DoctorFinding::ok(
        "proxy",
        if trusted {
            "trusted proxy configured"
        } else {
            "none"
        },
    )
}

fn certificate(config: &Config) -> Option<DoctorFinding> {
    const FIX: &str = "renew `tls.cert` and `tls.key`; the server reloads them by itself";
    // An unusable key pair is reported as a configuration problem.
    let tls = playgate_app::tls(config).ok().flatten()?;
    Some(match tls.warning(SystemClock.now()) {
        Some(warning) => DoctorFinding::problem("tls", warning, FIX),
        None => DoctorFinding::ok("tls", "the certificate is valid"),
    })
}

async fn mail(config: &Config) -> DoctorFinding {
    let smtp = &config.smtp;
    let Some(host) = smtp.server_name() else {
        return DoctorFinding::warning(
            "mail",
            "no mail server set: mail is stored, not sent; see `playgate mail list`",
            "set `smtp.host` and `mail.from`",
        );
    };
    // Only connects: a test mail would need a recipient.
    match connected(&host, smtp.port()).await {
        Ok(finding) => DoctorFinding::ok("mail", finding),
        Err(reason) => DoctorFinding::problem(
            "mail",
            reason,
            "playgate mail test ADDRESS (shows the SMTP dialogue)",
        ),
    }
}

/// Checks that the forwarding sink accepts connections. Delivery problems are reported by the running
/// service.
async fn sink(config: &Config) -> Option<DoctorFinding> {
    const FIX: &str = "fix the sink or `telemetry.forward.url`; unsent events stay queued";
    let url = config.telemetry_forward.url.as_ref()?;
    let connected = match RequestTarget::parse(url) {
        Ok(site) => {
            let (host, port) = site.address();
            connected(host, port).await
        }
        Err(error) => Err(error.to_string()),
    };
    Some(match connected {
        Ok(finding) => DoctorFinding::ok("forwarding", finding),
        Err(reason) => DoctorFinding::warning("forwarding", reason, FIX),
    })
}

async fn connected(host: &str, port: u16) -> Result<String, String> {
    match timeout(TIMEOUT, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(format!("{host}:{port} accepts connections")),
        Ok(Err(error)) => Err(format!("{host}:{port}: {error}")),
        Err(_) => Err(format!("{host}:{port}: no answer")),
    }
}

/// Connects to the running server or opens the store; reports a finding if neither works.
pub(super) async fn connect(global: &Global, findings: &mut Vec<DoctorFinding>) -> Option<Admin> {
    if let Ok(loaded) = global.load()
        && let Ok(None) = Admin::running(&loaded).await
    {
        let place = loaded.config.server.data_dir.display();
        findings.push(DoctorFinding::problem(
            "service",
            format!("no server is running on {place}"),
            "systemctl start playgate, or playgate serve; if one is running, pass its --data-dir or --config",
        ));
    }
    // Without a server this opens the store itself, which shows whether the next start would work.
    match global.admin().await {
        Ok(service) => Some(service),
        Err(failure) => {
            let fix = failure
                .advice()
                .unwrap_or("playgate store verify")
                .to_owned();
            findings.push(DoctorFinding::problem("store", failure.message(), fix));
            None
        }
    }
}

/// Checks what the service reports about itself: readiness, partners, EPG sources, ratings.
pub(super) async fn check_store(
    service: &mut Admin,
    findings: &mut Vec<DoctorFinding>,
) -> CommandResult {
    let response = service.ask(Method::GET, "/readyz", None).await?;
    // The body of an error response lists the reasons.
    let body = response.unwrap_or_else(|refusal| refusal.into_body());
    findings.extend(listed(&body, "reasons", |said| {
        DoctorFinding::problem("service", said, "see the log and docs/operating.md")
    }));
    findings.extend(listed(&body, "warnings", |said| {
        let advice = match said.starts_with("clock: ") {
            true => "correct the system clock, then run: playgate clock accept",
            false => "see the log",
        };
        DoctorFinding::warning("service", said, advice)
    }));
    if findings.iter().all(|finding| finding.part != "service") {
        findings.push(DoctorFinding::ok("service", "running"));
    }
    let partners = service.get(&path(&["partners"])).await?;
    if members::all(&partners).is_empty() {
        let said = "no partner exists, so every client is rejected";
        findings.push(DoctorFinding::warning(
            "partners",
            said,
            "playgate partner add NAME",
        ));
    }
    findings.extend(lab_partners(&partners));
    let sources = service.get(&path(&["epg", "sources"])).await?;
    findings.extend(members::all(&sources).iter().filter_map(guide));
    let figures = service.text("/metrics").await?;
    findings.extend(unrated(&figures));
    Ok(())
}

/// Warns of lab partners: anyone with the token of an operator can make their requests fail.
fn lab_partners(partners: &Value) -> Option<DoctorFinding> {
    let labs = members::all(partners).iter();
    let labs = labs.filter(|partner| partner["kind"] == "lab");
    let names: Vec<&str> = labs
        .filter_map(|partner| partner["name"].as_str())
        .collect();
    let first = names.first()?;
    Some(DoctorFinding::warning(
        "partners",
        format!("lab partners exist, for tests only: {}", names.join(", ")),
        format!("playgate partner remove '{first}'; ignore this if the installation is a lab"),
    ))
}

/// Reports livestreams and assets that no player can play although users are granted them.
pub(super) async fn playability(
    service: &mut Admin,
    config: &Config,
) -> Result<Vec<DoctorFinding>, Failure> {
    let stuck = playable::unplayable(service, config).await?;
    let finding =
        |(said, fix): (String, &'static str)| DoctorFinding::warning("playback", said, fix);
    Ok(stuck.into_iter().map(finding).collect())
}

/// Share of unrated broadcasts above which the ratings need attention. A smaller share is usually news and
/// sport, which rating boards do not rate.
const UNRATED_PERCENT: u64 = 10;

fn unrated(figures: &str) -> Option<DoctorFinding> {
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
        DoctorFinding::ok("ratings", said)
    } else {
        DoctorFinding::warning(
            "ratings",
            format!("{said}: with `parental.unrated` = \"pin\" they require the PIN"),
            "set `unrated` on a source or a livestream, add rating systems with `epg.ratings`, or set `parental.unrated`",
        )
    })
}

pub(super) async fn countries(
    service: &mut Admin,
    config: &Config,
) -> Result<Option<DoctorFinding>, Failure> {
    const FIX: &str = "set `geo.database`, or `geo.header` if a proxy sends the country";
    // A source other than the user's own claim is configured.
    if config.geo.database.is_some() || config.geo.header.is_some() {
        return Ok(None);
    }
    let catalogue = service.catalog().await?;
    let offers = members::elements(&catalogue, "offer").iter();
    // An offer without `countries` holds in every country.
    let is_limited = |offer: &&Value| !members::elements(offer, "countries").is_empty();
    let limited = offers.filter(is_limited).count();
    if limited == 0 {
        return Ok(None);
    }
    let offers = format!("offers limited to countries: {limited}");
    let said = if config.geo.profile_fallback {
        format!("{offers}; the country is known only from users' sign-up data")
    } else {
        format!("{offers}; the country of users is unknown, so no user may play them")
    };
    Ok(Some(DoctorFinding::warning("countries", said, FIX)))
}

pub(super) async fn media(
    service: &mut Admin,
    config: &Config,
) -> Result<Option<DoctorFinding>, Failure> {
    const FIX: &str = "add the files or change the catalogue; until then players get 404";
    let missing = missing_media::missing(service, &config.origin.media_dir).await?;
    Ok(missing.map(|said| DoctorFinding::warning("media", said, FIX)))
}

fn guide(source: &Value) -> Option<DoctorFinding> {
    let name = output::text(source, "name");
    let said = match source["state"].as_str()? {
        "failing" => format!("{name}: import failed: {}", output::text(source, "error")),
        "held" => format!("{name}: import held for approval"),
        "new" => {
            // Not good and not bad: its first fetch has not been made.
            return Some(DoctorFinding::ok("epg", format!("{name}: not fetched yet")));
        }
        _ => return None,
    };
    Some(DoctorFinding::warning(
        "epg",
        said,
        format!("playgate epg sources {name}"),
    ))
}

fn listed(
    body: &Value,
    member: &str,
    finding: impl Fn(String) -> DoctorFinding,
) -> Vec<DoctorFinding> {
    let parts = body.get(member).and_then(Value::as_object);
    let parts = parts.into_iter().flatten();
    parts
        .map(|(part, why)| finding(format!("{part}: {}", why.as_str().unwrap_or_default())))
        .collect()
}
