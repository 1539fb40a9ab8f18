//! Grids of traffic: an experiment for each combination of values, in an order whose beginning covers the grid coarsely.

use crate::spec::units::{Size, Work};
use crate::spec::{Experiment, OneOrMany, WorkloadSpec};

/// Values of the settings that an experiment has only once. An empty list keeps the experiment's value.
#[derive(Clone, Debug, Default)]
pub struct GridValues {
    /// The sizes of requests.
    pub requests: Vec<Size>,
    /// The sizes of responses.
    pub responses: Vec<Size>,
    /// Simulated work; `None` is no work.
    pub works: Vec<Option<Work>>,
}

/// Sets a workload to one value of a dimension.
type Setter = Box<dyn Fn(&mut WorkloadSpec)>;

/// Returns the experiments of a grid, each with one workload. Each next one is as far as possible from those before it.
pub fn cells(experiment: &Experiment, more: &GridValues) -> Vec<Experiment> {
    let workload = &experiment.workload;
    let rates = workload.rate.as_ref().map_or(&[][..], |rates| &rates.0);
    let mut dimensions = vec![
        dimension(&workload.connections.0, |it, value| it.connections = one(value)),
        dimension(&workload.ports.0, |it, value| it.ports = one(value)),
        dimension(rates, |it, value| it.rate = Some(one(value))),
        dimension(&more.requests, |it, value| it.request = Some(value)),
        dimension(&more.responses, |it, value| it.response = Some(value)),
        dimension(&more.works, |it, value| it.simulated_work = value),
        dimension(&workload.active.0, |it, value| it.active = one(value)),
        dimension(&workload.idle.0, |it, value| it.idle = one(value)),
        dimension(&workload.schedule.0, |it, value| it.schedule = one(value)),
    ];
    dimensions.retain(|values| !values.is_empty());
    let cell = |places: Vec<usize>| {
        let mut cell = experiment.clone();
        dimensions.iter().zip(places).for_each(|(values, at)| values[at](&mut cell.workload));
        cell
    };
    coarse_first(&dimensions.iter().map(Vec::len).collect::<Vec<_>>()).into_iter().map(cell).collect()
}

fn one<T>(value: T) -> OneOrMany<T> {
    OneOrMany(vec![value])
}

fn dimension<T: Clone + 'static>(values: &[T], set: fn(&mut WorkloadSpec, T)) -> Vec<Setter> {
    let setter = |value: T| Box::new(move |it: &mut WorkloadSpec| set(it, value.clone())) as Setter;
    values.iter().cloned().map(setter).collect()
}

/// Returns all places of a grid with these lengths. The first place is followed by the place farthest from it, and then always by
/// one whose distance to the nearest earlier place is longest (Gonzalez 1985). All dimensions are equally long.
fn coarse_first(lengths: &[usize]) -> Vec<Vec<usize>> {
    let mut left = vec![Vec::new()];
    for &length in lengths {
        left = left.iter().flat_map(|place| (0..length).map(move |at| [place.as_slice(), &[at]].concat())).collect();
    }
    // The square of the Euclidean distance.
    let distance = |a: &[usize], b: &[usize]| -> f64 {
        let along = |(&length, (&a, &b)): (&usize, (&usize, &usize))| {
            (a.abs_diff(b) as f64 / (length as f64 - 1.0).max(1.0)).powi(2)
        };
        lengths.iter().zip(a.iter().zip(b)).map(along).sum()
    };
    let mut nearest = vec![f64::INFINITY; left.len()];
    let mut order: Vec<Vec<usize>> = Vec::new();
    while !left.is_empty() {
        // The first of several equal places.
        let farthest = (0..left.len()).rev().max_by(|&a, &b| nearest[a].total_cmp(&nearest[b])).unwrap_or_default();
        let place = left.remove(farthest);
        nearest.remove(farthest);
        for (nearest, other) in nearest.iter_mut().zip(&left) {
            *nearest = nearest.min(distance(&place, other));
        }
        order.push(place);
    }
    order
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn corners_come_before_the_places_between_them() {
        let order = coarse_first(&[5, 5]);
        assert_eq!(order[..2], [[0, 0], [4, 4]]);
        let first: BTreeSet<_> = order[..4].iter().map(Vec::as_slice).collect();
        assert_eq!(first, [[0, 0], [0, 4], [4, 0], [4, 4]].iter().map(|it| &it[..]).collect());
        assert_eq!(order[4], [2, 2]);
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 25, "each place has its turn");
        assert_eq!(coarse_first(&[1, 2, 1]), [[0, 0, 0], [0, 1, 0]]);
    }

    #[test]
    fn grid_has_an_experiment_for_each_combination() {
        let text = "name = \"x\"\narchitectures = \"mt\"\n[workload]\nconnections = [10, 20, 30]\nactive = [\"1/2\", 1]\n\
                    request = \"1B\"\nresponse = \"1B\"\nrate = [100, 200]\n";
        let experiment = Experiment::of(text);
        let work: Work = "cpu=1us".parse().unwrap();
        let more = GridValues {
            responses: vec![Size(1), Size(9)],
            works: vec![None, Some(work.clone())],
            ..GridValues::default()
        };
        let cells = cells(&experiment, &more);
        let texts: BTreeSet<String> = cells.iter().map(|cell| toml::to_string(cell).unwrap()).collect();
        assert_eq!((cells.len(), texts.len()), (48, 48));
        for cell in &cells {
            cell.check().unwrap();
            assert_eq!(cell.unread_loads().unwrap().len(), 1, "{:?}", cell.workload);
        }
        let ends = |cell: &Experiment| (cell.workload.connections.0[0].get(), cell.workload.simulated_work.clone());
        assert_eq!((ends(&cells[0]), ends(&cells[1])), ((10, None), (30, Some(work))));
        assert_eq!(super::cells(&experiment, &GridValues::default()).len(), 12);
    }
}
