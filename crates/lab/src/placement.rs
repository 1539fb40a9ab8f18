//! Which CPUs the server and the client get.

use crate::experiment;
use crate::units::Cpus;

/// Disjoint CPUs where there are enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The server's.
    pub server: Vec<usize>,
    /// The client's.
    pub client: Vec<usize>,
    /// What was done, for the reader.
    pub sentence: String,
}

impl Placement {
    /// Whether some CPU serves both, or may.
    pub fn is_shared(&self) -> bool {
        self.server.is_empty() || self.server.iter().any(|cpu| self.client.contains(cpu))
    }
}

/// Chooses what `wish` leaves open. `cores` are the CPUs allowed, siblings of one core together: they stay on one side; where
/// there are none, nobody can be placed.
///
/// # Errors
/// A CPU that is named and not allowed.
pub fn place(cores: &[Vec<usize>], wish: &experiment::Placement) -> Result<Placement, String> {
    let allowed: Vec<usize> = cores.concat();
    for (key, cpus) in [("placement.server", &wish.server), ("placement.client", &wish.client)] {
        if let Some(cpu) = cpus.iter().flat_map(|cpus| &cpus.0).find(|cpu| !allowed.contains(cpu)) {
            if allowed.is_empty() {
                return Err(format!("{key}: to keep processes on CPUs needs Linux; leave it out"));
            }
            let allowed = Cpus(allowed.clone());
            return Err(format!("{key}: CPU {cpu} is not among those this process may use ({allowed}); name others"));
        }
    }
    let rest = |taken: &[usize]| -> Vec<usize> {
        let free: Vec<usize> = allowed.iter().copied().filter(|cpu| !taken.contains(cpu)).collect();
        if free.is_empty() { allowed.clone() } else { free }
    };
    let (server, client) = match (&wish.server, &wish.client) {
        (Some(server), Some(client)) => (server.0.clone(), client.0.clone()),
        (Some(server), None) => (server.0.clone(), rest(&server.0)),
        (None, Some(client)) => (rest(&client.0), client.0.clone()),
        (None, None) if cores.len() > 1 => {
            let (server, client) = cores.split_at(cores.len() / 2);
            (server.concat(), client.concat())
        }
        (None, None) => (allowed.clone(), allowed.clone()),
    };
    let mut placement = Placement { server, client, sentence: String::new() };
    let (server, client) = (Cpus(placement.server.clone()), Cpus(placement.client.clone()));
    placement.sentence = if allowed.is_empty() {
        "server and client wherever the system puts them: they may disturb each other (to place them needs Linux)"
            .into()
    } else if placement.is_shared() {
        format!("server on CPU {server}, client on CPU {client}: they share CPUs and disturb each other")
    } else {
        format!("server on CPU {server}, client on CPU {client}: disjoint")
    };
    Ok(placement)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(cores: &[&[usize]], server: Option<&str>, client: Option<&str>) -> (String, String, bool) {
        let cores: Vec<Vec<usize>> = cores.iter().map(|core| core.to_vec()).collect();
        let cpus = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        let placement = place(&cores, &experiment::Placement { server: cpus(server), client: cpus(client) }).unwrap();
        let shared = placement.is_shared();
        (Cpus(placement.server).to_string(), Cpus(placement.client).to_string(), shared)
    }

    #[test]
    fn halves_with_siblings_together() {
        assert_eq!(placed(&[&[0]], None, None), ("0".into(), "0".into(), true));
        assert_eq!(placed(&[&[0], &[1]], None, None), ("0".into(), "1".into(), false));
        assert_eq!(
            placed(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]], None, None),
            ("0,4,1,5".into(), "2,6,3,7".into(), false)
        );
        assert_eq!(placed(&[&[0, 1]], None, None), ("0-1".into(), "0-1".into(), true));
    }

    #[test]
    fn wishes_are_granted() {
        assert_eq!(placed(&[&[0], &[1], &[2]], Some("2"), None), ("2".into(), "0-1".into(), false));
        assert_eq!(placed(&[&[0], &[1]], Some("0-1"), None), ("0-1".into(), "0-1".into(), true));
        assert_eq!(placed(&[&[0], &[1]], Some("1"), Some("1")), ("1".into(), "1".into(), true));
        let error =
            place(&[vec![0]], &experiment::Placement { server: Some(Cpus(vec![7])), client: None }).unwrap_err();
        assert!(error.starts_with("placement.server: CPU 7"), "{error}");
    }

    #[test]
    fn where_nobody_can_be_placed_wishes_are_refused() {
        let nowhere = place(&[], &experiment::Placement::default()).unwrap();
        assert!(nowhere.is_shared() && nowhere.server.is_empty() && nowhere.client.is_empty(), "{nowhere:?}");
        let error = place(&[], &experiment::Placement { server: None, client: Some(Cpus(vec![0])) }).unwrap_err();
        assert!(error.starts_with("placement.client: to keep processes on CPUs needs Linux"), "{error}");
    }
}
