//! The clients and connections of recorded arrivals.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Chooser, Planned, in_slices_ns};
use crate::config::LoadConfig;
use crate::config::partition::{partition, partition_indices};
use crate::config::trace::Arrival;

/// Divides arrivals among the clients of this process. Clients take turns, unless the arrivals have connections.
pub struct Replay<'a> {
    config: &'a LoadConfig,
    /// The generator of each client, and its choice of connections.
    clients: Vec<(Chooser, Xoshiro256PlusPlus)>,
    arrived: u64,
    start_ns: f64,
    end_ns: f64,
}

impl<'a> Replay<'a> {
    /// Begins before the first arrival.
    pub fn new(config: &'a LoadConfig) -> Self {
        let client = |number: u32| {
            // Another seed than that of the schedule before the window.
            let mut random = Xoshiro256PlusPlus::seed_from_u64(!config.client.seed);
            (0..config.client_number(number)).for_each(|_| random.jump());
            let connections = partition_indices(config.connections, config.client.clients, number).len() as u32;
            (Chooser::of_client(config, connections, number, &mut random), random)
        };
        Self {
            clients: (0..config.client.clients).map(client).collect(),
            arrived: 0,
            start_ns: (config.phases.ramp_ns + config.phases.warm_up_ns) as f64,
            end_ns: config.window_ns().end as f64,
            config,
        }
    }

    /// Returns the client of the next arrival, and the planned request. `None` if another process has its client, or if the window
    /// ends before it.
    pub fn assign(&mut self, arrival: Arrival) -> Option<(usize, Planned)> {
        let turn = self.arrived;
        self.arrived += 1;
        let at_ns = self.start_ns + arrival.at_ns;
        let at_ns = self.config.client.slices.map_or(at_ns, |slices| in_slices_ns(&slices, at_ns));
        if at_ns >= self.end_ns {
            return None;
        }
        let (client, connection) = match arrival.connection {
            Some(connection) => self.place(connection)?,
            None => {
                let number = (turn % u64::from(self.config.all_clients())) as u32;
                let client = number
                    .checked_sub(self.config.client_number(0))
                    .filter(|it| *it < self.config.client.clients)? as usize;
                let (chooser, random) = &mut self.clients[client];
                (client, chooser.next(random))
            }
        };
        Some((client, Planned { at_ns, connection }))
    }

    /// Returns the client of a recorded connection, and the index of the connection among those of the client.
    fn place(&self, connection: u64) -> Option<(usize, u32)> {
        let config = self.config;
        let all = u64::from(config.connections_of_all()).max(1);
        let first = config.part.map_or(0, |part| part.first_connection);
        let at = u32::try_from(connection % all).ok()?.checked_sub(first).filter(|at| *at < config.connections)?;
        let (total, parts) = (config.connections.into(), u64::from(config.client.clients));
        let client = (0..parts).find(|client| partition(total, parts, *client).contains(&u64::from(at)))?;
        Some((client as usize, at - partition(total, parts, client).start as u32))
    }
}
