//! The loads of an experiment: one for each combination of its lists.

use std::num::NonZeroU32;

use load::LoadConfig;
use load::config::validate::broken;
use load::config::{self, HttpTraffic, Loop, Pace, Popularity, RateProfile, RequestTimeout, Requests, Sizes};
use traffic::trace::Column;
use wire::ServiceSpec;

use super::experiment::Experiment;
use super::http::Http;
use super::one_or_many::OneOrMany;
use super::tls::Tls;
use super::trace::Trace;
use super::units::Size;
use super::workload::{Schedule, Service, WorkloadSpec};

impl Experiment {
    /// Tests whether the workload lists the requests to all servers of `http`.
    pub(super) fn has_requests(&self) -> bool {
        self.workload.http.as_ref().is_some_and(Http::has_requests)
    }

    /// Returns the different paths of the targets' URLs; a URL without a path has `/`. `None` if the paths do not come from URLs,
    /// but from a list of requests or from the size of a response.
    pub(crate) fn target_paths(&self) -> Option<Vec<String>> {
        let urls = || self.target.values().map(|target| &target.url);
        if self.workload.service != Service::Http
            || self.has_requests()
            || self.workload.response.is_some() && urls().all(|url| url.path().is_none())
        {
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
    /// adds the placement and the seed. Reads the trace. Fails on a missing size, or a wrong value of `kv` or `http`.
    pub fn loads(&self) -> Result<Vec<LoadConfig>, String> {
        let Some(trace) = &self.workload.trace else { return self.loads_with(None) };
        let trace = trace.scan(|column| self.refusal(column)).map_err(|reason| format!("workload.trace.{reason}"))?;
        let loads = self.loads_with(Some(trace))?;
        // Only the file tells whether it has connections.
        match loads.iter().find_map(broken) {
            Some(rule) => Err(rule.to_string()),
            None => Ok(loads),
        }
    }

    /// Returns why a replay cannot have the values of a column.
    fn refusal(&self, column: Column) -> Option<&'static str> {
        let http = self.workload.http.as_ref();
        let has_paths = self.has_requests() || self.target_paths().is_some();
        match column {
            Column::Connection => None,
            _ if self.workload.service != Service::Http => {
                Some("only the service `http` has messages of several sizes; use --service http")
            }
            Column::RequestBytes if http.is_some_and(Http::has_bodies) => {
                Some("the requests have bodies of their own; remove those")
            }
            Column::RequestBytes => {
                let paths = self.target_paths().or_else(|| Some(http?.paths.as_ref()?.0.clone()));
                paths.is_some_and(|it| it.len() > 1).then_some("there are several paths; use one")
            }
            Column::ResponseBytes => has_paths.then_some(
                "the path of the requests is given, and only the servers' /bytes/N has N bytes; use a URL without a path, and add --response",
            ),
        }
    }

    /// Returns the loads without reading the trace, of which only the keys are known.
    pub fn unread_loads(&self) -> Result<Vec<LoadConfig>, String> {
        self.loads_with(self.workload.trace.as_ref().map(Trace::unread))
    }

    fn loads_with(&self, trace: Option<config::Trace>) -> Result<Vec<LoadConfig>, String> {
        let (workload, phases) = (&self.workload, &self.phases);
        let profile = workload.rate_profile.as_ref().map(|profile| &profile.0).filter(|_| trace.is_none());
        // Rate and length of a window that does not have those of the keys.
        let own_rate = trace.as_ref().map(config::Trace::rate_per_s).or(profile.map(RateProfile::mean_per_s));
        let own_ns = trace.as_ref().map(config::Trace::window_ns).or(profile.map(RateProfile::length_ns));
        // A closed loop has no rate, because its rate is the result.
        let rates = workload.rate.as_ref().filter(|_| trace.is_none() && !workload.is_closed());
        let rates = rates.map_or(vec![own_rate], |rates| rates.0.iter().map(|rate| Some(rate.0)).collect());
        let is_choosing = trace.as_ref().is_none_or(|trace| !trace.has_connections);
        let kv = workload.kv.clone().unwrap_or_default();
        // The memory of external servers is unknown.
        if workload.service.has_records() && self.architectures.0.iter().any(|it| it.ours().is_some()) {
            kv.check().map_err(|reason| format!("workload.kv.{reason}"))?;
        }
        // An external server may serve content of another size at `/bytes/N`. The client still detects a response whose
        // length differs from that of the first response.
        let sizes = trace.as_ref().map_or(&[][..], |trace| trace.sizes.as_slice());
        let http = match workload.service {
            Service::Http => Some(self.http(sizes).map_err(|reason| format!("workload.http.{reason}"))?),
            _ => None,
        };
        let common =
            self.client.configure(LoadConfig::new(workload.transport.any_address(), ServiceSpec::HTTP)).with(|it| {
                it.kv = workload.service.has_records().then(|| kv.traffic());
                it.http = http;
                it.client.tls = workload.tls.as_ref().map(Tls::client);
                it.client.processes = self.processes().get();
            });
        // Otherwise the path is `/bytes/N`.
        let content = workload.response.filter(|_| self.has_requests() || self.target_paths().is_some());
        let mut loads = Vec::new();
        for connections in workload.targets().iter().map(|targets| targets.get()) {
            let service = workload.service(connections, content)?;
            let load = common.clone().with(|it| (it.connections, it.service) = (connections, service));
            for &idle in &workload.idle.0 {
                for active in workload.active.0.iter().map(|share| share.0) {
                    for &rate_per_s in &rates {
                        let mut phases = phases.of_load(rate_per_s, workload.requests_per_connection);
                        phases.measure_ns = own_ns.unwrap_or(phases.measure_ns);
                        let requests = |schedule| Requests {
                            pace: Pace { rate_per_s, schedule, rate_profile: profile.cloned() },
                            trace: trace.clone(),
                            active: if is_choosing { active } else { 1.0 },
                            popularity: if is_choosing && !workload.no_overlap {
                                workload.popularity
                            } else {
                                Popularity::Uniform
                            },
                        };
                        for &schedule in &workload.schedule.0 {
                            let the_loop = workload.the_loop(schedule, requests, self.client.request_timeout())?;
                            let idle = if workload.service == Service::Udp { 0 } else { idle };
                            let set =
                                |it: &mut LoadConfig| (it.idle, it.the_loop, it.phases) = (idle, the_loop, phases);
                            loads.push(load.clone().with(set));
                        }
                    }
                }
            }
        }
        Ok(loads)
    }

    /// Returns the requests of `http`, with the recorded sizes if there are any. An error begins with the key.
    fn http(&self, sizes: &[Sizes]) -> Result<HttpTraffic, String> {
        let response = self.workload.response;
        let mut http = self.workload.http.clone().unwrap_or_default();
        http.paths = self.target_paths().map(OneOrMany).or(http.paths);
        let are_ours = self.exec.is_empty() && self.target.is_empty();
        if sizes.is_empty() { http.traffic(response, are_ours) } else { http.replayed(sizes, response, are_ours) }
    }
}

impl WorkloadSpec {
    /// Returns the loop of the service and the schedule, with the settings that it has. [`Experiment::unused`] names the others.
    fn the_loop(
        &self,
        schedule: Schedule,
        requests: impl FnOnce(config::Schedule) -> Requests,
        request_timeout: Option<RequestTimeout>,
    ) -> Result<Loop, String> {
        let think = self.think.0;
        let requests_per_connection = self.requests_per_connection.map(NonZeroU32::get);
        Ok(match (self.service, schedule.open().map(requests), requests_per_connection) {
            (Service::Stream, ..) => Loop::Stream,
            (Service::Udp, Some(requests), _) => Loop::Datagrams(requests),
            (_, Some(requests), None) => Loop::Open { requests, request_timeout, no_overlap: self.no_overlap },
            (_, Some(Requests { trace: Some(_), .. }), Some(_)) => {
                return Err("workload.trace: needs lasting connections; remove requests-per-connection".to_owned());
            }
            (_, Some(Requests { pace, .. }), Some(requests_per_connection)) => {
                Loop::Sessions { requests_per_connection, pace }
            }
            (_, None, None) => Loop::Closed { think, pipeline: self.pipeline.map_or(1, NonZeroU32::get) },
            (_, None, Some(requests_per_connection)) => Loop::ClosedSessions { requests_per_connection, think },
        })
    }

    /// Returns the server's service. Only `udp` uses `ports`, the number of its ports, and only `http` the size of its `content`.
    fn service(&self, ports: u32, content: Option<Size>) -> Result<ServiceSpec, String> {
        let bytes = |key: &str, size: Option<Size>| {
            let missing = || format!("workload.{key}: missing; add a size such as \"128B\" (--{key} 128B)");
            size.map(|size| size.0).ok_or_else(missing)
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
            Service::Kv => self.kv.clone().unwrap_or_default().kv(),
            Service::Redis => self.kv.clone().unwrap_or_default().redis(),
            Service::Http => self.http.clone().unwrap_or_default().service(content),
            Service::Stream => self.stream.clone().unwrap_or_default().service(),
        })
    }
}
