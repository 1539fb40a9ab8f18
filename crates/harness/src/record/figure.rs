//! The table of figures, and maps over it.

use std::borrow::Cow;
use std::ops::{Index, IndexMut};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use stats::Distribution;

/// A figure of a server under a workload: a row of [`FIGURES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the table has the words")]
pub enum Figure {
    P1,
    P25,
    P50,
    P75,
    P90,
    P95,
    P99,
    #[serde(rename = "p99.9")]
    P999,
    Mean,
    ResponseP50,
    ResponseP99,
    Rate,
    Cpu,
    Memory,
    Errors,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Answers per second: requests, transactions or bursts.
    Rate,
    /// Bytes.
    Bytes,
    /// A share of 1.
    Share,
}

/// A quantile of a time: its share of the requests, and its field of a distribution.
pub type Quantile = (f64, fn(&Distribution) -> u64);

/// What a figure is computed from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A quantile of the service times.
    Service(Quantile),
    /// A quantile of the response times.
    Response(Quantile),
    /// The sum of the service times, per request.
    ServiceSum,
    /// Answers, per second of the window.
    Answers,
    /// CPU time of the server, per request.
    ServerTime,
    /// User memory of the server, per connection.
    ServerMemory,
    /// Failed requests of the whole trial, per request.
    Failures,
}

/// A row of [`FIGURES`].
#[derive(Debug)]
pub struct FigureRow {
    figure: Figure,
    name: &'static str,
    words: &'static str,
    unit: Unit,
    source: Source,
    /// Whether rows of reports estimate the figure from the repeats.
    is_estimated: bool,
    /// Whether gates, objectives and limits may name it.
    is_limited: bool,
    /// The tolerance of a gate that does not name it.
    tolerance: Option<f64>,
}

const fn figure(figure: Figure, name: &'static str, words: &'static str, unit: Unit, source: Source) -> FigureRow {
    FigureRow { figure, name, words, unit, source, is_estimated: false, is_limited: false, tolerance: None }
}

const fn service(of: Figure, name: &'static str, words: &'static str, quantile: Quantile) -> FigureRow {
    figure(of, name, words, Unit::Time, Source::Service(quantile))
}

const fn response(of: Figure, name: &'static str, words: &'static str, quantile: Quantile) -> FigureRow {
    figure(of, name, words, Unit::Time, Source::Response(quantile)).estimated()
}

impl FigureRow {
    const fn estimated(self) -> Self {
        Self { is_estimated: true, ..self }
    }

    const fn limited(self, tolerance: Option<f64>) -> Self {
        Self { is_limited: true, tolerance, ..self }
    }
}

/// The figures, in the order of [`Figure`]. On a virtual machine, p99 measures the pauses of the host, which differ by a factor of two
/// from repeat to repeat, so no gate can decide it. p95 has no default tolerance, because its noise is not recorded.
const FIGURES: [FigureRow; 15] = [
    service(Figure::P1, "p1", "service time p1", (0.01, |it| it.p1_ns)),
    service(Figure::P25, "p25", "service time p25", (0.25, |it| it.p25_ns)),
    service(Figure::P50, "p50", "service time p50", (0.5, |it| it.p50_ns)).estimated().limited(Some(0.025)),
    service(Figure::P75, "p75", "service time p75", (0.75, |it| it.p75_ns)),
    service(Figure::P90, "p90", "service time p90", (0.9, |it| it.p90_ns)).estimated().limited(Some(0.35)),
    service(Figure::P95, "p95", "service time p95", (0.95, |it| it.p95_ns)).estimated().limited(None),
    service(Figure::P99, "p99", "service time p99", (0.99, |it| it.p99_ns)).estimated().limited(None),
    service(Figure::P999, "p99.9", "service time p99.9", (0.999, |it| it.p999_ns)),
    figure(Figure::Mean, "mean", "mean service time", Unit::Time, Source::ServiceSum).estimated(),
    response(Figure::ResponseP50, "response-p50", "response time p50", (0.5, |it| it.p50_ns)),
    response(Figure::ResponseP99, "response-p99", "response time p99", (0.99, |it| it.p99_ns)),
    figure(Figure::Rate, "rate", "answers per second", Unit::Rate, Source::Answers).estimated().limited(Some(0.05)),
    figure(Figure::Cpu, "cpu", "CPU time per request", Unit::Time, Source::ServerTime).estimated().limited(Some(0.1)),
    figure(Figure::Memory, "memory", "user memory per connection", Unit::Bytes, Source::ServerMemory)
        .limited(Some(0.1)),
    figure(Figure::Errors, "errors", "share of failed requests", Unit::Share, Source::Failures).limited(Some(0.001)),
];

impl Figure {
    fn row(self) -> &'static FigureRow {
        &FIGURES[self as usize]
    }

    /// Returns all figures.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> + Clone {
        FIGURES.iter().map(|row| row.figure)
    }

    /// Returns the figures that gates, objectives and limits may name.
    pub fn limited() -> impl Iterator<Item = Self> + Clone {
        Self::all().filter(|it| it.row().is_limited)
    }

    /// Returns the quantiles of the service time, in ascending order.
    pub fn quantiles() -> impl DoubleEndedIterator<Item = Self> + Clone {
        Self::all().filter(|it| matches!(it.source(), Source::Service(_)))
    }

    /// Returns the name in flags and reports.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the name in words.
    pub fn words(self) -> &'static str {
        self.row().words
    }

    /// Returns the unit.
    pub fn unit(self) -> Unit {
        self.row().unit
    }

    /// Returns what the figure is computed from.
    pub fn source(self) -> Source {
        self.row().source
    }

    /// Returns the share of requests and the field of a distribution of a quantile; `None` for other figures.
    pub fn quantile(self) -> Option<Quantile> {
        match self.source() {
            Source::Service(quantile) | Source::Response(quantile) => Some(quantile),
            _ => None,
        }
    }

    /// Returns the quantile that late sends of a client falsify like this figure. A few long times move a mean as they move a p99.
    pub fn tail(self) -> Option<f64> {
        if self == Self::Mean { Some(0.99) } else { self.quantile().map(|(q, _)| q) }
    }

    /// Tests whether rows of reports estimate the figure from the repeats.
    pub fn is_estimated(self) -> bool {
        self.row().is_estimated
    }

    /// Tests whether a higher value is better.
    pub fn more_is_better(self) -> bool {
        self.unit() == Unit::Rate
    }

    /// Returns the tolerance of a gate that does not name the figure; `None` leaves it out.
    pub fn tolerance(self) -> Option<f64> {
        self.row().tolerance
    }
}

/// A value for each figure that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureMap<T>([Option<T>; FIGURES.len()]);

impl<T> FigureMap<T> {
    /// Makes a map of the values of all figures.
    pub fn of(value: impl FnMut(Figure) -> Option<T>) -> Self {
        Self(FIGURES.each_ref().map(|row| row.figure).map(value))
    }

    /// Returns the map with another value of a figure.
    #[must_use]
    pub fn with(mut self, figure: Figure, value: Option<T>) -> Self {
        self[figure] = value;
        self
    }

    /// Returns the known values.
    pub fn iter(&self) -> impl Iterator<Item = (Figure, &T)> {
        Figure::all().zip(&self.0).filter_map(|(figure, value)| Some((figure, value.as_ref()?)))
    }
}

impl<T> Default for FigureMap<T> {
    fn default() -> Self {
        Self::of(|_| None)
    }
}

impl<T> Index<Figure> for FigureMap<T> {
    type Output = Option<T>;

    fn index(&self, figure: Figure) -> &Option<T> {
        &self.0[figure as usize]
    }
}

impl<T> IndexMut<Figure> for FigureMap<T> {
    fn index_mut(&mut self, figure: Figure) -> &mut Option<T> {
        &mut self.0[figure as usize]
    }
}

impl<T: Serialize> Serialize for FigureMap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(figure, value)| (figure.name(), value)))
    }
}

impl<T: JsonSchema> JsonSchema for FigureMap<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("FiguresOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        let values: serde_json::Map<_, _> =
            Figure::all().map(|it| (it.name().to_owned(), value.clone().into())).collect();
        json_schema!({ "type": "object", "properties": values, "additionalProperties": false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_order_and_the_names_of_their_figures() {
        for (at, row) in FIGURES.iter().enumerate() {
            assert_eq!((row.figure as usize, serde_json::to_value(row.figure).unwrap()), (at, row.name.into()));
        }
        let quantiles: Vec<f64> = Figure::quantiles().filter_map(|it| Some(it.quantile()?.0)).collect();
        assert!(quantiles.is_sorted());
    }
}
