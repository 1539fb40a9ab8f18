//! A traffic profile: an experiment with the observed traffic.

use std::num::NonZeroU32;

use traffic::observe::estimate::{Connections, Observation, Requests};

use crate::spec::units::{Rate, Share, Size};
use crate::spec::{Experiment, OneOrMany, Service, presets};

/// The lowest active share that counts as all connections.
const ALL_ACTIVE: f64 = 0.995;
/// The least limit of open sessions.
const SESSIONS_MIN: usize = 10;

/// Returns the experiment of the preset `compare` with the observed traffic as its workload. Fails without requests.
pub fn experiment(observation: &Observation) -> Result<Experiment, String> {
    let port = observation.port;
    let Some(requests) = &observation.requests else {
        return Err(format!(
            "cannot write a traffic profile of port {port}: no request and response was seen; observe it under traffic, or \
             longer"
        ));
    };
    let mut experiment = presets::find("compare").expect("the preset exists").experiment();
    experiment.name = format!("port-{port}");
    experiment.about = format!("Traffic of port {port}, observed for {:.1} s", observation.window_ns as f64 / 1e9);
    let workload = &mut experiment.workload;
    workload.service = Service::Fixed;
    workload.request = Some(size(requests.request.bytes));
    workload.response = Some(size(requests.response.bytes));
    workload.rate = Some(OneOrMany(vec![rate(requests)]));
    let count = if let Some(per_connection) = requests.per_connection.filter(|_| requests.is_short_lived()) {
        let per_connection = per_connection.round().max(1.0);
        workload.requests_per_connection = NonZeroU32::new(per_connection as u32);
        workload.idle = OneOrMany(vec![silent(&observation.connections) as u32]);
        // A limit: sessions must not wait for each other.
        (2 * observation.connections.open.max.saturating_sub(silent(&observation.connections))).max(SESSIONS_MIN)
    } else {
        let share = observation.connections.active_share.filter(|share| *share > 0.0 && *share < ALL_ACTIVE);
        workload.active = OneOrMany(vec![Share(share.map_or(1.0, |share| (share * 1e4).round() / 1e4))]);
        (observation.connections.open.mean.round() as usize).max(1)
    };
    workload.connections = OneOrMany(NonZeroU32::new(count as u32).into_iter().collect());
    let text = text_of(observation, &experiment)?;
    Experiment::parse(&text, "traffic profile")
        .map_err(|error| format!("cannot write a traffic profile of port {port}: {error}"))
}

/// Returns an experiment as a file.
pub fn text_of(observation: &Observation, experiment: &Experiment) -> Result<String, String> {
    let text = toml::to_string(experiment).map_err(|error| error.to_string())?;
    let means = observation.requests.as_ref().map_or_else(String::new, means);
    Ok(format!("# Written by `muxbench observe`. The keys are those of any experiment file.\n{means}{text}"))
}

/// Returns comments about the sizes that are means.
fn means(requests: &Requests) -> String {
    let varied = [("request", &requests.request), ("response", &requests.response)];
    let varied = varied.into_iter().filter(|(_, message)| !message.is_constant);
    varied.map(|(key, _)| format!("# The sizes of {key}s vary. The key `{key}` is their mean.\n")).collect()
}

/// Returns the number of connections that stayed open and silent.
fn silent(connections: &Connections) -> usize {
    connections.persistent - connections.moved
}

fn size(bytes: f64) -> Size {
    Size(bytes.round().clamp(1.0, u32::MAX.into()) as u32)
}

/// Returns the rate with three or more significant digits.
fn rate(requests: &Requests) -> Rate {
    let digits = if requests.rate_per_s < 100.0 { 100.0 } else { 1.0 };
    Rate((requests.rate_per_s * digits).round().max(1.0) / digits)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use traffic::observe::traffic::{Connection, OpenCounts, Traffic, Volume};

    use super::*;

    fn observed(connections: Vec<Connection>) -> Observation {
        let open = OpenCounts { mean: connections.len() as f64, max: 40, ..OpenCounts::default() };
        let mut traffic = Traffic { window_ns: 2_000_000_000, connections, open, ..Traffic::default() };
        traffic.received.add(300);
        traffic.sent.add(20_000);
        Observation::of(NonZeroU16::new(8080).unwrap(), &traffic)
    }

    fn connection(requests: u64) -> Connection {
        let volume = |bytes| Volume { bytes: bytes * requests, segments: requests, turns: 0 };
        Connection { received: volume(300), sent: volume(20_000), ..Connection::default() }
    }

    #[test]
    fn lasting_connections_have_their_active_share() {
        let connections = [vec![connection(50); 30], vec![connection(0); 90]].concat();
        let observed = observed(connections);
        let experiment = experiment(&observed).unwrap();
        let workload = &experiment.workload;
        assert_eq!(workload.connections.0, [NonZeroU32::new(120).unwrap()]);
        assert_eq!((workload.active.0.as_slice(), workload.requests_per_connection), (&[Share(0.25)][..], None));
        assert_eq!((workload.request, workload.response), (Some(Size(300)), Some(Size(20_000))));
        assert_eq!(workload.rate.as_ref().unwrap().0, [Rate(750.0)]);
        let text = text_of(&observed, &experiment).unwrap();
        assert_eq!(Experiment::of(&text), experiment);
        assert!(!text.contains("is their mean"), "{text}");
    }

    #[test]
    fn profile_states_which_sizes_are_means() {
        let mut observed = observed(vec![connection(50); 30]);
        observed.requests.as_mut().unwrap().response.is_constant = false;
        let experiment = experiment(&observed).unwrap();
        let text = text_of(&observed, &experiment).unwrap();
        assert!(text.contains("\n# The sizes of responses vary. The key `response` is their mean.\n"), "{text}");
        assert!(!text.contains("sizes of requests"), "{text}");
        assert_eq!(Experiment::of(&text), experiment);
    }

    #[test]
    fn short_lived_connections_become_sessions() {
        let short = Connection { is_new: true, has_ended: true, ..connection(3) };
        let workload = experiment(&observed([vec![short; 100], vec![connection(0); 7]].concat())).unwrap().workload;
        assert_eq!(workload.requests_per_connection, NonZeroU32::new(3));
        assert_eq!((workload.connections.0[0].get(), workload.idle.0[0]), (66, 7));
        assert_eq!((workload.rate.unwrap().0, workload.active.0), (vec![Rate(150.0)], vec![Share(1.0)]));
    }

    #[test]
    fn connections_that_open_and_stay_open_are_lasting() {
        let new = |requests| Connection { is_new: true, ..connection(requests) };
        let workload = experiment(&observed([vec![new(48); 20], vec![new(0); 5]].concat())).unwrap().workload;
        assert_eq!((workload.requests_per_connection, workload.active.0), (None, vec![Share(0.8)]));
        assert_eq!((workload.connections.0[0].get(), workload.idle.0[0]), (25, 0));
    }

    #[test]
    fn silent_server_has_no_profile() {
        let error = experiment(&observed(vec![connection(0); 3])).unwrap_err();
        assert!(
            error.starts_with("cannot write a traffic profile of port 8080: no request and response was seen"),
            "{error}"
        );
    }
}
