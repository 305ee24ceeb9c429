//! `playgate doctor`: checks the whole installation; for each problem it names the command or setting that
//! fixes it.

mod finding;
mod fleet_checks;
mod host_checks;
mod playable;
mod service_checks;
mod support_bundle;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::global::{Global, load_and_check};
use crate::output::{self, CommandResult, Exit, Failure, Tone};
use finding::{CheckState, DoctorFinding};
use playgate_config::{ConfigProblems, Loaded};

/// Check configuration, clock, disk, store, fleet, TLS, mail, proxy and systemd unit; exit code 1 if a problem is
/// found
#[derive(Args)]
pub(crate) struct Doctor {
    /// Print a JSON array of {"part","state","finding","fix"}
    #[arg(long)]
    json: bool,
    /// Also write a support bundle without secrets (tar.gz)
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

pub(crate) async fn run(doctor: Doctor, global: &Global) -> CommandResult {
    let mut findings = vec![configuration(&load_and_check(&global.inputs()?))];
    let mut admin;
    let loaded = global.load().ok();
    if let Some(loaded) = &loaded {
        findings.extend(host_checks::findings(&loaded.config));
        findings.extend(service_checks::check_configuration(loaded).await);
        findings.extend(fleet_checks::findings(&loaded.config).await);
        admin = service_checks::connect(global, &mut findings).await;
    } else {
        // The checks of the running server still work with the configuration that it has loaded.
        admin = global.admin_with_invalid_config().await?;
    }
    if let Some(admin) = &mut admin {
        service_checks::check_store(admin, &mut findings).await?;
    }
    if let (Some(admin), Some(loaded)) = (&mut admin, &loaded) {
        findings.extend(service_checks::media(admin, &loaded.config).await?);
        findings.extend(service_checks::playability(admin, &loaded.config).await?);
        findings.extend(service_checks::countries(admin, &loaded.config).await?);
    }
    if let Some(file) = &doctor.bundle {
        support_bundle::write(file, &findings, loaded.as_ref(), admin.as_mut()).await?;
    }
    print_findings(&findings, doctor.json)?;
    if let Some(file) = &doctor.bundle {
        output::print_note(&format!("wrote {}", file.display()));
    }
    // Warnings do not fail the command.
    match findings
        .iter()
        .filter(|f| f.state == CheckState::Problem)
        .count()
    {
        0 => Ok(()),
        1 => Err(Failure::new(Exit::Failed, "1 problem found")),
        more => Err(Failure::new(Exit::Failed, format!("{more} problems found"))),
    }
}

fn configuration(result: &Result<Loaded, ConfigProblems>) -> DoctorFinding {
    match result {
        Ok(_) => DoctorFinding::ok("configuration", "valid"),
        Err(problems) => DoctorFinding::problem(
            "configuration",
            problems.to_string(),
            "fix it, then run: playgate config check",
        ),
    }
}

fn print_findings(findings: &[DoctorFinding], as_json: bool) -> CommandResult {
    if as_json {
        return output::json(&json!(findings));
    }
    for DoctorFinding {
        part,
        state,
        finding,
        fix,
    } in findings
    {
        let (mark, tone) = match state {
            CheckState::Ok => ("ok     ", Tone::Good),
            CheckState::Warning => ("warning", Tone::Doubtful),
            CheckState::Problem => ("PROBLEM", Tone::Bad),
        };
        let mark = output::tinted(mark, tone);
        output::line(&format!(
            "{mark}  {part:13}  {}",
            finding.replace('\n', "\n    ")
        ))?;
        if let Some(fix) = fix {
            output::line(&format!("{:24} -> {fix}", ""))?;
        }
    }
    Ok(())
}
