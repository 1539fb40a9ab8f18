//! I. Voras and M. Žagar, "Characteristics of multithreading models for high-performance IO driven network applications"
//! (AFRICON 2009): what it claims of Figures 1 to 7.

use lab::record::Workload;

use crate::claims::{Claim, Is, RATE, Statement};

const SPED: &[&str] = &["epoll"];
const SEDA: &[&str] = &["seda:2+4/epoll"];
const AMPED: &[&str] = &[
    "amped:0+1/epoll",
    "amped:0+2/epoll",
    "amped:0+3/epoll",
    "amped:0+4/epoll",
    "amped:1+1/epoll",
    "amped:1+2/epoll",
    "amped:1+3/epoll",
    "amped:1+4/epoll",
];
const SEDA_S: &[&str] = &["seda-s:1/epoll", "seda-s:2/epoll", "seda-s:3/epoll", "seda-s:4/epoll"];
const SYMPED: &[&str] = &["symped:1/epoll", "symped:2/epoll", "symped:3/epoll", "symped:4/epoll", "symped:5/epoll"];

/// The paper rounds to 5 000 transactions/s of about 300 000; what differs by less than this is said to be the same.
const SAME: f64 = 1.05;
/// The paper's machine.
const CPUS: usize = 8;

fn closed(workload: &Workload) -> bool {
    workload.is_closed()
}

/// The peak of one against that of another.
const fn peak(of: &'static [&'static str], is: Is) -> Statement {
    Statement { architectures: of, metric: &RATE, only: closed, is }
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        number: 1,
        says: "The peaks are in the order SPED, about as high as SEDA, AMPED, SEDA-S, SYMPED, which is 54 % above the next.",
        cpus_min: CPUS,
        statements: &[
            peak(SEDA, Is::Peaks(SAME, SPED)),
            peak(AMPED, Is::Above(1.0, SEDA)),
            peak(SEDA_S, Is::Above(1.0, AMPED)),
            peak(SYMPED, Is::Above(1.54, SEDA_S)),
        ],
    },
    Claim {
        number: 2,
        says: "SYMPED grows linearly up to 4 threads, half of the cores.",
        cpus_min: CPUS,
        statements: &[
            peak(&["symped:2/epoll"], Is::Above(1.8, &["symped:1/epoll"])),
            peak(&["symped:4/epoll"], Is::Above(3.6, &["symped:1/epoll"])),
        ],
    },
    Claim {
        number: 3,
        says: "AMPED is best with one network thread and two payload threads: more of them only add switching.",
        cpus_min: CPUS,
        statements: &[peak(
            &["amped:1+2/epoll"],
            Is::Above(
                1.0,
                &[
                    "amped:0+1/epoll",
                    "amped:0+2/epoll",
                    "amped:0+3/epoll",
                    "amped:0+4/epoll",
                    "amped:1+1/epoll",
                    "amped:1+3/epoll",
                    "amped:1+4/epoll",
                ],
            ),
        )],
    },
    Claim {
        number: 4,
        says: "SEDA-S is best with three network threads and three payload threads.",
        cpus_min: CPUS,
        statements: &[peak(
            &["seda-s:3/epoll"],
            Is::Above(1.0, &["seda-s:1/epoll", "seda-s:2/epoll", "seda-s:4/epoll"]),
        )],
    },
];
