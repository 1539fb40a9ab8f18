//! Events and outcomes of a run.

use crate::record::{Trial, TrialRecord};

/// An event of a run.
#[derive(Debug)]
pub enum RunEvent<'a> {
    /// This trial begins.
    Started(&'a Trial),
    /// A client reports its progress.
    Load(&'a load::Event),
    /// A trial is committed with this record.
    Finished(&'a TrialRecord),
    /// This planned trial is skipped, because lower rates were past saturation.
    Pruned(&'a Trial),
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The strategy needs no further trials on this host.
    Complete,
    /// The user stopped the run.
    Stopped,
    /// A worker was lost, and the run may not continue without it.
    WorkerLost,
}
