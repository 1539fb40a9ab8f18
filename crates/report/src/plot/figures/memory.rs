//! Memory per connection, of the server and of the kernel.

use crate::plot::chart::{Chart, Form, Shape};
use crate::plot::plot_data::{PlotData, Value, Vertical};

const VALUES: [(&str, Value); 2] = [
    ("user memory", |_, row| Some((row.cost.as_ref()?.memory_user_bytes_per_connection?.max(1.0), Vec::new()))),
    ("kernel memory", |_, row| Some((row.cost.as_ref()?.memory_kernel_bytes_per_connection?.max(1.0), Vec::new()))),
];

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    let y = Vertical { label: "memory a connection", form: Form::Bytes, log: true };
    data.rows(data.size(), Shape::Points, y, &VALUES)
}
