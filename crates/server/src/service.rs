//! From a service's parameters to the service.

/// Makes the service that `stage` is to run and does something with it, compiled for each service there is.
macro_rules! with_service {
    ($stage:expr, |$service:ident| $body:expr) => {
        match *$stage.service {
            wire::ServiceSpec::Fixed { request_bytes, response_bytes } => {
                let fixed = wire::fixed::Fixed::new(request_bytes, response_bytes);
                let $service = $crate::work::Worked::new(fixed, $stage.work, $stage.stopping.clone());
                $body
            }
            wire::ServiceSpec::Kv { memory_max_bytes, item_max_bytes } => {
                let config = wire::kv::KvConfig { memory_max_bytes, item_max_bytes, pid: std::process::id() };
                let kv = wire::kv::Kv::new(config, std::boxed::Box::new($crate::service::unix_time_s));
                let $service = $crate::work::Worked::new(kv, $stage.work, $stage.stopping.clone());
                $body
            }
            // What is run for connections; loops of datagrams are others, and `Architecture` says which models have one.
            wire::ServiceSpec::Udp { .. } => return Err(std::io::ErrorKind::Unsupported.into()),
        }
    };
}

pub(crate) use with_service;

/// Seconds since 1970, by a clock that is read without a system call.
pub(crate) fn unix_time_s() -> u32 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec as u32
}
