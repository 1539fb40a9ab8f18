//! Experiments that come with the binary: runnable documentation.

use crate::experiment::Experiment;

/// A row of [`PRESETS`].
#[derive(Debug)]
pub struct Preset {
    /// Its name: what `muxbench run NAME` takes.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! presets {
    ($($name:literal)+) => {
        &[$(Preset { name: $name, text: include_str!(concat!("../../../experiments/", $name, ".toml")) }),+]
    };
}

/// Every preset there is.
#[cfg(target_os = "linux")]
pub const PRESETS: &[Preset] = presets!["compare" "smoke" "kawai2006" "kawai2008-http" "kawai2008-minimised" "kawai2008-saturated" "kawai2008-synchronisation" "maharjan2012-http" "maharjan2012-idle" "maharjan2012-udp" "voras2009" "welsh2001-connections" "welsh2001-10k" "welsh2001-idle"];

/// Every preset there is. The papers' are Linux's: they compare epoll.
#[cfg(not(target_os = "linux"))]
pub const PRESETS: &[Preset] = presets!["compare" "smoke"];

/// The preset of that name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// It as an experiment; where there is no epoll, with what the system has in its place.
    ///
    /// # Panics
    /// Never: a test parses them all.
    pub fn experiment(&self) -> Experiment {
        let own = format!("\"{}\"", server::mechanism::DEFAULT);
        Experiment::parse(&self.text.replace("\"epoll\"", &own), self.name).expect("a preset parses")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_parses_and_bears_its_name() {
        for preset in PRESETS {
            let experiment = preset.experiment();
            assert_eq!(experiment.name, preset.name);
            assert!(!experiment.about.is_empty());
        }
    }
}
