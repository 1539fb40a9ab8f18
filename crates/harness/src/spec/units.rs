//! Quantities as in flags and experiment files: those of [`wire::units`], and the ones that server and client define.

use std::fmt;

use server::service::work::Kind;
pub use wire::units::*;

/// A read budget, from 1B to 1MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(pub server::ReadBudget);

/// Simulated work of each request, as in `cpu=50us` or `sleep=1ms,exponential`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work(pub server::Work);

/// The think time of a closed loop, as in `1ms` or `1ms,exponential`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Think(pub load::config::Think);

units! {
    Budget, "read budget", "1B to 1MiB, such as 64KiB", r"^[0-9]+(\.[0-9]+)? *(B|[kK]|M|[KM]iB|[kKM]B)$";
    Work, "simulated work", "cpu=TIME, busy=TIME or sleep=TIME, such as cpu=50us or sleep=1ms,exponential,connections=10%",
        r"^(cpu|busy|sleep)=[0-9]+(\.[0-9]+)? *(ns|us|µs|ms|s|m|min|h)(, *exponential)?(, *connections=[0-9./% ]+)?$";
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

impl Work {
    fn read(text: &str) -> Option<Self> {
        let (text, connections) = match text.split_once("connections=") {
            Some((rest, share)) => (rest.trim().strip_suffix(',')?, Some(share.parse::<Share>().ok()?.0)),
            None => (text, None),
        };
        let (work, exponential) = law(text)?;
        let (kind, time) = work.split_once('=')?;
        let kind = match kind.trim() {
            "cpu" => Kind::Cpu,
            "busy" => Kind::Busy,
            "sleep" => Kind::Sleep,
            _ => return None,
        };
        Some(Self(server::Work { kind, time_ns: time_above_0(time).ok()?.0, exponential, connections }))
    }
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
        let kind = match self.0.kind {
            Kind::Cpu => "cpu",
            Kind::Busy => "busy",
            Kind::Sleep => "sleep",
        };
        write!(f, "{kind}={}{}", Time(self.0.time_ns), suffix(self.0.exponential))?;
        self.0.connections.map_or(Ok(()), |share| write!(f, ",connections={}", Share(share)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_think_times_and_budgets_are_parsed_and_displayed() {
        for work in
            ["cpu=50us", "busy=5us", "sleep=1ms", "cpu=1500ns,exponential", "cpu=1ms,exponential,connections=1/10"]
        {
            assert_eq!(work.parse::<Work>().unwrap().to_string(), work);
        }
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
