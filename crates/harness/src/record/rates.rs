//! Rates at which a server moved the bytes of streams, from successive readings of its counters.

use load::result::PARTS;
use server::Moved;
use wire::stream::Direction;

/// Returns the bytes that the server moved in the direction of the bursts.
fn bursts(direction: Direction, moved: Moved) -> f64 {
    (match direction {
        Direction::In => moved.bytes_in,
        Direction::Out => moved.bytes_out,
    }) as f64
}

/// Returns the rate in the direction of the bursts, in bytes per second, between the first and the last reading. `None` if no
/// time passed between them, or with fewer than two readings.
pub fn server_bytes_per_s(direction: Direction, moved: &[Moved]) -> Option<f64> {
    let (first, last) = (*moved.first()?, *moved.last()?);
    let elapsed_ns = last.at_ns.checked_sub(first.at_ns).filter(|&ns| ns > 0)?;
    Some((bursts(direction, last) - bursts(direction, first)) * 1e9 / elapsed_ns as f64)
}

/// Returns the rate in the direction of the bursts, in bytes per second, for each of `PARTS` equal parts of the time between the
/// first and the last reading. At an edge without a reading, interpolates between the nearest readings.
pub fn server_bytes_per_s_by_part(direction: Direction, moved: &[Moved]) -> Option<[f64; PARTS]> {
    server_bytes_per_s(direction, moved)?;
    let (first_ns, last_ns) = (moved[0].at_ns as f64, moved[moved.len() - 1].at_ns as f64);
    let part_ns = (last_ns - first_ns) / PARTS as f64;
    let at = |edge: usize| {
        let at_ns = first_ns + part_ns * edge as f64;
        let after = moved.partition_point(|it| (it.at_ns as f64) < at_ns).clamp(1, moved.len() - 1);
        let (from, to) = (moved[after - 1], moved[after]);
        let share = (at_ns - from.at_ns as f64) / (to.at_ns - from.at_ns).max(1) as f64;
        bursts(direction, from) + share * (bursts(direction, to) - bursts(direction, from))
    };
    Some(std::array::from_fn(|part| (at(part + 1) - at(part)) * 1e9 / part_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_between_readings_are_interpolated() {
        // 32 MB from 0 s to 1 s, then none until 2 s. No reading at 1 s: the rate seems constant from 0.5 s to 1.5 s.
        let moved = |at_ms: u64, megabytes: u64| Moved {
            at_ns: 7_000_000_000 + at_ms * 1_000_000,
            bytes_in: 5 + megabytes * 1_000_000,
            bytes_out: 99,
        };
        let readings = [moved(0, 0), moved(500, 16), moved(1_500, 32), moved(2_000, 32)];
        assert_eq!(server_bytes_per_s(Direction::In, &readings), Some(16e6));
        assert_eq!(server_bytes_per_s(Direction::Out, &readings), Some(0.0));
        let parts = server_bytes_per_s_by_part(Direction::In, &readings).unwrap().map(|it| it.round());
        assert_eq!((parts[0], parts[7], parts[8], parts[23], parts[24], parts[31]), (32e6, 32e6, 16e6, 16e6, 0.0, 0.0));
        for few in [&readings[..0], &readings[..1]] {
            assert_eq!(server_bytes_per_s(Direction::In, few), None);
            assert_eq!(server_bytes_per_s_by_part(Direction::In, few), None);
        }
    }
}
