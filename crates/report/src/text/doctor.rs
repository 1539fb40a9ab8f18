//! The findings about a host.

use std::fmt::Write;

use harness::doctor::checks::{Diagnosis, Severity};

use crate::format;
use crate::text::medium::hanging;
use crate::text::{Medium, table};

const ORDER: [(Severity, &str); 3] =
    [(Severity::Warning, "Warning"), (Severity::Unknown, "Unknown"), (Severity::Good, "Good")];

/// The largest width of prose, because longer lines are hard to read.
const WIDTH_MAX: usize = 100;

/// Renders warnings, then unknown facts, each with its effect and its remedy, then good facts without either.
pub fn render(findings: &[Diagnosis], medium: Medium) -> String {
    let width = match medium {
        Medium::Terminal(terminal) => terminal.columns.min(WIDTH_MAX),
        Medium::Markdown => return markdown(findings),
    };
    let name_width = findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (severity, heading) in ORDER {
        let group: Vec<&Diagnosis> = findings.iter().filter(|finding| finding.severity == severity).collect();
        if group.is_empty() {
            continue;
        }
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{heading} ({})", group.len());
        for finding in group {
            text += &hanging(&format!("  {:name_width$}  ", finding.name), &finding.value, width);
            if severity == Severity::Good {
                continue;
            }
            let margin = " ".repeat(4);
            text += &hanging(&margin, &finding.effect, width);
            let remedy = &finding.remedy;
            if !remedy.is_empty() {
                // Keep a command on one line, so that it can be copied.
                let is_sentence = remedy.starts_with(char::is_uppercase);
                text += &hanging(&format!("{margin}-> "), remedy, if is_sentence { width } else { usize::MAX });
            }
        }
    }
    text
}

/// Returns a table with a row for each finding, in the order of [`ORDER`].
fn markdown(findings: &[Diagnosis]) -> String {
    let mut findings: Vec<&Diagnosis> = findings.iter().collect();
    findings.sort_by_key(|finding| ORDER.iter().position(|(severity, _)| *severity == finding.severity));
    let cells = |it: &Diagnosis| {
        [&it.name, &format::name(&it.severity), &it.value, &it.effect, &it.remedy].map(String::clone).to_vec()
    };
    let headings = ["fact", "state", "value", "effect", "remedy"];
    table::of_parts(1, headings, findings.into_iter().map(cells), Medium::Markdown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Diagnosis> {
        let finding = |name: &str, value: &str, severity, effect: &str, remedy: &str| Diagnosis {
            name: name.into(),
            value: value.into(),
            severity,
            effect: effect.into(),
            remedy: remedy.into(),
        };
        vec![
            finding("clock source", "tsc, 25 ns a reading", Severity::Good, "Times are read from it.", ""),
            finding(
                "governor",
                "powersave",
                Severity::Warning,
                "A governor that follows the load runs the CPUs slower when they are mostly idle: latency then falls as the \
                 rate rises.",
                "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
            ),
            finding("SMT", "hidden by the hypervisor", Severity::Unknown, "Siblings share a core.", "Repeat more"),
            finding("turbo", "no switch", Severity::Unknown, "The frequency depends on temperature.", ""),
            finding(
                "mitigations",
                "on: retbleed spec_store_bypass spectre_v1 spectre_v2; nothing is left vulnerable",
                Severity::Good,
                "System calls are slower.",
                "",
            ),
        ]
    }

    #[test]
    fn warnings_come_first() {
        insta::assert_snapshot!(render(&findings(), 160.into()));
    }

    #[test]
    fn findings_fit_a_narrow_terminal() {
        insta::assert_snapshot!(render(&findings(), 60.into()));
    }
}
