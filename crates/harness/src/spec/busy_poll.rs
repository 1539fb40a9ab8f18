//! The setting of busy polling, as in `50us`, `50us:budget=16` or `50us:suspend=20ms`.

use std::fmt;

use server::BusyPoll;

use super::units::{Time, units};

/// Busy polling of the server's network interface, or none (`off`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPolling(pub Option<BusyPoll>);

units! {
    BusyPolling, "busy polling", "off, or TIME with settings such as 50us, 50us:budget=16 or 50us:suspend=20ms",
    r"^(off|[0-9.]+ *[a-z]+(:[a-z=0-9.]+)*)$";
}

impl BusyPolling {
    fn read(text: &str) -> Option<Self> {
        if text == "off" {
            return Some(Self(None));
        }
        let mut parts = text.split(':');
        let time_us = |text: &str| {
            let ns = text.parse::<Time>().ok()?.0;
            (ns % 1_000 == 0 && ns > 0).then(|| u32::try_from(ns / 1_000).ok()).flatten()
        };
        let time_us = time_us(parts.next()?)?;
        let mut poll = BusyPoll { time_us, budget: BusyPoll::BUDGET, is_preferred: false, suspend_ns: None };
        for part in parts {
            match part.split_once('=') {
                None if part == "prefer" => poll.is_preferred = true,
                Some(("budget", budget)) => poll.budget = budget.parse().ok().filter(|budget| *budget > 0)?,
                Some(("suspend", time)) => {
                    let suspend_ns = time.parse::<Time>().ok()?.0;
                    // The kernel suspends interrupts only after waits that prefer busy polling.
                    (poll.suspend_ns, poll.is_preferred) = (Some(suspend_ns).filter(|ns| *ns > 0), true);
                    poll.suspend_ns?;
                }
                _ => return None,
            }
        }
        Some(Self(Some(poll)))
    }
}

impl fmt::Display for BusyPolling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(BusyPoll { time_us, budget, is_preferred, suspend_ns }) = self.0 else { return f.write_str("off") };
        write!(f, "{}", Time(u64::from(time_us) * 1_000))?;
        if is_preferred && suspend_ns.is_none() {
            write!(f, ":prefer")?;
        }
        if budget != BusyPoll::BUDGET {
            write!(f, ":budget={budget}")?;
        }
        suspend_ns.map_or(Ok(()), |ns| write!(f, ":suspend={}", Time(ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_polling_is_read_and_written() {
        let poll = BusyPoll { time_us: 50, budget: 8, is_preferred: false, suspend_ns: None };
        for (text, expected) in [
            ("off", None),
            ("50us", Some(poll)),
            ("1ms:prefer", Some(BusyPoll { time_us: 1_000, is_preferred: true, ..poll })),
            ("50us:budget=64", Some(BusyPoll { budget: 64, ..poll })),
            ("50us:suspend=20ms", Some(BusyPoll { is_preferred: true, suspend_ns: Some(20_000_000), ..poll })),
        ] {
            let parsed: BusyPolling = text.parse().unwrap();
            assert_eq!((parsed.0, parsed.to_string()), (expected, text.to_owned()));
        }
    }

    #[test]
    fn invalid_busy_polling_is_rejected() {
        for text in
            ["", "on", "0us", "500ns", "50us:", "50us:budget=0", "50us:budget=70000", "50us:suspend=0", "50us,prefer"]
        {
            let error = text.parse::<BusyPolling>().unwrap_err().to_string();
            assert!(error.contains("50us:suspend=20ms"), "{text}: {error}");
        }
    }
}
