# SPDX-License-Identifier: MIT
# A thin front of CMake; `make help` lists the targets.
#
# CC, CXX           compilers (gcc 9, clang 10 or later); another CC has build folders of its own
# JOBS              parallel jobs; default: all cores
# PREFIX, DESTDIR   where `make install` puts things
# WERROR=ON         makes warnings errors
# WINNOW_LLAMA_DIR  a llama.cpp source tree or installed prefix, instead of the download
# WINNOW_MODEL      a GGUF model, instead of the download
# FUZZ_SECONDS      how long each fuzzer runs; default 60
# PEER_FLAGS        flags of tools/peer_kvpress.py, as "-o kvpress.jsonl"

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
WERROR ?= OFF
FUZZ_SECONDS ?= 60

ifneq ($(origin CC),default)
  flavour := -$(notdir $(firstword $(CC)))
  export CC
  ifeq ($(origin CXX),default)
    CXX := $(patsubst gcc%,g++%,$(patsubst clang%,clang++%,$(CC)))
  endif
endif
ifneq ($(origin CXX),default)
  export CXX
endif

export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export WINNOW_LLAMA_DIR WINNOW_MODEL

BUILD ?= build$(flavour)
build_asan := $(BUILD)-asan
build_fuzz := build-fuzz
build_arm := build-arm

llama_dir := $(or $(WINNOW_LLAMA_DIR),$(CURDIR)/deps/llama.cpp)
model := $(or $(WINNOW_MODEL),$(CURDIR)/deps/SmolLM2-135M-Instruct.Q4_1.gguf)

comma := ,
# The generator is fixed when a build folder is made: a cmake call that names another one fails.
generator = $(if $(wildcard $1/CMakeCache.txt),,$(if $(shell command -v ninja 2>&1),-G Ninja))
# The job server of this make is of no use to the builds below it, and they warn of it.
cmake := env -u MFLAGS MAKEFLAGS=--no-print-directory cmake
configure = mkdir -p $1 && $(cmake) -S . -B $1 $(call generator,$1) -DWINNOW_WERROR=$(WERROR) $2 \
	>$1/configure.log 2>&1 || { cat $1/configure.log >&2; exit 1; }
ctest = cd $1 && ctest --output-on-failure --no-label-summary --timeout 600 -j $(JOBS)

setup := tools/setup.sh

.NOTPARALLEL:
.PHONY: help demo check check-asan check-arm check-format format build bench bench-targets bench-results bench-peer fuzz install \
	clean distclean setup setup_zoo configure

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

demo: groups := core engine demo
demo: build ## build everything, then show what Winnow does
	@WINNOW_BIN="$(CURDIR)/$(BUILD)/winnow" WINNOW_MODEL="$(model)" bash tools/demo.sh

check: groups := core engine check
check: setup setup_zoo configure ## build everything and run all tests
	@$(cmake) --build $(BUILD) --target all tests
	@$(call ctest,$(BUILD))

check-asan: ## run the tests that need no model under sanitizers
	@$(setup) tools core check
	@$(call configure,$(build_asan),-DWINNOW_ENGINE=OFF -DCMAKE_BUILD_TYPE=Debug \
		-DCMAKE_C_FLAGS_DEBUG="-O1 -g" -DWINNOW_SANITIZE=address$(comma)undefined)
	@$(cmake) --build $(build_asan) --target all tests
	@$(call ctest,$(build_asan))

check-arm: ## build the core for AArch64 and run its tests under an emulator
	@tools/check_arm.sh $(build_arm) -DWINNOW_WERROR=$(WERROR)

check-format: ## check the format of the C files, and lint the shell scripts
	@tools/format.sh --check

format: ## format the C files in place
	@tools/format.sh

build: setup configure ## build the libraries and the program
	@$(cmake) --build $(BUILD)

bench: build ## build and run the kernel benchmarks
	@$(cmake) --build $(BUILD) --target bench_programs
	@for program in $(BUILD)/bench/bench_*; do "$$program" || exit 1; done

bench-targets: build ## measure the figures that the project promises
	@$(cmake) --build $(BUILD) --target bench_programs
	@WINNOW_BIN="$(CURDIR)/$(BUILD)/winnow" WINNOW_MODEL="$(model)" \
		WINNOW_BENCH_DIR="$(CURDIR)/$(BUILD)/bench" bash tools/bench_targets.sh

bench-results: build ## measure the result set in benchmarks/results (hours)
	@WINNOW_BIN="$(CURDIR)/$(BUILD)/winnow" WINNOW_MODEL="$(model)" bash tools/bench_results.sh

bench-peer: ## measure NVIDIA's kvpress as Winnow is (6 GB from PyPI)
	@$(setup) model
	@WINNOW_MODEL="$(model)" python3 tools/peer_kvpress.py --environment $(BUILD)/peer $(PEER_FLAGS)

fuzz: ## run each fuzzer for FUZZ_SECONDS (needs clang)
	@$(setup) tools core fuzz
	@$(call configure,$(build_fuzz),-DCMAKE_C_COMPILER=clang -DWINNOW_ENGINE=OFF -DWINNOW_FUZZ=ON \
		-DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g" \
		-DWINNOW_SANITIZE=address$(comma)undefined)
	@$(cmake) --build $(build_fuzz) --target fuzz_programs
	@tools/fuzz.sh $(build_fuzz)/fuzz $(FUZZ_SECONDS)

install: build ## install the program and the core library under PREFIX
	@$(cmake) --install $(BUILD) --prefix "$(PREFIX)"

clean: ## remove the build folders; downloads and the built llama.cpp stay
	@rm -rf build build-*

distclean: clean ## remove the downloads and the built llama.cpp too
	@rm -rf deps

groups := core engine
setup:
	@$(setup) tools $(groups)
	@$(setup) llama
	@$(setup) model

setup_zoo:
	@$(setup) zoo || echo 'setup: the tests of tiny models are skipped without it'

configure:
	@$(call configure,$(BUILD),-DWINNOW_LLAMA_DIR="$(llama_dir)" \
		-DWINNOW_MODEL="$(model)")
