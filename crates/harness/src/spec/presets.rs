//! Presets: experiments built into the binary. They are also examples of experiment files.

use server::spec::mechanism::DEFAULT;

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
        &[$(Preset { name: $name, text: include_str!(concat!("../../experiments/", $name, ".toml")) }),+]
    };
}

/// All presets.
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
    "hermes2025-long"
    "hermes2025-short"
    "hermes2025-busy"
    "hermes2025-mixed"
    "hermes2025-stall"
];

/// Finds a preset by name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// Parses the preset, with this system's event queue in place of epoll. Leaves out architectures that this system or this build
    /// lacks.
    ///
    /// # Panics
    /// Never: a test parses all presets.
    pub fn experiment(&self) -> Experiment {
        let text = on_system(self.text, DEFAULT, |name| name.parse::<Candidate>().is_ok());
        Experiment::parse(&text, self.name).expect("a preset parses")
    }
}

/// Returns a preset with an event queue in place of epoll, and only known architectures.
fn on_system(text: &str, queue: &str, is_known: impl Fn(&str) -> bool) -> String {
    let mut preset: toml::Table = text.parse().expect("a test parses every preset");
    let adapt = |table: &mut toml::Table| {
        let Some(names) = table.get("architectures").and_then(toml::Value::as_array) else { return };
        let named = names.iter().filter_map(toml::Value::as_str).map(|name| match name.strip_prefix("epoll") {
            Some(variant) => format!("{queue}{variant}"),
            None => name.to_owned(),
        });
        let known: Vec<String> = named.filter(|name| is_known(name)).collect();
        table.insert("architectures".into(), known.into());
    };
    adapt(&mut preset);
    preset.get_mut("quick").and_then(toml::Value::as_table_mut).into_iter().for_each(adapt);
    preset.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_parses_and_has_its_name() {
        for preset in PRESETS {
            let experiment = preset.experiment();
            assert_eq!(experiment.name, preset.name);
            assert!(!experiment.about.is_empty());
        }
    }

    #[test]
    fn other_systems_have_their_event_queue_in_place_of_epoll() {
        let is_known = |name: &str| !name.starts_with("io_uring") && !["kqueue-et", "rt-signal", "mp"].contains(&name);
        let table = |preset: &str| -> toml::Table {
            on_system(find(preset).unwrap().text, "kqueue", is_known).parse().unwrap()
        };
        let of = |names: &toml::Value| -> Vec<String> {
            names.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
        };
        let names = |preset: &str| of(&table(preset)["architectures"]);
        assert_eq!(names("maharjan2012-udp"), ["select", "poll", "kqueue", "mt"]);
        assert_eq!(of(&table("maharjan2012-udp")["quick"]["architectures"]), ["select", "poll", "kqueue"]);
        assert_eq!(names("welsh2001-10k")[..3], ["kqueue-buffered", "poll-buffered", "mt-buffered"]);
        assert_eq!(names("voras2009")[..2], ["kqueue", "seda:2+4"]);
    }
}
