//! Planned and stored data of a run, serialised as JSON.

mod advise;
mod facts;
mod figure;
pub mod figures;
mod gate;
mod order;
mod overload;
mod profile;
pub mod rates;
mod run;
mod search;
mod strategy;
mod trial;
mod verdict;
mod warm_up;

pub use advise::{AdviseGoal, AdviseLimit, AdvisePart, AdviseWeight};
pub use facts::{FleetFacts, clock_error_max_ns};
pub use figure::{Figure, FigureMap, Quantile, Source, Unit};
pub use gate::{GateGoal, GateLimit};
pub use netns::record as network;
pub use order::{IdleOrder, LoadOrder};
pub use overload::{CapacitySource, OverloadGoal, Pulse};
pub use profile::Profile;
pub use run::{Run, RunHeader, TrialRecord, requests_answered};
pub use search::{LatencyLimit, SearchGoal, Varied};
pub use strategy::{ProbeResult, Strategy, SweepGoal, TrialOutcome, UntilGoal};
pub use trial::{Trial, Workload, commands};
pub use verdict::{Bound, Check, Verdict, VerdictKind};
pub use warm_up::WarmUp;
