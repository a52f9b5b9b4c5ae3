# Shared by the scripts of this project: counted checks, one line each, and the line that sums them up.
# shellcheck shell=bash disable=SC2034  # its variables are for the scripts that source it

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)
passed=0
failed=0

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 2
}

# check NAME COMMAND...: the command's output is shown only when it fails. It runs as a condition, so a function
# given here must return its own verdict: `set -e` does not act inside it.
check() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then
    passed=$((passed + 1))
    say "ok    $name"
  else
    failed=$((failed + 1))
    say "FAIL  $name"
    say "$output" | sed 's/^/      /'
  fi
}

# The closing line; its exit status is the verdict.
summary() {
  say "$passed passed, $failed failed"
  ((failed == 0))
}

# Arguments of every configure: Ninja, and ccache where there is one.
cmake_arguments() {
  say -G Ninja
  if command -v ccache >/dev/null; then say -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache; fi
}

# configure DIRECTORY ARGUMENTS...: only where nothing was generated yet; CMake itself notices later changes.
configure() {
  local directory=$1 arguments
  shift
  if [[ -f $directory/build.ninja ]]; then return; fi
  read -r -d '' -a arguments < <(cmake_arguments && printf '\0')
  say "configuring ${directory#"$root"/}"
  cmake -S "$root" -B "$directory" "${arguments[@]}" "$@" --log-level=WARNING >"$directory.log" 2>&1 || {
    cat "$directory.log" >&2
    rm -f "$directory/build.ninja"
    return 1
  }
}
