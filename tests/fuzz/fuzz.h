// The parts of every target of tests/fuzz: a function that survives any bytes, and valid inputs to
// begin from. A target is linked with libFuzzer (preset `fuzz`), or with replay.cc, which runs the
// seeds and the kept corpus once as a test of every build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/base/result.h"

/// Runs one input. Aborts if a promise is broken.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace millrace::fuzz {

/// Valid inputs of the target, made by the code that writes them in production. Each target defines
/// this.
std::vector<std::string> Seeds();

/// Writes the seeds into `folder`, each into a file.
void WriteSeeds(const std::string& folder);

/// If `holds` is false, prints the reason and aborts, which libFuzzer counts as a crash.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}
inline void Require(bool holds, const std::string& what) { Require(holds, what.c_str()); }
inline void RequireOk(const Status& status, const char* what) {
  if (!status.ok()) Require(false, std::string(what) + ": " + status.message());
}

}  // namespace millrace::fuzz
