//! The hosts that an experiment needs.

use harness::plan::needs::{ClientNeeds, Measurement, Needs, ServerNeeds, Setting};

use crate::format;
use crate::text::Medium;
use crate::text::table::{self, Column, column};

/// Renders the needs of the server's host and of the clients' hosts, the settings of their kernels, and the inputs.
pub fn render(needs: &Needs, medium: Medium) -> String {
    let Needs { experiment, servers, clients, settings, figures } = needs;
    let mut text = vec![
        medium.heading(&format!("Needs of the largest workload of {experiment}")),
        String::new(),
        medium.prose("The server's host, by architecture:"),
        table::with_dropped(&server_columns(), servers, medium),
        String::new(),
        medium.prose(&client_hosts(clients)),
        String::new(),
        medium.prose("Settings, and whether this host's are sufficient:"),
        table::with_dropped(&setting_columns(), settings, medium),
        String::new(),
        medium.prose("Inputs of this computation, per connection:"),
    ];
    let used =
        figures.connections.iter().filter(|it| servers.iter().any(|server| server.figures_of == it.architecture));
    let rows = used.map(|it| {
        let [user, kernel, total] =
            [it.user_bytes, it.kernel_bytes, it.user_bytes + it.kernel_bytes].map(format::bytes);
        vec![it.architecture.clone(), user, kernel, total, it.origin.clone()]
    });
    text.push(table::of_parts(1, ["architecture", "user", "kernel", "total", "origin"], rows, medium));
    let Measurement { value, origin } = &figures.client_bytes;
    text.push(
        medium.prose(&format!("Memory of the client's end of a connection: {} ({origin}).", format::bytes(*value))),
    );
    let Measurement { value, origin } = &figures.client_per_s;
    text.push(medium.prose(&format!(
        "A CPU of a client sends {} requests/s ({origin}); this computation uses half, so that requests are sent on time.",
        format::digits(*value)
    )));
    medium.finished(text.join("\n") + "\n")
}

fn server_columns() -> [Column<ServerNeeds>; 10] {
    [
        column("architecture", 0, |it: &ServerNeeds| it.architecture.clone()),
        column("connections", 0, |it: &ServerNeeds| it.connections.to_string()),
        column("req/s", 3, |it: &ServerNeeds| format::rate(it.workload.rate_per_s())),
        column("descriptors", 0, |it: &ServerNeeds| it.descriptors.to_string()),
        column("open files", 2, |it: &ServerNeeds| it.files.to_string()),
        column("tasks", 2, |it: &ServerNeeds| if it.tasks == 0 { "-".into() } else { it.tasks.to_string() }),
        column("user memory", 1, |it: &ServerNeeds| gib(it.user_bytes)),
        column("kernel memory", 1, |it: &ServerNeeds| gib(it.kernel_bytes)),
        column("total", 0, |it: &ServerNeeds| gib(it.user_bytes + it.kernel_bytes)),
        column("Gbit/s", 2, |it: &ServerNeeds| {
            it.bits_per_s.map_or_else(|| "-".into(), |bits| format::digits(bits / 1e9))
        }),
    ]
}

fn setting_columns() -> [Column<Setting>; 6] {
    [
        column("setting", 0, |it: &Setting| it.name.to_owned()),
        column("host", 0, |it: &Setting| it.whose.to_owned()),
        column("needed", 0, |it: &Setting| it.needed.to_string()),
        column("here", 0, |it: &Setting| match it.here {
            None => "absent".to_owned(),
            Some(u64::MAX) => "unlimited".to_owned(),
            Some(here) => here.to_string(),
        }),
        column("result", 0, |it: &Setting| match it.here {
            None => String::new(),
            Some(_) if it.suffices() => "sufficient".to_owned(),
            Some(_) => "raise".to_owned(),
        }),
        column("purpose", 1, |it: &Setting| it.about.to_owned()),
    ]
}

fn client_hosts(clients: &ClientNeeds) -> String {
    let ClientNeeds { host, hosts, limit, hosts_by, connections, ports, addresses, rate_per_s, cpus, memory_bytes } =
        clients;
    let by: Vec<String> = hosts_by.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let rate = rate_per_s.map(|rate_per_s| format!(", {} requests/s", format::digits(rate_per_s))).unwrap_or_default();
    format!(
        "Clients: {} with {} CPUs, {} of memory and {} with {} ports each. The scarcest resource is {limit} (hosts by \
         resource: {}). Each host has {connections} connections{rate} and uses {} of memory. Together they use {ports} local \
         ports of {}; CPUs for sending: {cpus}.",
        format::counted(*hosts as usize, "host", "hosts"),
        host.cpus,
        gib(host.memory_bytes as f64),
        format::counted(host.addresses as usize, "address", "addresses"),
        host.ports,
        by.join(", "),
        gib(*memory_bytes),
        format::counted(*addresses as usize, "address", "addresses"),
    )
}

/// Formats bytes as [`format::bytes`] does, but in GiB from 1 GiB on.
fn gib(bytes: f64) -> String {
    const GIB: f64 = (1u64 << 30) as f64;
    if bytes < GIB { format::bytes(bytes) } else { format!("{} GiB", format::digits(bytes / GIB)) }
}

#[cfg(test)]
mod tests {
    use harness::host::Host;
    use harness::plan::needs::{self, ClientHost, Figures, PORTS_MAX};

    use super::*;

    #[test]
    fn needs_of_a_million_connections_are_rendered() {
        let mut experiment = harness::spec::presets::find("compare").unwrap().experiment();
        experiment.architectures.0 = ["epoll", "poll", "mt", "mp"].map(|name| name.parse().unwrap()).into();
        experiment.workload.connections.0 = [1_000, 1_000_000].map(|count| count.try_into().unwrap()).into();
        let host = Host::made_up();
        let plan = harness::plan::plan(&experiment, &host).unwrap();
        let client = ClientHost { cpus: 8, memory_bytes: 16 << 30, addresses: 1, ports: PORTS_MAX };
        let figures = Figures::documented().with_run(&testkit::run(), "results/x").unwrap();
        let here = |path: &str| match path {
            "fs/nr_open" => Some(1 << 20),
            "net/core/somaxconn" => Some(4_096),
            "kernel/pid_max" => Some(32_768),
            _ => None,
        };
        let needs = needs::of(&plan, figures, client, &host, here).unwrap();
        insta::assert_snapshot!(render(&needs, 160.into()));
        let pasted = render(&needs, Medium::Markdown);
        assert_eq!(pasted.matches("| --- |").count(), 3, "{pasted}");
        let json = serde_json::to_value(&needs).unwrap();
        assert_eq!(json["servers"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn memory_of_few_connections_replaces_no_figure() {
        let documented = Figures::documented();
        let with = |connections: u64| {
            let mut run = testkit::run();
            run.records.iter_mut().flat_map(|it| &mut it.server).for_each(|server| server.connections = connections);
            documented.clone().with_run(&run, "results/x").unwrap()
        };
        let (few, many) = (with(399), with(400));
        assert_eq!(
            (few.connections, few.client_bytes),
            (documented.connections.clone(), documented.client_bytes.clone())
        );
        assert!(many.connections != documented.connections && many.client_bytes != documented.client_bytes);
    }
}
