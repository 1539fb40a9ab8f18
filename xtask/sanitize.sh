#!/usr/bin/env bash
# Runs tests under tools that find undefined behaviour, in target/sanitize: sanitize.sh TOOL...
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')

# Unit tests of crates without system calls.
pure=(--package muxbench-wire --package muxbench-stats --lib)
# Unit tests of the server, one after the other because they count descriptors.
server=(--package muxbench-server --lib --no-default-features -- --test-threads=1)
# The conformance suite without `may`, because sanitizers do not know of its coroutines' stacks.
conformance=(
  --package muxbench --test it --no-default-features --features tokio,smol,compio -- conformance:: --test-threads=1
)

# Cargo of the nightly toolchain.
nightly() {
  rustup run nightly cargo "$@"
}

# Installs missing components of the nightly toolchain; an installed toolchain stays at its version.
components() {
  rustup component add --toolchain nightly "$@" ||
    rustup toolchain install nightly --profile minimal --component "$(IFS=,; echo "$*")"
}

# Runs tests with a sanitizer and its options, and fails if there are reports. Without an instrumented standard library, its
# synchronisation would be reported as races. Reports are files, because a test may not read the output of the servers it starts.
instrumented() {
  local folder=$PWD/target/sanitize/$1 status=0
  local -n arguments=$4
  rm -rf "$folder/reports" && mkdir -p "$folder/reports"
  env "$2=log_path=$folder/reports/of:$3" CARGO_ENCODED_RUSTFLAGS="-Zsanitizer=$1" \
    rustup run nightly cargo test -Zbuild-std --target "$host" --locked --target-dir "$folder" "${arguments[@]}" || status=$?
  find "$folder/reports" -type f -exec cat {} + -exec false {} + || status=1
  return "$status"
}

for tool in "$@"; do
  echo "== $tool"
  case $tool in
    # Tests read the clock, and expect exact powers and logarithms.
    miri)
      components miri rust-src
      export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-deterministic-floats"
      PROPTEST_CASES=4 nightly miri test --locked --target-dir target/sanitize/miri "${pure[@]}"
      ;;
    # Objects that live as long as the process are leaked on purpose. The soak finds growing leaks.
    address)
      components rust-src
      for tests in pure server conformance; do instrumented address ASAN_OPTIONS detect_leaks=0 "$tests"; done
      ;;
    # A false positive: tokio creates a connection's entry, registers it through a duplicate of its epoll descriptor, and gets the
    # event through the original. The sanitizer does not know that both refer to one epoll instance.
    thread)
      components rust-src
      mkdir -p target/sanitize
      echo "race:tokio::runtime::io::driver::dispatch_event" > target/sanitize/suppressions
      options=suppressions=$PWD/target/sanitize/suppressions
      for tests in pure server conformance; do instrumented thread TSAN_OPTIONS "$options" "$tests"; done
      ;;
    memcheck)
      runner=CARGO_TARGET_$(tr a-z- A-Z_ <<< "$host")_RUNNER
      export "$runner=valgrind --quiet --error-exitcode=99 --leak-check=no" PROPTEST_CASES=16
      for tests in pure server; do
        declare -n arguments=$tests
        cargo test --locked --target-dir target/sanitize/memcheck "${arguments[@]}"
      done
      ;;
  esac
done
