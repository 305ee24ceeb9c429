//! The options of every command, and the configuration that they name.

use std::path::PathBuf;

use clap::Args;

use crate::output::{self, Failure};
use playgate_config::{CONFIG_FILE, ConfigProblems, Inputs, Loaded, load, read};

const HEADING: &str = "Global options";

#[derive(Args)]
pub(crate) struct Global {
    /// Configuration file [env: PLAYGATE_CONFIG] [default: /etc/playgate/playgate.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    pub(crate) config: Option<PathBuf>,
    /// Data directory
    #[arg(long, global = true, value_name = "DIR", help_heading = HEADING)]
    pub(crate) data_dir: Option<PathBuf>,
}

impl Global {
    /// Takes the configuration file from the environment, unless an option names it.
    pub(crate) fn or_environment(mut self) -> Self {
        let named = std::env::var_os(CONFIG_FILE).filter(|path| !path.is_empty());
        self.config = self.config.or_else(|| named.map(PathBuf::from));
        self
    }

    pub(crate) fn inputs(&self) -> Result<Inputs, Failure> {
        let mut inputs = Inputs::from_process(self.config.clone());
        if let Some(directory) = &self.data_dir {
            let text = directory
                .to_str()
                .ok_or_else(|| Failure::usage("--data-dir is not UTF-8"))?;
            inputs
                .flags
                // The flag is a layer of the configuration, so that precedence and messages are the same as for any
                // other key.
                .push(("data_dir", "--data-dir", text.to_owned()));
        }
        Ok(inputs)
    }

    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        let loaded = load_at_start(&self.inputs()?)?;
        output::use_zone(loaded.config.schedule.zone);
        Ok(loaded)
    }
}

pub(crate) fn config_failure(problems: &ConfigProblems) -> Failure {
    let listed = problems.to_string().replace('\n', "\n  ");
    Failure::usage(format!("invalid configuration\n  {listed}"))
}

pub(crate) fn load_at_start(inputs: &Inputs) -> Result<Loaded, Failure> {
    load(inputs).map_err(|problems| config_failure(&problems))
}

pub(crate) fn load_and_check(inputs: &Inputs) -> Result<Loaded, ConfigProblems> {
    let (loaded, mut problems) = read(inputs);
    for wrong in loaded
        .iter()
        .flat_map(|loaded| playgate_app::check(&loaded.config))
    {
        // The files that keys name are read here too: an unusable certificate or template must not be found only at the
        // restart.
        problems.add(None, wrong.to_string());
    }
    problems.or(loaded)
}
