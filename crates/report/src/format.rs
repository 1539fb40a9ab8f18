//! Numbers with units, to three significant digits, and text that is safe for a terminal.

use harness::record::{Figure, Unit, VerdictKind};
use stats::{Estimate, Interval, Ratio};

/// Formats a value of a figure with its unit.
pub fn figure(figure: Figure, value: f64) -> String {
    match figure.unit() {
        Unit::Time => time(value),
        Unit::Rate => format!("{}/s", digits(value)),
        Unit::Bytes => bytes(value),
        Unit::Share => percent((value * 1e4).round() / 1e4),
    }
}

/// Formats nanoseconds as microseconds.
pub fn us(ns: f64) -> String {
    digits(ns / 1e3)
}

/// Formats a difference of times with its interval, as in `+8.10 ±0.20`, in microseconds.
pub fn added_us(difference_ns: Option<Estimate>) -> String {
    let interval = |it: Interval| format!(" ±{}", us(it.half_width()));
    difference_ns
        .map_or("-".into(), |it| format!("{}{}", signed_us(it.value), it.interval.map_or(String::new(), interval)))
}

/// Formats a difference in microseconds with its sign.
pub(crate) fn signed_us(ns: f64) -> String {
    format!("{}{}", if ns < 0.0 { "" } else { "+" }, us(ns))
}

/// Formats a time in a suitable unit.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e6 => format!("{} µs", us(ns)),
        ns if ns < 1e9 => format!("{} ms", digits(ns / 1e6)),
        ns if ns < 120e9 => format!("{} s", digits(ns / 1e9)),
        ns => format!("{:.0} min", ns / 60e9),
    }
}

/// Returns the name of a verdict.
pub fn verdict(verdict: VerdictKind) -> &'static str {
    match verdict {
        VerdictKind::Valid => "valid",
        VerdictKind::Saturated => "saturated",
        VerdictKind::ClientLimited => "client-limited",
        VerdictKind::Unsteady => "unsteady",
        VerdictKind::Failed => "failed",
    }
}

/// Formats a planned rate of requests, with decimals only if needed; `closed` without a rate.
pub fn rate(rate_per_s: Option<f64>) -> String {
    rate_per_s.map_or("closed".into(), |rate_per_s| ((rate_per_s * 1e3).round() / 1e3).to_string())
}

/// Formats bytes in a suitable unit.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes.abs() < 1024.0 => format!("{bytes:.0} B"),
        bytes if bytes.abs() < 1024.0 * 1024.0 => format!("{} KiB", digits(bytes / 1024.0)),
        bytes => format!("{} MiB", digits(bytes / 1024.0 / 1024.0)),
    }
}

/// Formats bytes per second in a suitable decimal unit.
pub fn bandwidth(bytes_per_s: f64) -> String {
    match bytes_per_s {
        slow if slow < 1e6 => format!("{} kB/s", digits(slow / 1e3)),
        usual if usual < 1e9 => format!("{} MB/s", digits(usual / 1e6)),
        fast => format!("{} GB/s", digits(fast / 1e9)),
    }
}

/// Formats a multiple as in `1.5x`, with decimals only if needed.
pub fn times(factor: f64) -> String {
    format!("{}x", (factor * 1e3).round() / 1e3)
}

/// Formats a share as in `90 %`, with decimals only if needed.
pub fn percent(share: f64) -> String {
    let percent = (share * 1e6).round() / 1e4;
    format!("{percent} %")
}

/// Formats a count with the word for it, such as `1 repeat` or `2 repeats`.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Formats a number with three significant digits, but at most two decimals; whole numbers from 100 on.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats a number with three significant digits, but at most four decimals; whole numbers from 100 on. The reproduced
/// papers print three significant digits too, without a limit on decimals.
pub fn significant(value: f64) -> String {
    // Adding 0 makes -0 positive.
    format!("{:.*}", decimals(value), value + 0.0)
}

/// Returns the number of decimals of [`significant`].
pub(crate) fn decimals(value: f64) -> usize {
    let decimals = |size: f64| (2.0 - size.log10().floor()).clamp(0.0, 4.0) as usize;
    let size = value.abs();
    if size == 0.0 {
        return 0;
    }
    // Rounding may add a digit before the decimal point.
    let rounded: f64 = format!("{size:.*}", decimals(size)).parse().unwrap_or(size);
    decimals(rounded.max(1e-4))
}

/// Joins names as in `a, b and c`.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Formats the words of a command line for a shell.
pub fn command(words: &[impl AsRef<str>]) -> String {
    let is_plain =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./,:=+%@".contains(c));
    let quote = |word: &str| match is_plain(word) {
        true => word.to_owned(),
        // Escape control characters, which a terminal would execute in pasted text.
        false if word.contains(char::is_control) => {
            let escape = |c: char| match c {
                '\\' | '\'' => format!("\\{c}"),
                c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
                c => c.to_string(),
            };
            format!("$'{}'", word.chars().map(escape).collect::<String>())
        }
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.iter().map(|word| quote(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// Formats a ratio with its interval; `-` without a ratio.
pub(crate) fn ratio(ratio: Option<Ratio>) -> String {
    let Some(Ratio { ratio, interval, .. }) = ratio else { return "-".into() };
    match interval {
        None => format!("{ratio:.2}"),
        Some(interval) => format!("{ratio:.2} ({:.2}-{:.2})", interval.low, interval.high),
    }
}

/// Formats the ends of a range of ratios.
pub(crate) fn range(range: Interval) -> String {
    format!("{:.2}-{:.2}", range.low, range.high)
}

/// Returns the name of a value in flags and files.
pub fn name(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Makes stored or received text safe for a terminal: escapes control characters, and characters that change the text
/// direction. Line ends and tabs stay.
pub fn visible(text: &str) -> String {
    let turns = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            // Escape as JSON does, because the text may be part of JSON.
            c if c.is_control() || turns(c) => shown += &format!("\\u{:04x}", u32::from(c)),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_with_special_characters_is_quoted() {
        let words = ["muxbench", "compare", "--connections", "1,2", "--output", "it's mine"].map(str::to_owned);
        assert_eq!(command(&words), r"muxbench compare --connections 1,2 --output 'it'\''s mine'");
        assert_eq!(command(&["a\n'b".to_owned()]), r"$'a\u000a\'b'");
    }

    #[test]
    fn control_characters_are_escaped() {
        let hostile = "a\u{1b}]0;title\u{7}\r\u{9b}2Jb\u{202e}c\u{7f}\t\n\u{e9}";
        let shown = visible(hostile);
        assert_eq!(shown, "a\\u001b]0;title\\u0007\\u000d\\u009b2Jb\\u202ec\\u007f\t\n\u{e9}");
        let json = serde_json::to_string(hostile).unwrap();
        assert_eq!(
            serde_json::from_str::<String>(&visible(&json)).unwrap(),
            hostile,
            "escaped JSON has the same value"
        );
    }

    #[test]
    fn added_time_has_its_sign_and_interval() {
        let of = |low: f64, value: f64, high: f64| Estimate { value, interval: Some(Interval { low, high }) };
        assert_eq!(added_us(Some(of(7_900.0, 8_100.0, 8_300.0))), "+8.10 ±0.20");
        assert_eq!(added_us(Some(of(-500.0, -100.0, 300.0))), "-0.10 ±0.40");
        assert_eq!(added_us(Some(Estimate { value: 1e5, interval: None })), "+100");
        assert_eq!(added_us(None), "-");
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let shown: Vec<String> = [0.0, 0.123, 9.99, 9.999, 12.34, 99.96, 1234.5].map(digits).into();
        assert_eq!(shown, ["0.00", "0.12", "9.99", "10.0", "12.3", "100", "1234"]);
        let shown: Vec<String> = [0.0, 0.12, -0.0571, 0.99961, 9.996, 99.96, 1234.5, 1e-9].map(significant).into();
        assert_eq!(shown, ["0", "0.120", "-0.0571", "1.00", "10.0", "100", "1234", "0.0000"]);
        assert_eq!((rate(Some(200.5)), rate(None)), ("200.5".into(), "closed".into()));
        assert_eq!((percent(0.9), percent(0.625), percent(0.07)), ("90 %".into(), "62.5 %".into(), "7 %".into()));
        assert_eq!(time(1_500.0), "1.50 µs");
        assert_eq!(time(2_500_000.0), "2.50 ms");
        assert_eq!(time(600e9), "10 min");
        assert_eq!(bytes(10_240.0), "10.0 KiB");
    }
}
