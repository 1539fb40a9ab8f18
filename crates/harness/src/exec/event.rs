//! Events of a run, and its end.

use crate::model::{Trial, TrialRecord};

/// An event while a run executes.
#[derive(Debug)]
pub enum RunEvent<'a> {
    /// A trial begins.
    Started {
        /// The trial.
        trial: &'a Trial,
    },
    /// A client reports its progress.
    Load(&'a load::Event),
    /// A trial is finished and committed.
    Finished {
        /// The stored record.
        record: &'a TrialRecord,
    },
    /// A planned trial is skipped: lower rates were past saturation.
    Pruned {
        /// The trial.
        trial: &'a Trial,
    },
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// All trials that the strategy asks for and that this host can run are finished.
    Complete,
    /// The user stopped the run.
    Stopped,
    /// A worker was lost, and the run was not to continue without it.
    WorkerLost,
}
