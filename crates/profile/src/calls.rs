//! Sampled stacks as a tree of calls.

use std::collections::BTreeMap;
use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The end of a kernel function's name, as in the folded stacks of other tools.
pub const KERNEL: &str = "_[k]";
/// The only function of a stack in which none has a name.
pub(crate) const UNKNOWN: &str = "[unknown]";

/// Sampled stacks. Stacks share their beginnings, so the tree takes a tenth of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Calls {
    /// The names of functions; those of the kernel end with `_[k]`.
    functions: Vec<String>,
    /// A call after its caller: the number of the caller's row from 1, or 0 without a caller; the position of the function; the samples
    /// in the function itself.
    calls: Vec<[u32; 3]>,
}

impl Calls {
    /// Makes the tree of stacks, each from the outermost function to the innermost one, with its number of samples.
    pub fn of(stacks: impl IntoIterator<Item = (Vec<String>, u32)>) -> Self {
        let (mut calls, mut places, mut rows) = (Self::default(), BTreeMap::new(), BTreeMap::new());
        for (stack, samples) in stacks {
            let mut caller = 0;
            for name in stack {
                let function = *places.entry(name).or_insert_with_key(|name| {
                    calls.functions.push(name.clone());
                    calls.functions.len() as u32 - 1
                });
                caller = *rows.entry((caller, function)).or_insert_with(|| {
                    calls.calls.push([caller, function, 0]);
                    calls.calls.len() as u32
                });
            }
            if let Some(call) = (caller as usize).checked_sub(1) {
                calls.calls[call][2] += samples;
            }
        }
        calls
    }

    /// Returns each stack that has samples, from the outermost function to the innermost one. Leaves out rows that are not a tree: a file
    /// may be damaged.
    pub fn stacks(&self) -> impl Iterator<Item = (Vec<&str>, u32)> {
        self.calls.iter().enumerate().filter(|(_, [.., samples])| *samples > 0).filter_map(|(row, call)| {
            let (mut stack, mut at, mut next) = (Vec::new(), row + 1, *call);
            loop {
                stack.push(self.functions.get(next[1] as usize)?.as_str());
                let caller = next[0] as usize;
                match caller {
                    0 => break,
                    // A caller precedes its calls.
                    _ if caller < at => (at, next) = (caller, self.calls[caller - 1]),
                    _ => return None,
                }
            }
            stack.reverse();
            Some((stack, call[2]))
        })
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> u64 {
        self.calls.iter().map(|[.., samples]| u64::from(*samples)).sum()
    }

    /// Returns the stacks as text: a line for each, with functions separated by semicolons, and the samples.
    pub fn folded(&self) -> String {
        self.stacks().fold(String::new(), |mut text, (stack, samples)| {
            let _ = writeln!(text, "{} {samples}", stack.join(";"));
            text
        })
    }

    /// Reads stacks from such text. Lines without a number of samples are left out.
    pub fn from_folded(text: &str) -> Self {
        Self::of(text.lines().filter_map(|line| {
            let (stack, samples) = line.rsplit_once(' ')?;
            Some((stack.split(';').map(str::to_owned).collect(), samples.parse().ok()?))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_stacks_read_back_and_count_the_same() {
        let text = "main;send_[k] 3\nmain;send_[k];copy_[k] 4\nmain 2\n";
        let calls = Calls::from_folded(text);
        assert_eq!((calls.samples(), calls.functions.len(), calls.calls.len()), (9, 3, 3));
        let mut lines: Vec<String> = calls.folded().lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines.join("\n"), "main 2\nmain;send_[k] 3\nmain;send_[k];copy_[k] 4");
    }

    #[test]
    fn damaged_tree_has_no_endless_stack() {
        let functions = vec!["f".to_owned()];
        let calls = Calls { functions, calls: vec![[1, 0, 1], [9, 0, 1], [0, 7, 1], [0, 0, 5]] };
        assert_eq!(calls.stacks().collect::<Vec<_>>(), [(vec!["f"], 5)]);
    }
}
