//! Advice: the objective of a race between architectures, and the changes of the traffic under which the best ones race again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figure::{Figure, FigureMap};

/// The goal of a race.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdviseGoal {
    /// The figures to optimise. The score is the weighted mean of the logarithms of their values.
    pub objective: Vec<AdviseWeight>,
    /// The limits that the winner must meet.
    pub limits: Vec<AdviseLimit>,
    /// The number of contestants. Each part of the plan has one trial for each, in the same order.
    pub contestants: u32,
    /// The parts after the race under the given traffic.
    pub variations: Vec<AdvisePart>,
    /// The total time, in nanoseconds, within which repeats end. The first three repeats always run.
    pub time_max_ns: u64,
    /// The experiment as a file.
    pub experiment: String,
}

/// A figure of an objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdviseWeight {
    /// The figure.
    pub figure: Figure,
    /// The weight, above 0.
    pub weight: f64,
}

/// A limit of a figure: the highest permitted value; of a rate, the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdviseLimit {
    /// The figure.
    pub figure: Figure,
    /// Nanoseconds, bytes or responses per second.
    pub value: f64,
}

/// A part of the plan: the contestants under changed traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdvisePart {
    /// The change in words, such as `connections x2`.
    pub name: String,
    /// The changed traffic in words, such as `800 connections`. Empty if the race determines it.
    pub about: String,
    /// The index of the part's first trial; an error says why the part cannot run.
    pub first: Result<u32, String>,
    /// Whether the part first measures the capacity of the winner in a closed loop. The trials at a share of this capacity are in a
    /// further part, which follows in the plan.
    pub finds_capacity: bool,
}

impl AdviseGoal {
    /// Returns the score of a trial from the values of its figures; lower is better. `None` if one is unknown.
    pub fn score(&self, values: &FigureMap<f64>) -> Option<f64> {
        let total: f64 = self.objective.iter().map(|it| it.weight).sum();
        let part = |it: &AdviseWeight| Some(it.weight / total * it.figure.score_of(values)?);
        self.objective.iter().map(part).sum()
    }

    /// Returns the figure of an objective that has no other.
    pub fn only_figure(&self) -> Option<Figure> {
        let [only] = self.objective.as_slice() else { return None };
        Some(only.figure)
    }
}

impl Figure {
    /// Returns the figure's score from the values of all figures; `None` if it is unknown or has no logarithm.
    pub fn score_of(self, values: &FigureMap<f64>) -> Option<f64> {
        Some(self.score(values[self]?)).filter(|score| score.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_is_the_weighted_mean_of_logarithms() {
        let weight = |figure, weight| AdviseWeight { figure, weight };
        let goal = |objective: &[AdviseWeight]| AdviseGoal {
            objective: objective.to_vec(),
            limits: Vec::new(),
            contestants: 2,
            variations: Vec::new(),
            time_max_ns: 1,
            experiment: String::new(),
        };
        let values = |p50: f64, rate: f64, cpu: Option<f64>| {
            FigureMap::of(|figure| match figure {
                Figure::P50 => Some(p50),
                Figure::Rate => Some(rate),
                Figure::Cpu => cpu,
                _ => None,
            })
        };
        let both = goal(&[weight(Figure::P50, 2.0), weight(Figure::Rate, 1.0)]);
        let difference =
            both.score(&values(20.0, 50.0, None)).unwrap() - both.score(&values(10.0, 100.0, None)).unwrap();
        assert!((difference - 2f64.ln()).abs() < 1e-12, "twice the time and half the rate: {difference}");
        let cpu = goal(&[weight(Figure::Cpu, 1.0)]);
        assert_eq!(cpu.score(&values(1.0, 1.0, None)), None);
        assert_eq!((cpu.only_figure(), both.only_figure()), (Some(Figure::Cpu), None));
        assert_eq!(cpu.score(&values(1.0, 1.0, Some(0.0))), None, "0 has no logarithm");
    }
}
