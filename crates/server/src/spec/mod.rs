//! The description of a server as plain data: models, mechanisms, accept strategies, read budgets.

pub mod accept;
pub mod mechanism;
pub mod model;
pub mod read_budget;
