# Shared by demo.sh and test.sh: what a fresh Debian 12 needs, and the environment of a build.
# Sourced, with the working directory at the project's root.

ferry_packages=(build-essential cmake ninja-build ccache git
    libcaf-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libexpected-dev libssl-dev libpng-dev
    catch2 libbenchmark-dev python3 python3-venv)
ferry_torch_version=2.11.0
ferry_times=()

# Runs a command as a named stage and remembers how long it took.
stage() {
    local name=$1 started=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    # In a condition, or left of && and ||, the shell would go on after a failure inside "$@".
    local status
    set +e
    (set -e; "$@")
    status=$?
    set -e
    if [ "$status" -ne 0 ]; then
        printf '\n%s failed.\n' "$name" >&2
        exit "$status"
    fi
    ferry_times+=("$(printf '%5d s  %s' $((SECONDS - started)) "$name")")
}

print_times() {
    printf '\n== Time\n'
    printf '%s\n' "${ferry_times[@]}"
    printf '%5d s  in all\n' "$SECONDS"
}

# Installs the Debian packages given that are not there yet.
install_packages() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' \
            || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local prefix=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
            printf 'Packages are missing. Install them, then start this again:\n' >&2
            printf '    sudo apt-get install %s\n' "${missing[*]}" >&2
            exit 1
        fi
        prefix=(sudo)
    fi
    "${prefix[@]}" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive "${prefix[@]}" apt-get install -y -qq "${missing[@]}" >/dev/null
}

# For the tests of timeline pages, which are skipped without one.
install_browser() {
    command -v chromium >/dev/null || (install_packages chromium) \
        || printf 'There is no chromium: the tests of timeline pages will be skipped.\n'
}

# Prints the libtorch directory that the machine already has, if any.
find_torch() {
    if [ -n "${FERRY_TORCH_DIR:-}" ]; then
        printf '%s\n' "$FERRY_TORCH_DIR"
        return
    fi
    local python
    for python in .venv/bin/python python3; do
        command -v "$python" >/dev/null || continue
        "$python" -c "
import importlib.util, sys
spec = importlib.util.find_spec('torch')
if spec is None: sys.exit(1)
print(spec.submodule_search_locations[0])" 2>/dev/null && return
    done
    return 1
}

install_torch() {
    if ! find_torch >/dev/null; then
        printf 'Installing libtorch (torch==%s) into .venv, about two minutes.\n' "$ferry_torch_version"
        python3 -m venv .venv
        .venv/bin/pip install -q "torch==$ferry_torch_version" numpy
    fi
    printf 'libtorch: %s\n' "$(find_torch)"
}

set_up() {
    install_packages "${ferry_packages[@]}"
    install_torch
}

configure() {
    local preset=$1
    shift
    CMAKE_CXX_COMPILER_LAUNCHER=ccache cmake --preset "$preset" --log-level=NOTICE \
        -DFERRY_TORCH_DIR="$(find_torch || true)" "$@"
}

# Precompiled headers and ccache go together only with these.
export CCACHE_SLOPPINESS=pch_defines,time_macros
# The OpenMP threads of the torch suites would otherwise spin on the cores that other tests need.
export OMP_WAIT_POLICY=passive
