//! Whether this host can run a server: the one check for a server that starts, and for a plan that asks before.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::config::ServeConfig;
use crate::spec::controllers::Controllers;
use crate::spec::tls::Tls;

/// The kernel's answers to whether it can do something. Each needs an attempt, which takes descriptors and memory, so a plan of many
/// servers asks once.
#[derive(Default)]
pub struct KernelAnswers(BTreeMap<String, Result<(), String>>);

impl KernelAnswers {
    /// Returns the answer about `what`, by `attempt` at the first time.
    pub fn get(&mut self, what: &impl Debug, attempt: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        self.0.entry(format!("{what:?}")).or_insert_with(attempt).clone()
    }
}

impl ServeConfig {
    /// Returns the reasons why this host cannot run the server, each with the name of the option that it is about: `architecture`,
    /// `service`, `simulated-work`, or a key of the table `server`. Whether system calls can be counted shows at the start.
    pub fn problems(&self, kernel: &mut KernelAnswers) -> Vec<(&'static str, String)> {
        let Self { architecture, accept, service, listen, read_budget_bytes, controllers, datagrams, .. } = self;
        let (architecture, accept) = (*architecture, *accept);
        let mut can_run = || kernel.get(&(accept, architecture), || accept.can_run(architecture));
        let can_accept = accept.check(architecture).and_then(|()| can_run());
        let controller = match controllers {
            Controllers { pool: Some(_), .. } => "pool-control",
            Controllers { batch: Some(_), .. } => "batch-control",
            Controllers { .. } => "admission",
        };
        let poll = |poll: crate::BusyPoll| poll.check_address(listen).and_then(|()| architecture.can_busy_poll(poll));
        let batches = datagrams.check(service).and_then(|()| architecture.can_batch(*datagrams));
        let checks = [
            ("architecture", kernel.get(&architecture.to_string(), || architecture.can_run())),
            ("accept", can_accept),
            ("accept", accept.check_address(listen)),
            ("architecture", architecture.can_listen(listen)),
            ("service", architecture.can_serve(service)),
            ("accept", accept.check_service(architecture.model, service)),
            ("read-budget", read_budget_bytes.check(service)),
            ("read-budget", architecture.can_bound_reads(*read_budget_bytes, service)),
            (controller, controllers.check(architecture)),
            ("simulated-work", self.work.as_ref().map_or(Ok(()), |work| work.check(service))),
            ("stall", self.stall.map_or(Ok(()), |stall| stall.check(architecture, service))),
            ("busy-poll", self.busy_poll.map_or(Ok(()), poll)),
            (if datagrams.offload { "datagram-offload" } else { "datagram-batch" }, batches),
            ("tls", self.tls.as_ref().map_or(Ok(()), |_| Tls::check(service))),
        ];
        checks.into_iter().filter_map(|(option, checked)| Some((option, checked.err()?))).collect()
    }
}
