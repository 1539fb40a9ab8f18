//! Under `cargo fuzz`, libFuzzer feeds the target that `FUZZ_TARGET` names; otherwise the target is fed with files:
//! `FUZZ_TARGET=http cargo run -p fuzz -- FILE...` shows again what a file did.

#![cfg_attr(fuzzing, no_main)]

use fuzz::{TARGETS, Target};

fn target() -> anyhow::Result<&'static Target> {
    let names = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|target| target.name == name);
    target.ok_or_else(|| anyhow::anyhow!("FUZZ_TARGET is {name:?}, which is no target; set it to one of {}", names()))
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static TARGET: std::sync::LazyLock<&Target> = std::sync::LazyLock::new(|| target().expect("it is set"));
    (TARGET.run)(data);
});

#[cfg(not(fuzzing))]
fn main() -> anyhow::Result<()> {
    use anyhow::Context;
    let target = target()?;
    for file in std::env::args_os().skip(1) {
        let data = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        (target.run)(&data);
        println!("{}: {} has nothing against it", file.display(), target.name);
    }
    Ok(())
}
