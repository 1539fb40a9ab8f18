//! The settings of a payload stage's controllers, as in `max=20,queue=100` or `target=10ms`.

use std::fmt;

use super::units::{Time, count, units};

/// The settings of the thread-pool controller; `on` for all defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolControl(pub server::PoolControl);

/// The settings of the batching controller; `on` for all defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchControl(pub server::BatchControl);

/// The settings of admission control: a target, and others with defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission(pub server::AdmissionControl);

units! {
    PoolControl, "pool control", "on, or any of max=THREADS, queue=JOBS, interval=TIME and idle=TIME, such as max=20,queue=100",
        r"^(on|(max|queue|interval|idle)=[^,=]+(, *(max|queue|interval|idle)=[^,=]+)*)$";
    BatchControl, "batch control", "on, or any of min=JOBS, max=JOBS and interval=TIME, such as min=8,max=1000",
        r"^(on|(min|max|interval)=[^,=]+(, *(min|max|interval)=[^,=]+)*)$";
    Admission, "admission", "target=TIME and any of requests=N, timeout=TIME and increase=RATE, such as target=10ms,requests=100",
        r"^(target|requests|timeout|increase)=[^,=]+(, *(target|requests|timeout|increase)=[^,=]+)*$";
}

/// Returns the names and values of settings separated by commas.
fn settings(text: &str) -> Option<Vec<(&str, &str)>> {
    if text == "on" {
        return Some(Vec::new());
    }
    let split = text.split(',').map(|setting| setting.split_once('='));
    split.map(|setting| setting.map(|(name, value)| (name.trim(), value.trim()))).collect()
}

fn number(text: &str) -> Option<u32> {
    count(text).ok().filter(|number| *number > 0)
}

fn time_ns(text: &str) -> Option<u64> {
    text.parse::<Time>().ok().map(|time| time.0).filter(|ns| *ns > 0)
}

impl PoolControl {
    fn read(text: &str) -> Option<Self> {
        let mut control = server::PoolControl::default();
        for (name, value) in settings(text)? {
            match name {
                "max" => control.threads_max = number(value)?,
                "queue" => control.queue = number(value)?,
                "interval" => control.interval_ns = time_ns(value)?,
                "idle" => control.idle_ns = time_ns(value)?,
                _ => return None,
            }
        }
        Some(Self(control))
    }
}

impl BatchControl {
    fn read(text: &str) -> Option<Self> {
        let mut control = server::BatchControl::default();
        for (name, value) in settings(text)? {
            match name {
                "min" => control.jobs_min = number(value)?,
                "max" => control.jobs_max = number(value)?,
                "interval" => control.interval_ns = time_ns(value)?,
                _ => return None,
            }
        }
        (control.jobs_min <= control.jobs_max).then_some(Self(control))
    }
}

impl Admission {
    fn read(text: &str) -> Option<Self> {
        let mut control = server::AdmissionControl::of_target(0);
        for (name, value) in settings(text)? {
            match name {
                "target" => control.target_ns = time_ns(value)?,
                "requests" => control.requests = number(value)?,
                "timeout" => control.timeout_ns = time_ns(value)?,
                "increase" => control.increase_per_s = number(value)?,
                _ => return None,
            }
        }
        (control.target_ns > 0).then_some(Self(control))
    }
}

/// Writes the settings that differ from their defaults, or `on`.
fn write(f: &mut fmt::Formatter<'_>, settings: &[(&str, bool, String)]) -> fmt::Result {
    let unusual = settings.iter().filter(|(_, is_default, _)| !is_default);
    let unusual: Vec<String> = unusual.map(|(name, _, value)| format!("{name}={value}")).collect();
    f.write_str(&if unusual.is_empty() { "on".to_owned() } else { unusual.join(",") })
}

impl fmt::Display for PoolControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (it, usual) = (self.0, server::PoolControl::default());
        let settings = [
            ("max", it.threads_max == usual.threads_max, it.threads_max.to_string()),
            ("queue", it.queue == usual.queue, it.queue.to_string()),
            ("interval", it.interval_ns == usual.interval_ns, Time(it.interval_ns).to_string()),
            ("idle", it.idle_ns == usual.idle_ns, Time(it.idle_ns).to_string()),
        ];
        write(f, &settings)
    }
}

impl fmt::Display for BatchControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (it, usual) = (self.0, server::BatchControl::default());
        let settings = [
            ("min", it.jobs_min == usual.jobs_min, it.jobs_min.to_string()),
            ("max", it.jobs_max == usual.jobs_max, it.jobs_max.to_string()),
            ("interval", it.interval_ns == usual.interval_ns, Time(it.interval_ns).to_string()),
        ];
        write(f, &settings)
    }
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (it, usual) = (self.0, server::AdmissionControl::of_target(self.0.target_ns));
        let settings = [
            ("target", false, Time(it.target_ns).to_string()),
            ("requests", it.requests == usual.requests, it.requests.to_string()),
            ("timeout", it.timeout_ns == usual.timeout_ns, Time(it.timeout_ns).to_string()),
            ("increase", it.increase_per_s == usual.increase_per_s, it.increase_per_s.to_string()),
        ];
        write(f, &settings)
    }
}

/// Returns the settings of all enabled controllers, such as `pool on`.
pub fn describe(controllers: &server::Controllers) -> Vec<String> {
    let server::Controllers { pool, batch, admission } = *controllers;
    let pool = pool.map(|it| format!("pool {}", PoolControl(it)));
    let batch = batch.map(|it| format!("batch {}", BatchControl(it)));
    pool.into_iter().chain(batch).chain(admission.map(|it| format!("admission {}", Admission(it)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_written_without_defaults() {
        for text in ["on", "max=8", "max=8,queue=20,interval=100ms,idle=500ms"] {
            assert_eq!(text.parse::<PoolControl>().unwrap().to_string(), text);
        }
        for text in ["on", "min=1,max=64", "interval=20ms"] {
            assert_eq!(text.parse::<BatchControl>().unwrap().to_string(), text);
        }
        for text in ["target=10ms", "target=1s,requests=5000,timeout=100ms,increase=500"] {
            assert_eq!(text.parse::<Admission>().unwrap().to_string(), text);
        }
        assert_eq!("max=20, queue=100".parse::<PoolControl>().unwrap().to_string(), "on");
    }

    #[test]
    fn invalid_settings_are_rejected_with_the_valid_ones() {
        for text in ["", "off", "max", "max=0", "min=3", "idle=5"] {
            let error = text.parse::<PoolControl>().unwrap_err().to_string();
            assert!(error.contains("such as max=20,queue=100"), "{error}");
        }
        assert!("min=9,max=8".parse::<BatchControl>().is_err());
        for text in ["on", "requests=100", "target=0s", "target=10ms,increase=-1"] {
            assert!(text.parse::<Admission>().is_err(), "{text}");
        }
    }
}
