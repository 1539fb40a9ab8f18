//! Warnings about workers that may not use all CPUs of their hosts.

use harness::spec::units::Cpus;

/// The maximum number of groups of workers that a warning lists. The warning only counts the workers of the rest.
const GROUPS_MAX: usize = 8;

pub(super) struct CpuLimit<'a> {
    pub(super) rank: u32,
    pub(super) host: &'a str,
    pub(super) cpus: &'a [usize],
    /// The number of CPUs of the host; 0 if unknown.
    pub(super) of_host: u32,
}

/// Names workers that may use only some of their hosts' CPUs; `None` without such workers.
pub(super) fn cpu_limits<'a>(workers: impl Iterator<Item = CpuLimit<'a>>) -> Option<String> {
    let is_limited = |it: &CpuLimit<'a>| !it.cpus.is_empty() && it.cpus.len() < it.of_host as usize;
    let describe =
        |it: CpuLimit<'_>| (it.rank, format!("CPU {} of the {} on {}", sorted(it.cpus), it.of_host, it.host));
    let workers = describe_groups(workers.filter(is_limited).map(describe))?;
    Some(format!("{workers}: the launcher limits them (`mpirun --bind-to none` and `srun --cpu-bind=none` do not)"))
}

/// Names workers that may not use all CPUs of the plan, each with its CPUs; `None` without such workers.
pub(super) fn missing_planned_cpus<'a>(
    planned: &[usize],
    workers: impl Iterator<Item = (u32, &'a [usize])>,
) -> Option<String> {
    let describe = |(rank, cpus): (u32, &[usize])| {
        let usable: Vec<usize> = planned.iter().copied().filter(|cpu| cpus.contains(cpu)).collect();
        match usable.len() {
            _ if cpus.is_empty() => None,
            all if all == planned.len() => None,
            0 => Some((rank, format!("none of them, but CPU {}", sorted(cpus)))),
            _ => Some((rank, format!("only CPU {}", sorted(&usable)))),
        }
    };
    let workers = describe_groups(workers.filter_map(describe))?;
    Some(format!("the plan places clients on CPU {} of the server's host, but {workers}", sorted(planned)))
}

fn sorted(cpus: &[usize]) -> Cpus {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    Cpus(cpus)
}

/// Groups workers with the same limit: `workers 1, 2 may use CPU 0 of the 2 on a; worker 3 may use...`.
fn describe_groups(workers: impl Iterator<Item = (u32, String)>) -> Option<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (rank, limit) in workers {
        match groups.iter_mut().find(|(it, _)| *it == limit) {
            Some((_, ranks)) => ranks.push(rank.to_string()),
            None => groups.push((limit, vec![rank.to_string()])),
        }
    }
    let describe = |(limit, ranks): &(String, Vec<String>)| {
        format!("worker{} {} may use {limit}", if ranks.len() == 1 { "" } else { "s" }, ranks.join(", "))
    };
    let mut described: Vec<String> = groups.iter().take(GROUPS_MAX).map(describe).collect();
    let more: usize = groups.iter().skip(GROUPS_MAX).map(|(_, ranks)| ranks.len()).sum();
    if more > 0 {
        described.push(format!("and {more} more are limited"));
    }
    (!described.is_empty()).then(|| described.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_with_the_same_cpu_limit_are_grouped() {
        let limits = |workers: &[(u32, &str, Vec<usize>, u32)]| {
            let limit = |(rank, host, cpus, of_host): &(u32, &str, Vec<usize>, u32)| {
                cpu_limits(std::iter::once(CpuLimit { rank: *rank, host, cpus, of_host: *of_host })).is_some()
            };
            let all = workers.iter();
            let all = all.map(|(rank, host, cpus, of_host)| CpuLimit { rank: *rank, host, cpus, of_host: *of_host });
            (workers.iter().filter(|it| limit(it)).count(), cpu_limits(all).unwrap_or_default())
        };
        let all = [(0, "a", vec![0, 1], 2), (1, "b", vec![], 4), (2, "c", vec![0, 1], 0)];
        assert_eq!(limits(&all), (0, String::new()), "the workers may use all CPUs, or their limits are unknown");
        let some = [(0, "a", vec![4, 0, 1], 8), (1, "b", vec![0], 2), (2, "b", vec![0], 2), (3, "b", vec![0, 1], 2)];
        let (count, text) = limits(&some);
        let expected =
            "worker 0 may use CPU 0-1,4 of the 8 on a; workers 1, 2 may use CPU 0 of the 2 on b: the launcher limits";
        assert!(count == 3 && text.starts_with(expected), "{text}");
        let many: Vec<_> = (0..20).map(|rank| (rank, "a", vec![rank as usize], 64)).collect();
        let (count, text) = limits(&many);
        let expected = "; worker 7 may use CPU 7 of the 64 on a; and 12 more are limited: ";
        assert!(count == 20 && text.contains(expected), "{text}");
    }

    #[test]
    fn workers_without_planned_cpus_are_named() {
        let missing =
            |workers: &[(u32, &[usize])]| missing_planned_cpus(&[2, 3], workers.iter().copied()).unwrap_or_default();
        assert_eq!(missing(&[(1, &[0, 1, 2, 3]), (2, &[2, 3]), (3, &[])]), "");
        assert_eq!(
            missing(&[(1, &[0, 1]), (2, &[2]), (3, &[0, 1])]),
            "the plan places clients on CPU 2-3 of the server's host, but workers 1, 3 may use none of them, but CPU 0-1; \
             worker 2 may use only CPU 2"
        );
    }
}
