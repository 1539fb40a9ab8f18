//! The hosts that an experiment needs.

use harness::plan::needs::{ClientNeeds, Figure, Needs, ServerNeeds, Setting};

use crate::format;
use crate::text::{Medium, table};

/// Renders the needs of the server's host and of the clients' hosts, the settings of their kernels, and the inputs.
pub fn render(needs: &Needs, medium: impl Into<Medium>) -> String {
    let medium = medium.into();
    let Needs { experiment, servers, clients, settings, figures } = needs;
    let mut text = vec![
        medium.heading(&format!("{experiment}: what its largest workload needs")),
        String::new(),
        medium.prose("The server's host, by architecture:"),
        table::of_text(&SERVER, servers.iter().map(server), medium),
        String::new(),
        medium.prose(&of_clients(clients)),
        String::new(),
        medium.prose("Settings; what this host has is enough, or has to be raised:"),
        table::of_text(&SETTINGS, settings.iter().map(setting), medium),
        String::new(),
        medium.prose("Figures that this is computed from, of each connection:"),
    ];
    let figure = |whose: &str, bytes: [f64; 2], origin: &str| {
        let total = format::bytes(bytes[0] + bytes[1]);
        vec![whose.to_owned(), format::bytes(bytes[0]), format::bytes(bytes[1]), total, origin.to_owned()]
    };
    let used =
        figures.connections.iter().filter(|it| servers.iter().any(|server| server.figures_of == it.architecture));
    let rows = used.map(|it| figure(&it.architecture, [it.user_bytes, it.kernel_bytes], &it.origin));
    text.push(table::of_text(&FIGURES, rows, medium));
    let Figure { value, origin } = &figures.client_bytes;
    text.push(medium.prose(&format!("A client's end of a connection: {} ({origin}).", format::bytes(*value))));
    let Figure { value, origin } = &figures.client_per_s;
    text.push(medium.prose(&format!(
        "A client's CPU: {} requests/s ({origin}), of which half is used, so that they are sent on time.",
        format::digits(*value)
    )));
    medium.finished(text.join("\n") + "\n")
}

const SERVER: [&str; 10] = [
    "architecture",
    "connections",
    "req/s",
    "descriptors",
    "open files",
    "tasks",
    "user memory",
    "kernel memory",
    "in all",
    "Gbit/s",
];
const SETTINGS: [&str; 6] = ["setting", "whose", "needed", "here", "", "what for"];
const FIGURES: [&str; 5] = ["of", "user", "kernel", "in all", "from"];

fn server(server: &ServerNeeds) -> Vec<String> {
    vec![
        server.architecture.clone(),
        server.connections.to_string(),
        format::rate(server.workload.rate_per_s),
        server.descriptors.to_string(),
        server.files.to_string(),
        if server.tasks == 0 { "-".into() } else { server.tasks.to_string() },
        gib(server.user_bytes),
        gib(server.kernel_bytes),
        gib(server.user_bytes + server.kernel_bytes),
        server.bits_per_s.map_or_else(|| "-".into(), |bits| format::digits(bits / 1e9)),
    ]
}

fn of_clients(clients: &ClientNeeds) -> String {
    let ClientNeeds { host, hosts, limit, hosts_by, connections, ports, addresses, rate_per_s, cpus, memory_bytes } =
        clients;
    let by: Vec<String> = hosts_by.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let rate = rate_per_s.map(|rate_per_s| format!(", {} requests/s", format::digits(rate_per_s))).unwrap_or_default();
    format!(
        "Clients: {hosts} {} of {} CPUs, {} and {} {} with {} ports each; what there must be most of is {limit} ({}). Each has \
         {connections} connections{rate} and takes {}; all together take {ports} local ports of {addresses} {}, and {cpus} CPUs \
         that send.",
        count(*hosts, "host", "hosts"),
        host.cpus,
        gib(host.memory_bytes as f64),
        host.addresses,
        count(host.addresses, "address", "addresses"),
        host.ports,
        by.join(", "),
        gib(*memory_bytes),
        count(*addresses, "address", "addresses"),
    )
}

fn count(count: u64, one: &'static str, several: &'static str) -> &'static str {
    if count == 1 { one } else { several }
}

fn setting(setting: &Setting) -> Vec<String> {
    let here = match setting.here {
        None => "not there".to_owned(),
        Some(u64::MAX) => "unlimited".to_owned(),
        Some(here) => here.to_string(),
    };
    let verdict = match setting.here {
        None => "",
        Some(_) if setting.suffices() => "enough",
        Some(_) => "raise",
    };
    let words = [setting.name.to_owned(), setting.whose.to_owned(), setting.needed.to_string(), here];
    words.into_iter().chain([verdict.to_owned(), setting.about.to_owned()]).collect()
}

/// Formats as [`format::bytes`], but in GiB from 1 GiB on.
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
    fn what_a_million_connections_need() {
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
        insta::assert_snapshot!(render(&needs, 160));
        let pasted = render(&needs, Medium::Markdown);
        assert_eq!(pasted.matches("| --- |").count(), 3, "{pasted}");
        let json = serde_json::to_value(&needs).unwrap();
        assert_eq!(json["servers"].as_array().unwrap().len(), 4);
    }
}
