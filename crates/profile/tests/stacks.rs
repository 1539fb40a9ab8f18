//! Stacks that were recorded, each with its category.

use std::fmt::Write;

use muxbench_profile::{Category, Classifier};

/// Servers of muxbench with 100 connections over loopback, as root on a virtual machine with x86-64. Of each process, only the innermost
/// function is kept.
const RECORDED: [(&str, &str); 1] = [("6.18", include_str!("stacks-6.18.txt"))];

#[test]
fn recorded_stacks_are_in_their_categories() {
    let (mut classifier, mut wrong) = (Classifier::default(), String::new());
    for (kernel, stacks) in RECORDED {
        for line in stacks.lines() {
            let (expected, stack) = line.split_once(": ").unwrap();
            let stack: Vec<&str> = stack.split(';').collect();
            let found = classifier.category(&stack).map_or("unexplained", Category::name);
            if found != expected {
                let _ = writeln!(wrong, "Linux {kernel}: {found}, not {expected}: {stack:?}");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn deep_functions_without_a_rule_are_unexplained() {
    let mut classifier = Classifier::default();
    let mut found = |stack: &str| classifier.category(&stack.split(';').collect::<Vec<_>>());
    let call = "main;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];__x64_sys_novel_[k]";
    assert_eq!(found(call), Some(Category::SystemCalls));
    assert_eq!(found(&format!("{call};do_novel_[k];novel_one_[k]")), Some(Category::SystemCalls));
    assert_eq!(found(&format!("{call};do_novel_[k];novel_one_[k];novel_two_[k]")), None);
    let write = "__libc_write;entry_[k];do_syscall_64_[k];ksys_write_[k];a_[k];b_[k];c_[k]";
    assert_eq!(found(write), None, "the function of the process says who called the kernel");
    assert_eq!(found("[unknown]"), None, "no function has a name");
    assert_eq!(found("main;serve"), Some(Category::Application), "the innermost function of a process");
}
