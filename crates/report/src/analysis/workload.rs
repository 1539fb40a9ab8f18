//! The order of workloads, and their descriptions in words.

use harness::record::Workload;
use harness::spec::profile::Profile;
use harness::spec::units::{Share, Size, Sizes, Think, Time, Work};
use load::config::{HttpTarget, Loop, Popularity, Schedule};

use crate::format;

/// Compares two workloads for the order of lists.
pub fn order(a: &Workload, b: &Workload) -> std::cmp::Ordering {
    (a.connections, a.idle)
        .cmp(&(b.connections, b.idle))
        .then(a.transport.cmp(&b.transport))
        .then(b.active().total_cmp(&a.active()))
        .then(a.rate_per_s().unwrap_or(f64::INFINITY).total_cmp(&b.rate_per_s().unwrap_or(f64::INFINITY)))
        .then(a.schedule().cmp(&b.schedule()))
}

/// Returns whether two workloads differ only in their phases.
pub(crate) fn is_same_traffic(a: &Workload, b: &Workload) -> bool {
    a.connections == b.connections && *a == b.clone().with(|it| it.phases = a.phases)
}

/// Describes rates that change over the window; `None` for a constant rate. `describe` formats a profile.
pub fn over_time(workload: &Workload, describe: fn(&Profile) -> String) -> Option<String> {
    if let Some(trace) = workload.trace() {
        let name = trace.file.file_name().unwrap_or_default().to_string_lossy();
        let speed = if trace.speed == 1.0 { String::new() } else { format!(" at {}x speed", trace.speed) };
        let sizes = match trace.sizes.len() {
            0 => String::new(),
            1 => " with their size".to_owned(),
            count => format!(" with their {count} sizes"),
        };
        let from = if trace.from_ns == 0 { String::new() } else { format!(" from {}", Time(trace.from_ns)) };
        return Some(format!("{} arrivals of {name}{sizes}{from}{speed}", trace.requests));
    }
    Some(describe(&Profile(workload.rate_profile()?.with_mean(workload.rate_per_s()?))))
}

/// Describes a workload in words, without default settings.
pub fn title(workload: &Workload) -> String {
    let mut words = vec![format!("{} {}", workload.connections, workload.targets())];
    words.extend(workload.requests_per_connection().map(|calls| match calls {
        1 => "1 request on each".to_owned(),
        calls => format!("{calls} requests on each"),
    }));
    if workload.active() < 1.0 {
        words.push(format!("{} active", Share(workload.active())));
    }
    if workload.idle > 0 {
        words.push(format!("{} idle connections", workload.idle));
    }
    if workload.popularity() != Popularity::Uniform {
        words.push(format!("popularity {}", workload.popularity()));
    }
    if workload.rate_per_s().is_some() {
        let mean = format!("{} requests/s", format::rate(workload.rate_per_s()));
        words.push(match over_time(workload, Profile::words) {
            None => mean,
            Some(over_time) => format!("{mean} on average ({over_time})"),
        });
    }
    match workload.schedule() {
        None if workload.the_loop == Loop::Stream => {}
        None => {
            words.insert(0, "closed loop".into());
            words.push(format!("think {}", Think(workload.think())));
            words.extend((workload.pipeline() > 1).then(|| format!("{} requests at once", workload.pipeline())));
        }
        Some(Schedule::SlotRandom) => {}
        Some(Schedule::Constant) => words.push("at constant intervals".into()),
        Some(Schedule::ConstantDrawn) => words.push("at constant intervals from random offsets".into()),
        Some(Schedule::ConstantTogether) => words.push("simultaneously at constant intervals".into()),
        Some(Schedule::Poisson) => words.push("as a Poisson process".into()),
    }
    words.extend(workload.no_overlap().then(|| "no overlap".to_owned()));
    words.extend(workload.service.ports().map(|_| "udp".to_owned()));
    words.push(match workload.service.fixed() {
        Some((request_bytes, response_bytes)) => format!("{} -> {}", Size(request_bytes), Size(response_bytes)),
        None => match workload.service.stream() {
            Some(stream) => harness::spec::stream::Stream::from(stream).to_string(),
            None => workload.service.name().to_owned(),
        },
    });
    if let Some(http) = &workload.http {
        words.push(match http.targets.as_slice() {
            [one] if one.is_plain_get() => one.path.clone(),
            [one] => one.to_string(),
            several if several.iter().all(HttpTarget::is_plain_get) => format!("{} paths", several.len()),
            several => format!("{} requests", several.len()),
        });
    }
    if let Some(kv) = &workload.kv {
        let sizes = Sizes { least: Size(kv.value_bytes_min), most: Size(kv.value_bytes_max) };
        let gets = format::percent(kv.get_share);
        words.push(format!("{gets} get of {} records of {sizes}", kv.records));
        if kv.keys != Popularity::Uniform {
            words.push(format!("keys by {}", kv.keys));
        }
    }
    words.extend(workload.transport.words().map(str::to_owned));
    words.extend(workload.tls.as_ref().map(|tls| tls.words().to_owned()));
    words.extend(workload.network.as_ref().map(ToString::to_string));
    if let Some(work) = &workload.work {
        words.push(format!("work {}", Work(work.clone())));
    }
    if let Some(limit) = workload.request_timeout() {
        words.push(format!("time limit {}", Time(limit.timeout_ns)));
        if limit.retries > 0 {
            words.push(format!("up to {}", format::counted(limit.retries as usize, "retry", "retries")));
            words.extend(limit.retry_budget.map(|share| format!("retry budget {}", format::percent(share))));
        }
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use load::config::RequestTimeout;

    use super::*;

    #[test]
    fn workloads_with_another_time_limit_have_another_title() {
        let usual = testkit::run().header.trials[0].workload.clone();
        for (retries, retry_budget, words) in [
            (0, None, "time limit 200ms"),
            (1, None, "time limit 200ms, up to 1 retry"),
            (3, Some(0.1), "time limit 200ms, up to 3 retries, retry budget 10 %"),
        ] {
            let request_timeout = Some(RequestTimeout { timeout_ns: 200_000_000, retries, retry_budget });
            let requests = usual.requests().unwrap().clone();
            let workload =
                usual.clone().with(|it| it.the_loop = Loop::Open { requests, request_timeout, no_overlap: false });
            assert_eq!(title(&workload), format!("{}, {words}", title(&usual)));
            assert!(!is_same_traffic(&workload, &usual));
        }
    }
}
