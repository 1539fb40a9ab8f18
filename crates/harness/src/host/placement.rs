//! Placement: the CPUs of the server and of the client.

use crate::spec;
use crate::spec::units::Cpus;

/// A placement of server and client, on disjoint CPUs if possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuPlacement {
    /// The server's CPUs.
    pub server: Vec<usize>,
    /// The client's CPUs.
    pub client: Vec<usize>,
    /// Whether all servers or all clients run on other machines, with unknown CPUs.
    pub is_elsewhere: bool,
    /// A description for the user.
    pub sentence: String,
}

impl CpuPlacement {
    /// Tests whether server and client share a CPU, or may share one.
    pub fn is_shared(&self) -> bool {
        !self.is_elsewhere && (self.server.is_empty() || self.server.iter().any(|cpu| self.client.contains(cpu)))
    }
}

/// Places server and client. By default, each gets half of the cores, or all with `shared`. If CPUs are requested for only one,
/// the other gets the rest, or all CPUs if no other is left. `cores` lists the allowed CPUs by core; it is empty on systems that cannot place
/// processes. Fails if a requested CPU is not allowed.
pub fn place(cores: &[Vec<usize>], requested: &spec::Placement) -> Result<CpuPlacement, String> {
    let allowed: Vec<usize> = cores.concat();
    for (key, cpus) in [("placement.server", &requested.server), ("placement.client", &requested.client)] {
        check_allowed(key, cpus.as_ref().map_or(&[], |cpus| &cpus.0), &allowed)?;
    }
    let rest = |taken: &[usize]| -> Vec<usize> {
        let free: Vec<usize> = allowed.iter().copied().filter(|cpu| !taken.contains(cpu)).collect();
        if free.is_empty() { allowed.clone() } else { free }
    };
    let (server, client) = match (&requested.server, &requested.client) {
        (Some(server), Some(client)) => (server.0.clone(), client.0.clone()),
        (Some(server), None) => (server.0.clone(), rest(&server.0)),
        (None, Some(client)) => (rest(&client.0), client.0.clone()),
        (None, None) if cores.len() > 1 && !requested.shared => {
            let (server, client) = cores.split_at(cores.len() / 2);
            (server.concat(), client.concat())
        }
        (None, None) => (allowed.clone(), allowed.clone()),
    };
    let mut placement = CpuPlacement { server, client, is_elsewhere: false, sentence: String::new() };
    let (server, client) = (Cpus(placement.server.clone()), Cpus(placement.client.clone()));
    placement.sentence = if allowed.is_empty() {
        "server and client on CPUs that the system chooses: they may disturb each other (only Linux can place them)"
            .into()
    } else if placement.is_shared() {
        format!("server on CPU {server}, client on CPU {client}: they share CPUs and disturb each other")
    } else {
        format!("server on CPU {server}, client on CPU {client}: disjoint")
    };
    Ok(placement)
}

/// Fails if a key or flag names a CPU that this process may not use. `allowed` is empty on systems that cannot place processes.
pub fn check_allowed(key: &str, cpus: &[usize], allowed: &[usize]) -> Result<(), String> {
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        None => Ok(()),
        Some(_) if allowed.is_empty() => Err(format!("{key}: only Linux can pin processes to CPUs; remove it")),
        Some(cpu) => {
            let allowed = Cpus(allowed.to_vec());
            Err(format!("{key}: this process may not use CPU {cpu}; choose from {allowed}"))
        }
    }
}

/// Places the server when all clients run on other machines: on its requested CPUs, by default on all allowed ones.
/// The launcher chooses those of the clients.
pub fn place_server(cores: &[Vec<usize>], requested: &spec::Placement) -> Result<CpuPlacement, String> {
    let alone = spec::Placement { server: requested.server.clone(), shared: true, ..Default::default() };
    let server = place(cores, &alone)?.server;
    let sentence = format!("server on {}, clients on other machines", on(&server));
    Ok(CpuPlacement { server, client: Vec::new(), is_elsewhere: true, sentence })
}

/// Places the client when all servers run on other machines: on its requested CPUs, by default on all allowed ones.
pub fn place_client(cores: &[Vec<usize>], requested: &spec::Placement) -> Result<CpuPlacement, String> {
    let alone = spec::Placement { client: requested.client.clone(), shared: true, ..Default::default() };
    let client = place(cores, &alone)?.client;
    let sentence = format!("client on {}, servers on other machines", on(&client));
    Ok(CpuPlacement { server: Vec::new(), client, is_elsewhere: true, sentence })
}

fn on(cpus: &[usize]) -> String {
    match cpus {
        [] => "CPUs that the system chooses".to_owned(),
        _ => format!("CPU {}", Cpus(cpus.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(server: Option<&str>, client: Option<&str>) -> spec::Placement {
        let cpus = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        spec::Placement { server: cpus(server), client: cpus(client), ..Default::default() }
    }

    fn placed(cores: &[&[usize]], server: Option<&str>, client: Option<&str>) -> (String, String, bool) {
        let cores: Vec<Vec<usize>> = cores.iter().map(|core| core.to_vec()).collect();
        let placement = place(&cores, &requested(server, client)).unwrap();
        let shared = placement.is_shared();
        (Cpus(placement.server).to_string(), Cpus(placement.client).to_string(), shared)
    }

    #[test]
    fn cores_are_halved_with_siblings_together() {
        assert_eq!(placed(&[&[0]], None, None), ("0".into(), "0".into(), true));
        assert_eq!(placed(&[&[0], &[1]], None, None), ("0".into(), "1".into(), false));
        assert_eq!(
            placed(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]], None, None),
            ("0,4,1,5".into(), "2,6,3,7".into(), false)
        );
        assert_eq!(placed(&[&[0, 1]], None, None), ("0-1".into(), "0-1".into(), true));
    }

    #[test]
    fn shared_placement_gives_both_all_cpus() {
        let placement = place(&[vec![0], vec![1]], &spec::Placement { shared: true, ..Default::default() }).unwrap();
        assert_eq!((&placement.server, &placement.client, placement.is_shared()), (&vec![0, 1], &vec![0, 1], true));
    }

    #[test]
    fn requested_cpus_are_used() {
        assert_eq!(placed(&[&[0], &[1], &[2]], Some("2"), None), ("2".into(), "0-1".into(), false));
        assert_eq!(placed(&[&[0], &[1]], Some("0-1"), None), ("0-1".into(), "0-1".into(), true));
        assert_eq!(placed(&[&[0], &[1]], Some("1"), Some("1")), ("1".into(), "1".into(), true));
        let error = place(&[vec![0]], &requested(Some("7"), None)).unwrap_err();
        assert!(error.starts_with("placement.server: this process may not use CPU 7"), "{error}");
    }

    #[test]
    fn server_with_clients_elsewhere_uses_all_cpus() {
        let cores = [vec![0], vec![1]];
        let placed = |server, client| place_server(&cores, &requested(server, client));
        let placement = placed(None, None).unwrap();
        assert_eq!((placement.server.clone(), placement.is_shared()), (vec![0, 1], false));
        assert_eq!(placed(Some("1"), None).unwrap().server, [1]);
        assert!(placed(Some("7"), None).is_err());
    }

    #[test]
    fn client_with_servers_elsewhere_uses_all_cpus() {
        let cores = [vec![0], vec![1]];
        let placed = |server, client| place_client(&cores, &requested(server, client));
        let placement = placed(None, None).unwrap();
        assert_eq!((placement.client.clone(), placement.is_shared()), (vec![0, 1], false));
        assert_eq!(placed(None, Some("1")).unwrap().client, [1]);
        let nowhere = place_client(&[], &spec::Placement::default()).unwrap();
        assert_eq!(nowhere.sentence, "client on CPUs that the system chooses, servers on other machines");
    }

    #[test]
    fn cpus_are_rejected_on_systems_without_placement() {
        let nowhere = place(&[], &spec::Placement::default()).unwrap();
        assert!(nowhere.is_shared() && nowhere.server.is_empty() && nowhere.client.is_empty(), "{nowhere:?}");
        let error = place(&[], &requested(None, Some("0"))).unwrap_err();
        assert!(error.starts_with("placement.client: only Linux can pin processes to CPUs"), "{error}");
    }
}
