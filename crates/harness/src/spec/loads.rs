//! The loads of an experiment: one for each combination of its lists.

use std::num::NonZeroU32;

use load::LoadConfig;
use wire::ServiceSpec;

use super::experiment::Experiment;
use super::http::Http;
use super::one_or_many::OneOrMany;
use super::units::Size;
use super::workload::{Service, Workload};

impl Experiment {
    /// Tests whether the workload lists the requests to all servers of `http`.
    pub(super) fn has_requests(&self) -> bool {
        self.workload.http.as_ref().is_some_and(Http::has_requests)
    }

    /// Returns the different paths of the targets' URLs; a URL without a path has `/`. `None` if the paths do not come from URLs,
    /// but from a list of requests or from the size of a response.
    pub(crate) fn target_paths(&self) -> Option<Vec<String>> {
        let urls = || self.target.values().map(|target| &target.url).filter(|url| url.service() == Some(Service::Http));
        if self.has_requests() || self.workload.response.is_some() && urls().all(|url| url.path().is_none()) {
            return None;
        }
        let mut paths: Vec<String> = Vec::new();
        for path in urls().map(|url| url.path().unwrap_or("/")) {
            if !paths.iter().any(|known| known == path) {
                paths.push(path.to_owned());
            }
        }
        (!paths.is_empty()).then_some(paths)
    }

    /// Returns a load for each combination of connections, idle connections, active share, rate and schedule. The plan
    /// adds the placement and the seed. Fails on a missing size, or a wrong value of `kv` or `http`.
    pub fn loads(&self) -> Result<Vec<LoadConfig>, String> {
        let (workload, client, phases) = (&self.workload, &self.client, &self.phases);
        // A closed loop has no rate, because its rate is the result.
        let rates =
            workload.rate.as_ref().map_or(vec![None], |rates| rates.0.iter().map(|rate| Some(rate.0)).collect());
        let kv = workload.kv.clone().unwrap_or_default();
        kv.check().map_err(|reason| format!("workload.kv.{reason}"))?;
        // An external server may serve content of another size at `/bytes/N`. The client still detects a response whose
        // length differs from that of the first response.
        let http = (workload.service == Service::Http || workload.http.is_some()).then(|| {
            let mut http = workload.http.clone().unwrap_or_default();
            http.paths = self.target_paths().map(OneOrMany).or(http.paths);
            let are_ours = self.exec.is_empty() && self.target.is_empty();
            http.traffic(workload.response, are_ours).map_err(|reason| format!("workload.http.{reason}"))
        });
        let common = LoadConfig {
            think: workload.think.0,
            requests_per_connection: workload.requests_per_connection.map(NonZeroU32::get),
            popularity: workload.popularity,
            kv: (workload.service == Service::Kv || workload.kv.is_some()).then(|| kv.traffic()),
            http: http.transpose()?,
            pacing: client.pacing,
            roles: client.roles,
            clients: client.clients.map_or(1, NonZeroU32::get),
            processes: self.processes().get(),
            clock: client.clock,
            timestamps: client.timestamps,
            timeout_ns: client.timeout.0,
            ..LoadConfig::new(workload.transport.any_address(), ServiceSpec::Http { folder: None })
        };
        let mut loads = Vec::new();
        for connections in workload.targets().iter().map(|targets| targets.get()) {
            let load = LoadConfig { connections, service: workload.service(connections)?, ..common.clone() };
            for &idle in &workload.idle.0 {
                for active in workload.active.0.iter().map(|share| share.0) {
                    for &rate_per_s in &rates {
                        let phases = phases.of_load(rate_per_s, workload.requests_per_connection);
                        let load =
                            |&schedule| LoadConfig { idle, active, rate_per_s, schedule, phases, ..load.clone() };
                        loads.extend(workload.schedule.0.iter().map(load));
                    }
                }
            }
        }
        Ok(loads)
    }
}

impl Workload {
    /// Returns the server's service. Only `udp` uses `ports`, the number of its ports.
    fn service(&self, ports: u32) -> Result<ServiceSpec, String> {
        let bytes = |key: &str, size: Option<Size>| {
            size.map(|size| size.0).ok_or_else(|| format!("workload.{key}: missing; add a size such as \"128B\""))
        };
        let sizes = || Ok::<_, String>((bytes("request", self.request)?, bytes("response", self.response)?));
        Ok(match self.service {
            Service::Fixed => {
                let (request_bytes, response_bytes) = sizes()?;
                ServiceSpec::Fixed { request_bytes, response_bytes }
            }
            Service::Udp => {
                let (request_bytes, response_bytes) = sizes()?;
                ServiceSpec::Udp { ports, request_bytes, response_bytes }
            }
            Service::Kv => self.kv.clone().unwrap_or_default().service(),
            Service::Http => self.http.clone().unwrap_or_default().service(),
            Service::Stream => self.stream.clone().unwrap_or_default().service(),
        })
    }
}
