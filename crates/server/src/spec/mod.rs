//! The description of a server as plain data: models, mechanisms, accept strategies, controllers, read budgets.

pub mod accept;
pub mod busy_poll;
pub mod controllers;
pub mod datagrams;
pub mod mechanism;
pub mod model;
pub mod options;
pub mod read_budget;
pub mod tls;
