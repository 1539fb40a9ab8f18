//! Histograms as an HdrHistogram interval log (format version 1.3), which the HdrHistogram tools read, plot and merge.

use std::io;
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};

use crate::Histogram;

/// The format version, which readers expect in the first lines.
const VERSION: &str = "[Histogram log format version 1.3]";

/// Writes tagged histograms of one interval. A tag must not be empty or contain a comma, a space or a line end.
pub fn write_log<W: io::Write>(
    writer: &mut W,
    comment: &str,
    start: SystemTime,
    window: Duration,
    histograms: &[(&str, &Histogram)],
) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(VERSION)
        .add_comment(comment)
        .add_comment("Values and the maximum of each interval are in nanoseconds, timestamps and lengths in seconds")
        .with_start_time(start)
        .with_base_time(start)
        .begin_log_with(writer, &mut serializer)?;
    for (name, histogram) in histograms {
        let tag = Tag::new(name).filter(|tag| !tag.is_empty());
        let tag = tag.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("invalid tag `{name}`")))?;
        // The interval begins 0 s after the base time.
        log.write_histogram(&histogram.0, Duration::ZERO, window, Some(tag)).map_err(|error| match error {
            IntervalLogWriterError::IoError(error) => error,
            IntervalLogWriterError::SerializeError(error) => io::Error::other(error),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
    #[test]
    fn log_reads_back_as_written() {
        let service: Histogram = (1..5000).map(|at| at * 977).chain([0, u64::MAX]).collect();
        let empty = Histogram::new();
        let start = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_125);
        let mut log = Vec::new();
        let histograms = [("service", &service), ("send_delay", &empty)];
        write_log(&mut log, "epoll\n400 connections", start, Duration::from_millis(1500), &histograms).unwrap();
        let text = std::str::from_utf8(&log).unwrap();
        assert!(text.starts_with("#[Histogram log format version 1.3]\n#epoll\n#400 connections\n"), "{text}");

        let entries: Vec<LogEntry<'_>> = IntervalLogIterator::new(&log).collect::<Result<_, _>>().unwrap();
        let since_epoch = start.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert!(matches!(entries[0], LogEntry::StartTime(time) if time == since_epoch), "{entries:?}");
        assert!(matches!(entries[1], LogEntry::BaseTime(time) if time == since_epoch), "{entries:?}");
        assert_eq!(entries.len(), 2 + histograms.len());
        for (entry, (name, written)) in entries[2..].iter().zip(histograms) {
            let LogEntry::Interval(interval) = entry else { panic!("{entry:?}") };
            assert_eq!(interval.tag().unwrap().as_str(), name);
            assert_eq!(interval.start_timestamp(), Duration::ZERO);
            assert_eq!(interval.duration(), Duration::from_millis(1500));
            assert_eq!(interval.max(), written.distribution().max_ns as f64);
            let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
            let read: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            assert_eq!(read.len(), written.count());
            assert_eq!(read.max(), written.distribution().max_ns);
            for q in [0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999, 1.0] {
                assert_eq!(read.value_at_quantile(q).min(read.max()), written.quantile(q), "{name} {q}");
            }
        }
    }

    #[test]
    fn tag_that_breaks_the_line_is_refused() {
        for tag in ["", "a,b", "a b", "a\nb"] {
            let error =
                write_log(&mut Vec::new(), "", SystemTime::UNIX_EPOCH, Duration::ZERO, &[(tag, &Histogram::new())]);
            assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidInput, "{tag:?}");
        }
    }
}
