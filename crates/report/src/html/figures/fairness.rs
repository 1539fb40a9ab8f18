//! How evenly streams were served.

use crate::html::chart::{Chart, Form, Shape};
use crate::html::material::{Material, Vertical};

/// Draws it.
pub(super) fn draw(material: &Material<'_>) -> Option<Chart> {
    let y = Vertical { label: "fairness", form: Form::Share, log: false };
    material.rows(material.size(), Shape::Points, y, &[("", |_, row| Some((row.stream?.fairness, Vec::new())))])
}
