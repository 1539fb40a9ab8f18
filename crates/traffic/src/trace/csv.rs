//! Arrivals in CSV files.

use std::io::{BufRead, Read};

use anyhow::{Context, bail, ensure};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::column::{Column, Columns, Row};

/// The limit of a line, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The rows of a file. The first line names the columns; without names, the first column has times in seconds.
pub(super) struct CsvRows<R> {
    reader: R,
    pub(super) columns: Columns,
    line: Vec<u8>,
    /// The number of the current line, from 1.
    number: u64,
    /// Whether the current line is a row that was not returned yet.
    is_pending: bool,
}

impl<R: BufRead> CsvRows<R> {
    pub(super) fn new(reader: R) -> anyhow::Result<Self> {
        let mut rows = Self { reader, columns: Columns::first(), line: Vec::new(), number: 0, is_pending: false };
        ensure!(rows.advance()?, "the file is empty");
        let line = rows.text()?;
        if time_ns(field(line, 0).unwrap_or_default(), rows.columns.unit_ns).is_some() {
            rows.is_pending = true;
        } else {
            let names: Vec<&str> = (0..).map_while(|at| field(line, at)).collect();
            rows.columns = Columns::find(names.iter().copied(), |_| None)?;
        }
        Ok(rows)
    }

    /// Reads the next line that is not empty. Returns whether there is one.
    fn advance(&mut self) -> anyhow::Result<bool> {
        loop {
            self.line.clear();
            self.number += 1;
            let read = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)?;
            if read as u64 == LINE_BYTES_MAX {
                bail!("line {} is longer than {LINE_BYTES_MAX} bytes; is this a CSV file?", self.number);
            }
            if read == 0 || !self.line.trim_ascii().is_empty() {
                return Ok(read > 0);
            }
        }
    }

    /// Returns the current line.
    fn text(&self) -> anyhow::Result<&str> {
        let line =
            std::str::from_utf8(&self.line).ok().with_context(|| format!("line {} is not UTF-8", self.number))?;
        Ok(line.trim_start_matches('\u{feff}').trim())
    }

    fn row(&self) -> anyhow::Result<Row> {
        let Columns { time, unit_ns, others } = self.columns;
        let (line, number) = (self.text()?, self.number);
        let text = field(line, time).with_context(|| format!("line {number} has no time"))?;
        let time_ns = time_ns(text, unit_ns).with_context(|| match text.parse::<f64>() {
            Ok(time) if time.is_finite() => {
                let unit = format!("in units of {unit_ns} ns; name the column by its unit, as in time_ms or time_us");
                format!("line {number}: the time `{text}` is beyond the range {unit}")
            }
            _ => format!(
                "line {number}: invalid time `{text}`: expected a number, or a time such as 2026-01-31 12:00:00.5 or 2026-01-31T12:00:00.5Z"
            ),
        })?;
        let mut values = [None; Column::ALL.len()];
        for ((column, at), value) in Column::ALL.into_iter().zip(others).zip(&mut values) {
            let (Some(at), name) = (at, column.name()) else { continue };
            let text = field(line, at).with_context(|| format!("line {number} has no {name}"))?;
            *value = Some(text.parse().ok().with_context(|| {
                format!(
                    "line {number}: invalid {name} `{text}`: expected a whole number; or ignore the column with \
                     --trace-ignore {name}"
                )
            })?);
        }
        Ok(Row { time_ns, values })
    }
}

impl<R: BufRead> Iterator for CsvRows<R> {
    type Item = anyhow::Result<Row>;

    fn next(&mut self) -> Option<anyhow::Result<Row>> {
        if !std::mem::take(&mut self.is_pending) {
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        Some(self.row())
    }
}

/// Returns a field of a line without its quotes; `None` beyond the last.
fn field(line: &str, number: usize) -> Option<&str> {
    let mut rest = Some(line);
    for at in 0.. {
        let line = rest?.trim_start();
        let (field, after) = match line.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => line.split_at(line.find(',').unwrap_or(line.len())),
        };
        if at == number {
            return Some(field.trim());
        }
        rest = after.split_once(',').map(|(_, rest)| rest);
    }
    None
}

/// Parses a decimal number of units without rounding, or a date with a time of day.
fn time_ns(text: &str, unit_ns: u64) -> Option<i64> {
    let (is_negative, number) = text.strip_prefix('-').map_or((false, text), |number| (true, number));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // More digits are beyond a nanosecond.
    let fraction = fraction.get(..18).unwrap_or(fraction);
    let is_decimal = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !is_decimal(whole) || !is_decimal(fraction) {
        let Ok(number) = text.parse::<f64>() else {
            return i64::try_from(timestamp(text)?.as_nanosecond()).ok();
        };
        let ns = number * unit_ns as f64;
        return (ns.abs() < i64::MAX as f64).then_some(ns as i64);
    }
    let unit_ns = i128::from(unit_ns);
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<i128>().ok()? };
    let part = part * unit_ns / 10_i128.pow(fraction.len() as u32);
    let ns = whole.parse::<i128>().ok()?.checked_mul(unit_ns)?.checked_add(part)?;
    i64::try_from(if is_negative { -ns } else { ns }).ok()
}

/// Parses a date and a time of day, separated by `T` or a space: with a zone, as RFC 3339 has it, or in UTC.
fn timestamp(text: &str) -> Option<Timestamp> {
    text.parse()
        .ok()
        .or_else(|| text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp()))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn rows(text: &str) -> Result<Vec<(i64, Option<u64>)>, String> {
        let rows = CsvRows::new(text.as_bytes()).map_err(|error| error.to_string())?;
        rows.map(|row| row.map(|row| (row.time_ns, row.value(Column::Connection))).map_err(|error| error.to_string()))
            .collect()
    }

    #[test]
    fn columns_are_read_by_name_or_the_first_as_seconds() {
        assert_eq!(rows("0\n1.5\n\n2,x\n"), Ok(vec![(0, None), (1_500_000_000, None), (2_000_000_000, None)]));
        let named = "\u{feff}path,time_us,connection\r\n\"/a,b\",10.25,7\r\n/c,20,0";
        assert_eq!(rows(named), Ok(vec![(10_250, Some(7)), (20_000, Some(0))]));
        let sized = CsvRows::new("time,bytes\n1,10\n".as_bytes()).unwrap().next().unwrap().unwrap();
        assert_eq!(sized, Row { time_ns: 1_000_000_000, values: [None, None, Some(10)] });
        let dated = "timestamp\n2026-01-31T12:00:00Z\n2026-01-31T12:00:00.000000001Z\n";
        let times: Vec<i64> = rows(dated).unwrap().into_iter().map(|(ns, _)| ns).collect();
        assert_eq!(times[1] - times[0], 1);
        let azure = "TIMESTAMP,ContextTokens\n2023-11-16 18:17:03.9799600,374\n2023-11-16 18:17:04.0319600,396\n";
        let times: Vec<i64> = rows(azure).unwrap().into_iter().map(|(ns, _)| ns).collect();
        assert_eq!(times, [1_700_158_623_979_960_000, 1_700_158_624_031_960_000]);
        for same in ["2023-11-16T18:17:03.97", "2023-11-16T18:17:03.97Z", "2023-11-16 19:17:03.97+01:00"] {
            assert_eq!(time_ns(same, 1), time_ns("2023-11-16 18:17:03.97", 1), "{same}");
        }
        for wrong in ["2023-13-16 18:17:03", "18:17:03"] {
            assert_eq!(time_ns(wrong, 1), None, "{wrong}");
        }
    }

    #[test]
    fn times_of_today_keep_their_nanoseconds() {
        let second = 1_000_000_000;
        assert_eq!(time_ns("1790000000.123456789", second), Some(1_790_000_000_123_456_789));
        assert_eq!(time_ns("-0.5", second), Some(-500_000_000));
        assert_eq!(time_ns("1e3", 1_000), Some(1_000_000));
        assert_eq!(time_ns("3.", 1), Some(3));
        for wrong in ["", "-", ".", "x", "1.x", "nan", "inf", "99999999999999999999", "1e300"] {
            assert_eq!(time_ns(wrong, second), None, "{wrong}");
        }
    }

    #[test]
    fn invalid_line_is_named_with_a_remedy() {
        for (text, expected) in [
            ("", "the file is empty"),
            ("a,b\n1,2\n", "no column of times; name one time_s"),
            ("time_s,Time_ms \n0,0\n", "the file has several columns of times (time_s, Time_ms); remove all but one"),
            ("time\nx\n", "line 2: invalid time `x`: expected a number"),
            (
                "time\n1700000000123\n",
                "line 2: the time `1700000000123` is beyond the range in units of 1000000000 ns; name",
            ),
            ("a,time\n1\n", "line 2 has no time"),
            ("time,connection\n1,2\n3,four\n", "line 3: invalid connection `four`: expected a whole number; or ignore"),
            ("time,connection\n1\n", "line 2 has no connection"),
        ] {
            let error = rows(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let error = rows(&"x".repeat(1 << 20)).unwrap_err();
        assert!(error.contains("line 1 is longer than 65536 bytes"), "{error}");
    }

    /// Lines that are made as they are read.
    struct Generated {
        made: u64,
        rest: Vec<u8>,
    }

    impl Read for Generated {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.rest.is_empty() {
                self.rest = format!("{},{}\n", self.made, self.made % 100).into_bytes();
                self.made += 1;
            }
            let count = self.rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&self.rest[..count]);
            self.rest.drain(..count);
            Ok(count)
        }
    }

    #[test]
    fn endless_file_is_read_line_by_line() {
        let reader = io::BufReader::new(Generated { made: 0, rest: b"time_ns,connection\n".to_vec() });
        let mut rows = CsvRows::new(reader).unwrap();
        for at in 0..300_000 {
            let expected = Row { time_ns: at, values: [Some(at as u64 % 100), None, None] };
            assert_eq!(rows.next().unwrap().unwrap(), expected);
            // Each read of the generator has one line.
            assert!(rows.reader.get_ref().made <= at as u64 + 2, "read {} lines", rows.reader.get_ref().made);
            assert!(rows.line.capacity() <= 1 << 10);
        }
    }
}
