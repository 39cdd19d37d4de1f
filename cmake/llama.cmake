# SPDX-License-Identifier: MIT
# Defines winnow_llama: llama.cpp's headers and libraries, from a source tree or an installed prefix.
# They are C++, so a program that links them sets LINKER_LANGUAGE to CXX.
add_library(winnow_llama INTERFACE)

if(NOT EXISTS ${WINNOW_LLAMA_DIR}/include/llama.h)
    message(FATAL_ERROR "No llama.cpp in ${WINNOW_LLAMA_DIR}: run `tools/setup.sh llama`, or set "
                        "WINNOW_LLAMA_DIR to a source tree or an installed prefix.")
endif()

if(NOT EXISTS ${WINNOW_LLAMA_DIR}/src/llama.cpp)
    find_package(llama CONFIG REQUIRED PATHS ${WINNOW_LLAMA_DIR} NO_DEFAULT_PATH)
    target_link_libraries(winnow_llama INTERFACE llama)
    return()
endif()

# A source tree is built once into deps/llama-build-<hash>, which all build folders share and which
# outlives `make clean`. The hash covers what the objects depend on: the tree, the options, the
# compilers, and the instruction set that -march=native stands for on this machine.
include(CheckCCompilerFlag)
include(ExternalProject)

set(llama_flags "")
# Some virtual machines report AMX and then fault on it.
foreach(flag amx-tile amx-int8 amx-bf16)
    string(MAKE_C_IDENTIFIER have_${flag} variable)
    check_c_compiler_flag(-m${flag} ${variable})
    if(${variable})
        string(APPEND llama_flags " -mno-${flag}")
    endif()
endforeach()
string(STRIP "${llama_flags}" llama_flags)

set(llama_options -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON
    -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
    "-DCMAKE_C_FLAGS=${llama_flags}" "-DCMAKE_CXX_FLAGS=${llama_flags}"
    -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DGGML_OPENMP=OFF -DGGML_CCACHE=OFF
    -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF
    -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF
    -DLLAMA_OPENSSL=OFF)

execute_process(COMMAND ${CMAKE_C_COMPILER} -march=native -dM -E -x c /dev/null
                OUTPUT_VARIABLE native_macros ERROR_QUIET)
if(NOT native_macros)
    execute_process(COMMAND ${CMAKE_C_COMPILER} -mcpu=native -dM -E -x c /dev/null
                    OUTPUT_VARIABLE native_macros ERROR_QUIET)
endif()
set(llama_pin "")
if(EXISTS ${WINNOW_LLAMA_DIR}/.pin)
    file(READ ${WINNOW_LLAMA_DIR}/.pin llama_pin)
endif()
string(SHA256 llama_hash "${WINNOW_LLAMA_DIR} ${llama_pin} ${llama_options} ${CMAKE_GENERATOR}
${CMAKE_C_COMPILER_VERSION} ${CMAKE_CXX_COMPILER_VERSION} ${native_macros}")
string(SUBSTRING ${llama_hash} 0 16 llama_hash)
set(llama_build ${PROJECT_SOURCE_DIR}/deps/llama-build-${llama_hash})

# The pinned tree never changes; a tree of the user's own is looked through on every build.
set(llama_build_always ON)
if(llama_pin)
    set(llama_build_always OFF)
endif()

set(llama_libraries ${llama_build}/src/libllama.a ${llama_build}/ggml/src/libggml.a
    ${llama_build}/ggml/src/libggml-cpu.a ${llama_build}/ggml/src/libggml-base.a)

# GIT_DIR keeps llama.cpp's scripts from taking this repository's commit for llama.cpp's; MAKEFLAGS
# replaces an outer job server, which makefile builds would warn of. The stamps stand in the shared
# build folder, so that a second build folder finds the work done.
set(llama_cmake ${CMAKE_COMMAND} -E env GIT_DIR=/nonexistent MAKEFLAGS=--no-print-directory
    ${CMAKE_COMMAND})
ExternalProject_Add(llama_cpp
    SOURCE_DIR ${WINNOW_LLAMA_DIR}
    BINARY_DIR ${llama_build}
    STAMP_DIR ${llama_build}/winnow-stamps
    TMP_DIR ${llama_build}/winnow-stamps
    DOWNLOAD_COMMAND ""
    CONFIGURE_COMMAND ${llama_cmake} -S <SOURCE_DIR> -B <BINARY_DIR> -G "${CMAKE_GENERATOR}"
                      ${llama_options}
    LOG_CONFIGURE ON
    LOG_OUTPUT_ON_FAILURE ON
    BUILD_COMMAND ${llama_cmake} --build <BINARY_DIR> --target llama ggml
    BUILD_ALWAYS ${llama_build_always}
    BUILD_BYPRODUCTS ${llama_libraries}
    USES_TERMINAL_BUILD ON
    INSTALL_COMMAND ""
    EXCLUDE_FROM_ALL ON)

add_dependencies(winnow_llama llama_cpp)
target_include_directories(winnow_llama SYSTEM INTERFACE ${WINNOW_LLAMA_DIR}/include
                           ${WINNOW_LLAMA_DIR}/ggml/include)
target_link_libraries(winnow_llama INTERFACE ${llama_libraries} Threads::Threads ${CMAKE_DL_LIBS} m)
