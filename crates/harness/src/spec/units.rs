//! Quantities as in flags and experiment files: those of [`wire::units`], and the ones that server and client define.

use std::fmt;

use server::service::work::{TimeShare, Times};
pub use wire::units::*;

/// A read budget, from 1B to 1MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(pub server::ReadBudget);

/// Simulated work of each request, as in `cpu=50us`, `cpu=20us,wait=5ms` or `wait=1ms:90%,100ms:10%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Work(pub server::Work);

/// The think time of a closed loop, as in `1ms` or `1ms,exponential`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Think(pub load::config::Think);

units! {
    Budget, "read budget", "1B to 1MiB, such as 64KiB", r"^[0-9]+(\.[0-9]+)? *(B|[kK]|M|[KM]iB|[kKM]B)$";
    Work, "simulated work", "cpu=TIME, busy=TIME, sleep=TIME and wait=TIME, such as cpu=50us, wait=1ms:90%,100ms:10% or \
        cpu=20us,wait=5ms,exponential,connections=10%",
        r"^(cpu|busy|sleep|wait)=[0-9][^=]*(, *(cpu|busy|sleep|wait)=[0-9][^=]*)*(, *connections=[0-9./% ]+)?$";
    Think, "think time", "0 or a time, such as 1ms or 1ms,exponential",
        r"^(0|[0-9]+(\.[0-9]+)? *(ns|us|µs|ms|s|m|min|h)(, *exponential)?)$";
}

/// Returns the text before `,exponential`, and whether that suffix is present.
fn law(text: &str) -> Option<(&str, bool)> {
    match text.split_once(',') {
        None => Some((text, false)),
        Some((rest, law)) => (law.trim() == "exponential").then_some((rest, true)),
    }
}

impl Budget {
    fn read(text: &str) -> Option<Self> {
        server::ReadBudget::new(text.parse::<Size>().ok()?.0).ok().map(Self)
    }
}

/// How far the sum of shares may be from 1.
const SHARE_ERROR_MAX: f64 = 1e-6;

impl Work {
    /// Reads parts that commas separate. A part without a key belongs to the one before it.
    fn read(text: &str) -> Option<Self> {
        let mut work = server::Work::default();
        // The times whose list may continue.
        let mut open: Option<&mut Option<Times>> = None;
        for part in text.split(',').map(str::trim) {
            let time = match part.split_once('=') {
                Some(("connections", share)) if work.connections.is_none() => {
                    open = None;
                    work.connections = Some(share.trim().parse::<Share>().ok()?.0);
                    continue;
                }
                Some((key, time)) => {
                    let times = match key.trim() {
                        "cpu" => &mut work.cpu,
                        "busy" => &mut work.busy,
                        "sleep" => &mut work.sleep,
                        "wait" => &mut work.wait,
                        _ => return None,
                    };
                    if times.is_some() {
                        return None;
                    }
                    open = Some(times);
                    time
                }
                None => part,
            };
            let times = open.as_deref_mut()?;
            let share = |time: &str, share: &str| {
                let share = share.parse::<Share>().ok()?.0;
                Some(TimeShare { time_ns: time_above_0(time.trim()).ok()?.0, share })
            };
            *times = Some(match (times.take(), time.split_once(':')) {
                (None, None) => Times::Constant { time_ns: time_above_0(time).ok()?.0 },
                (None, Some((time, of))) => Times::Shares(vec![share(time, of)?]),
                (Some(Times::Shares(list)), Some((time, of))) => Times::Shares([list, vec![share(time, of)?]].concat()),
                (Some(Times::Constant { time_ns }), None) if time == "exponential" => {
                    Times::Exponential { mean_ns: time_ns }
                }
                _ => return None,
            });
        }
        let is_whole = |times: &Times| match times {
            Times::Shares(list) => (list.iter().map(|it| it.share).sum::<f64>() - 1.0).abs() < SHARE_ERROR_MAX,
            _ => true,
        };
        let all = parts(&work).into_iter().filter_map(|(_, times)| times.as_ref());
        (all.clone().next().is_some() && all.clone().all(is_whole)).then_some(Self(work.clone()))
    }
}

/// The parts of the work, with their keys.
fn parts(work: &server::Work) -> [(&'static str, &Option<Times>); 4] {
    [("cpu", &work.cpu), ("busy", &work.busy), ("sleep", &work.sleep), ("wait", &work.wait)]
}

impl Think {
    fn read(text: &str) -> Option<Self> {
        let (time, exponential) = law(text)?;
        let Time(mean_ns) = time.parse().ok()?;
        Some(Self(load::config::Think { mean_ns, exponential: exponential && mean_ns > 0 }))
    }
}

/// Returns the suffix of random times.
fn suffix(exponential: bool) -> &'static str {
    if exponential { ",exponential" } else { "" }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Size(self.0.into()).fmt(f)
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.mean_ns {
            0 => f.write_str("0"),
            mean_ns => write!(f, "{}{}", Time(mean_ns), suffix(self.0.exponential)),
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (key, times) in parts(&self.0) {
            match times {
                None => continue,
                Some(Times::Constant { time_ns }) => write!(f, "{comma}{key}={}", Time(*time_ns))?,
                Some(Times::Exponential { mean_ns }) => write!(f, "{comma}{key}={}{}", Time(*mean_ns), suffix(true))?,
                Some(Times::Shares(list)) => {
                    write!(f, "{comma}{key}=")?;
                    for (at, TimeShare { time_ns, share }) in list.iter().enumerate() {
                        let comma = if at == 0 { "" } else { "," };
                        write!(f, "{comma}{}:{}", Time(*time_ns), Share(*share))?;
                    }
                }
            }
            comma = ",";
        }
        self.0.connections.map_or(Ok(()), |share| write!(f, ",connections={}", Share(share)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_think_times_and_budgets_are_parsed_and_displayed() {
        for work in [
            "cpu=50us",
            "busy=5us",
            "sleep=1ms",
            "wait=10ms",
            "cpu=1500ns,exponential",
            "cpu=1ms,exponential,connections=1/10",
            "cpu=20us,wait=5ms,exponential",
            "cpu=1us,busy=2us,sleep=3us,wait=1ms:0.9,100ms:1/10,connections=1/2",
        ] {
            assert_eq!(work.parse::<Work>().unwrap().to_string(), work);
        }
        let ordered = " wait = 1ms : 50% , 3ms:1/2 , cpu=1us".parse::<Work>().unwrap();
        assert_eq!((ordered.to_string().as_str(), ordered.0.mean_ns()), ("cpu=1us,wait=1ms:1/2,3ms:1/2", (1e3, 2e6)));
        for wrong in [
            "",
            "cpu",
            "cpu=",
            "cpu=0",
            "cpu=50",
            "disk=1ms",
            "cpu=50us,",
            "cpu=50us,normal",
            "50us",
            "cpu=5us,connections=2",
            "connections=10%",
            "wait=1ms,2ms",
            "wait=1ms:90%",
            "wait=1ms:90%,2ms",
            "wait=1ms:90%,2ms:20%",
            "wait=1ms:50%,2ms:50%,exponential",
            "wait=1ms,wait=2ms",
            "exponential,cpu=1ms",
        ] {
            assert!(wrong.parse::<Work>().is_err(), "{wrong}");
        }
        for think in ["1ms", "1500ns,exponential", "0"] {
            assert_eq!(think.parse::<Think>().unwrap().to_string(), think);
        }
        for wrong in ["", "1", "1ms,", "1ms,normal", ",exponential", "cpu=1ms"] {
            assert!(wrong.parse::<Think>().is_err(), "{wrong}");
        }
        for budget in ["1B", "64KiB", "1MiB"] {
            assert_eq!(budget.parse::<Budget>().unwrap().to_string(), budget);
        }
        for wrong in ["", "64", "0B", "2MiB", "64KiB/s"] {
            assert!(wrong.parse::<Budget>().unwrap_err().to_string().contains("expected 1B to 1MiB"), "{wrong}");
        }
    }
}
