//! Presets: experiments built into the binary. They are also examples of experiment files.

use crate::spec::{Candidate, Experiment};

/// A built-in experiment.
#[derive(Debug)]
pub struct Preset {
    /// The name for `muxbench run NAME`.
    pub name: &'static str,
    /// The text of the experiment file.
    pub text: &'static str,
}

macro_rules! presets {
    ($($name:literal)+) => {
        &[$(Preset { name: $name, text: include_str!(concat!("../../../../experiments/", $name, ".toml")) }),+]
    };
}

/// All presets.
#[cfg(target_os = "linux")]
pub const PRESETS: &[Preset] = presets![
    "compare"
    "smoke"
    "kawai2006"
    "kawai2008-http"
    "kawai2008-minimised"
    "kawai2008-saturated"
    "kawai2008-synchronisation"
    "maharjan2012-http"
    "maharjan2012-idle"
    "maharjan2012-udp"
    "voras2009"
    "welsh2001-connections"
    "welsh2001-10k"
    "welsh2001-idle"
];

/// All presets. The presets of papers compare epoll and so exist only on Linux.
#[cfg(not(target_os = "linux"))]
pub const PRESETS: &[Preset] = presets!["compare" "smoke"];

/// Finds a preset by name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// Finds the preset that reproduces a paper. Fails on a system that lacks it.
pub fn find_paper(name: &str) -> Result<&'static Preset, String> {
    find(name).ok_or_else(|| {
        format!(
            "{name}: this experiment uses mechanisms such as epoll that {} lacks; run it on Linux. `muxbench report FOLDER --paper \
             PAPER` shows its results on any system",
            std::env::consts::OS
        )
    })
}

impl Preset {
    /// Parses the preset. Where epoll is missing, the default mechanism of this system replaces it. Leaves out other architectures of
    /// the default comparison that this system or this build lacks.
    ///
    /// # Panics
    /// Never: a test parses all presets.
    pub fn experiment(&self) -> Experiment {
        let own = format!("\"{}\"", server::spec::mechanism::DEFAULT);
        let mut text = self.text.replace("\"epoll\"", &own);
        for name in ["io_uring", "tokio"].into_iter().filter(|name| name.parse::<Candidate>().is_err()) {
            text = text.replace(&format!(", \"{name}\""), "");
        }
        Experiment::parse(&text, self.name).expect("a preset parses")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_preset_names_the_system_that_has_it() {
        let error = find_paper("kawai1066").unwrap_err();
        assert!(error.starts_with("kawai1066: ") && error.contains(std::env::consts::OS), "{error}");
        assert!(error.contains("on Linux") && error.contains("muxbench report FOLDER --paper PAPER"), "{error}");
        #[cfg(target_os = "linux")]
        assert_eq!(find_paper("voras2009").unwrap().name, "voras2009");
        #[cfg(not(target_os = "linux"))]
        find_paper("voras2009").unwrap_err();
    }

    #[test]
    fn every_preset_parses_and_has_its_name() {
        for preset in PRESETS {
            let experiment = preset.experiment();
            assert_eq!(experiment.name, preset.name);
            assert!(!experiment.about.is_empty());
        }
    }
}
