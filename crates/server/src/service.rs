//! From a service's parameters to the service.

/// Makes the service that `stage` is to run and does something with it, compiled for each service there is.
macro_rules! with_service {
    ($stage:expr, |$service:ident| $body:expr) => {
        match *$stage.service {
            wire::ServiceSpec::Fixed { request_bytes, response_bytes } => {
                let fixed = wire::fixed::Fixed::new(request_bytes, response_bytes);
                let $service = $crate::work::Worked::new(fixed, $stage.work);
                $body
            }
        }
    };
}

pub(crate) use with_service;
