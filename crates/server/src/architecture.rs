//! Architecture names: `MODEL[:THREADS][/MECHANISM]`.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::mechanism::{self, MechanismRow};
use crate::model::{self, ModelRow};
use crate::runtime;

/// What may be behind a name that is not known here.
const ELSEWHERE: &str = if cfg!(target_os = "linux") { "" } else { " on this system (some need Linux)" };

/// A model with its mechanism: how a server is built. Equal names are equal architectures.
#[derive(Clone, Copy)]
pub struct Architecture {
    /// Its row of [`model::MODELS`].
    pub model: &'static ModelRow,
    /// How many threads or processes it has; `None` where the model takes no number, or its own default is meant.
    pub threads: Option<NonZeroU32>,
    /// Its row of [`mechanism::MECHANISMS`]; `None` for models that take none.
    pub mechanism: Option<&'static MechanismRow>,
}

impl Architecture {
    /// One line on how it is built.
    pub fn about(&self) -> String {
        match self.mechanism {
            None => self.model.about.to_owned(),
            Some(mechanism) => format!("{}: {}", self.model.about, mechanism.about),
        }
    }

    /// What it needs of the kernel, besides what every Linux has; empty for most.
    pub fn needs(&self) -> String {
        let needs = [self.model.needs, self.mechanism.map_or("", |row| row.needs)];
        needs.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// Whether it can run here.
    ///
    /// # Errors
    /// Why not, and what may help.
    pub fn can_run(&self) -> Result<(), String> {
        (self.model.can_run)()?;
        self.mechanism.map_or(Ok(()), |row| (row.can_run)())
    }

    /// How many threads or processes wait for connections if it is a pool with room for `connections_max`; `None` if not.
    pub fn pool_size(&self, connections_max: u32) -> Option<u32> {
        self.model.is_pool().then(|| self.threads.map_or(connections_max, NonZeroU32::get))
    }

    /// Every architecture that the tables can build, in the tables' order, each model with its own number of threads.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for model in model::MODELS {
            if model.multiplexes {
                all.extend(mechanism::MECHANISMS.iter().map(|row| Self { model, threads: None, mechanism: Some(row) }));
            } else {
                all.push(Self { model, threads: None, mechanism: None });
            }
        }
        all
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.threads.map(|threads| format!(":{threads}")).unwrap_or_default();
        match self.mechanism {
            None => f.pad(&format!("{}{threads}", self.model.name)),
            // The mechanism alone is the short name of the single-threaded event-driven model.
            Some(mechanism) if self.model.name == "sped" => f.pad(mechanism.name),
            Some(mechanism) => f.pad(&format!("{}{threads}/{}", self.model.name, mechanism.name)),
        }
    }
}

impl fmt::Debug for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a name is no architecture.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown architecture `{name}`: {problem}; known: {known}")]
pub struct UnknownArchitecture {
    name: String,
    problem: String,
    known: String,
}

impl FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let unknown = |problem: String| UnknownArchitecture {
            name: name.to_owned(),
            problem,
            known: Self::all().iter().map(Self::to_string).collect::<Vec<_>>().join(", "),
        };
        let (model_name, mechanism_name) = match name.split_once('/') {
            Some((model, mechanism)) => (model, Some(mechanism)),
            None if mechanism::find(name).is_some() => ("sped", Some(name)),
            None => (name, None),
        };
        let (model_name, threads) = match model_name.split_once(':') {
            Some((model, threads)) => {
                let threads = threads.parse().map_err(|_| {
                    unknown(format!(
                        "`{threads}` is no number of threads; write a whole number above 0, as in {model}:4"
                    ))
                })?;
                (model, Some(threads))
            }
            None => (model_name, None),
        };
        let model = model::find(model_name).ok_or_else(|| {
            unknown(if runtime::FEATURES.contains(&model_name) {
                format!("`{model_name}` is not compiled in; build with `--features {model_name}`")
            } else {
                format!("no model `{model_name}`{ELSEWHERE}")
            })
        })?;
        if threads.is_some() && !model.takes_threads {
            return Err(unknown(format!("`{model_name}` takes no number of threads")));
        }
        let mechanism = match (model.multiplexes, mechanism_name) {
            (false, None) => None,
            (false, Some(_)) => return Err(unknown(format!("`{model_name}` takes no mechanism"))),
            (true, None) => Some(mechanism::find(mechanism::DEFAULT).expect("the default is in the table")),
            (true, Some(m)) => {
                Some(mechanism::find(m).ok_or_else(|| unknown(format!("no mechanism `{m}`{ELSEWHERE}")))?)
            }
        };
        Ok(Self { model, threads, mechanism })
    }
}

impl PartialEq for Architecture {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Architecture {}

impl Serialize for Architecture {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Architecture {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}
