//! Runs the target named by `FUZZ_TARGET`. Under `cargo fuzz`, libFuzzer supplies the inputs. Otherwise the arguments name
//! input files: `FUZZ_TARGET=http cargo run -p fuzz -- FILE...`.

#![cfg_attr(fuzzing, no_main)]

use fuzz::{TARGETS, Target};

fn target() -> anyhow::Result<&'static Target> {
    let names = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|target| target.name == name);
    target.ok_or_else(|| anyhow::anyhow!("unknown target {name:?} in FUZZ_TARGET; set it to one of {}", names()))
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static TARGET: std::sync::LazyLock<&Target> =
        std::sync::LazyLock::new(|| target().expect("FUZZ_TARGET names a target"));
    (TARGET.run)(data);
});

#[cfg(not(fuzzing))]
fn main() -> anyhow::Result<()> {
    use anyhow::Context;
    let target = target()?;
    for file in std::env::args_os().skip(1) {
        let data = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        (target.run)(&data);
        println!("{}: target {} does not fail", file.display(), target.name);
    }
    Ok(())
}
