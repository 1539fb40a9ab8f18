//! Samples of what some CPUs execute: at each tick of the software event `cpu-clock` the kernel records the time, the process and its stack.
//!
//! The samples are of CPUs, not of threads: those of a thread need an event for each, and miss the idle time.

use std::fs;
use std::io;

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag};

/// The time between samples of a CPU, in nanoseconds: the golden ratio in milliseconds, so that samples fall on all phases of a load with
/// constant intervals. In a virtual machine a timer's interrupt costs up to 40 us, so 618 samples per second cost 2.5 %; where it costs
/// 5 us, they cost 0.3 %.
pub const PERIOD_NS: u64 = 1_618_034;
/// The memory of a CPU's samples: what an unprivileged process may lock by default. Full after 2 s.
const BUFFER_BYTES: usize = 512 << 10;

/// What a CPU recorded.
#[derive(Debug)]
pub enum Event<'a> {
    /// A sample.
    Sample {
        /// The time of CLOCK_MONOTONIC, in nanoseconds.
        at_ns: u64,
        /// The process; 0 for an idle CPU.
        pid: u32,
        /// Addresses from the innermost function to the outermost one, with the kernel's markers of contexts.
        chain: &'a [u64],
    },
    /// A process has a child.
    Fork {
        /// The process.
        parent: u32,
        /// The child.
        child: u32,
    },
    /// Records were lost, because nobody read them.
    Lost(u64),
}

/// A running sampler of some CPUs.
pub struct Sampler(Vec<perf_event::Sampler>);

impl Sampler {
    /// Starts to sample. Fails with a remedy if the kernel refuses.
    pub fn start(cpus: &[usize]) -> Result<Self, String> {
        let open = |&cpu: &usize| {
            let mut builder = Builder::new(Software::CPU_CLOCK);
            builder.any_pid().one_cpu(cpu).include_kernel().sample_period(PERIOD_NS).clockid(Clock::MONOTONIC);
            builder.sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::CALLCHAIN).task(true).enabled(true);
            builder.build()?.sampled(BUFFER_BYTES)
        };
        let samplers = cpus.iter().map(open).collect::<io::Result<_>>();
        samplers.map(Self).map_err(|error| refusal(&error, &paranoid()))
    }

    /// Passes on what happened since the last call, CPU by CPU.
    pub fn read(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        for sampler in &mut self.0 {
            while let Some(record) = sampler.next_record() {
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => {
                        let (at_ns, pid) = (sample.time().unwrap_or(0), sample.pid().unwrap_or(0));
                        on_event(Event::Sample { at_ns, pid, chain: sample.callchain().unwrap_or(&[]) });
                    }
                    Ok(Record::Fork(fork)) if fork.pid != fork.ppid => {
                        on_event(Event::Fork { parent: fork.ppid, child: fork.pid });
                    }
                    Ok(Record::Lost(lost)) => on_event(Event::Lost(lost.lost)),
                    _ => {}
                }
            }
        }
    }
}

/// Checks that this process can sample, and that it sees the names of kernel functions.
pub fn can_sample() -> Result<(), String> {
    Sampler::start(&[0])?;
    let symbols = fs::read_to_string("/proc/kallsyms").map_err(|error| {
        format!("cannot read /proc/kallsyms: {error}; it needs a kernel with CONFIG_KALLSYMS, and /proc of the host")
    })?;
    let is_hidden = |line: &str| line.bytes().take_while(u8::is_ascii_hexdigit).all(|digit| digit == b'0');
    if symbols.lines().take(100).all(is_hidden) {
        return Err(
            "the kernel hides the addresses of its functions; run as root, or sysctl -w kernel.kptr_restrict=0 \
                    kernel.perf_event_paranoid=-1"
                .into(),
        );
    }
    Ok(())
}

fn paranoid() -> String {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default().trim().to_owned()
}

/// Explains the kernel's error. `paranoid` is the value of kernel.perf_event_paranoid.
fn refusal(error: &io::Error, paranoid: &str) -> String {
    // The numbers are those of Linux on all processors that it supports.
    let help = match error.raw_os_error() {
        Some(13) => &*format!(
            "kernel.perf_event_paranoid is {paranoid}: run as root, give the binary CAP_PERFMON and CAP_SYSLOG (setcap \
             cap_perfmon,cap_syslog+ep), or sysctl -w kernel.perf_event_paranoid=-1"
        ),
        Some(1) => "run as root; a container's seccomp profile may forbid perf_event_open(2)",
        Some(38) => "the kernel is built without it (CONFIG_PERF_EVENTS)",
        Some(19 | 22) => "the CPU is off-line",
        Some(23 | 24) => "raise the limit of descriptors (ulimit -n)",
        _ => "see perf_event_open(2)",
    };
    format!("the kernel refuses to sample stacks: {error}; {help}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_the_remedy() {
        let message = |code| refusal(&io::Error::from_raw_os_error(code), "2");
        assert!(message(13).contains("kernel.perf_event_paranoid is 2: run as root"), "{}", message(13));
        assert!(message(1).contains("seccomp"), "{}", message(1));
        assert!(message(38).contains("CONFIG_PERF_EVENTS"), "{}", message(38));
        assert!(message(5).contains("perf_event_open(2)"), "{}", message(5));
    }
}
