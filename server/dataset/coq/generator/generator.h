// Writes datasets of made-up files with the shapes that matter of real ones
// (docs/dataset-format.md): for tests, benchmarks and a first try without data.
//
// A file is made from (options, number of the file) alone: files are written in parallel, each
// thread holds one at a time, and memory does not grow with the dataset. Equal options give equal
// bytes, on any machine and any number of threads: integer arithmetic only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "common/base/result.h"

namespace millrace {

struct GeneratorOptions {
  std::uint64_t seed = 0;
  /// Nodes of all files together; met within a few per cent, never below the number of definitions.
  std::uint64_t nodes = 1'000'000;
  /// Exact numbers. 0: in the proportions of published datasets, from `nodes`. `proof_states`
  /// counts the examples: the outcomes of known tactics.
  std::uint64_t files = 0;
  std::uint64_t definitions = 0;
  std::uint64_t proof_states = 0;
  /// No proof states at all, whatever `proof_states` says.
  bool without_proofs = false;
  /// About so many segments a file's message has (1 to 1000); small files have fewer.
  std::uint32_t segments = 6;
  /// Threads that write files; 0: as many as there are processors.
  std::uint32_t threads = 0;
  /// Replaces a generated dataset in the folder: deletes the .bin files below DIR/generated first.
  bool force = false;
  /// Called after each file, from any thread, with the nodes it has. May be empty.
  std::function<void(std::uint64_t nodes)> progress;
};

/// What was written.
struct GeneratorReport {
  std::uint64_t files = 0;
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  std::uint64_t definitions = 0;
  std::uint64_t proof_states = 0;  // outcomes of known tactics
  std::uint64_t bytes = 0;
};

/// `options` with every 0 that means "in proportion" replaced by its number. InvalidArgument where
/// the numbers cannot go together, for example more definitions than nodes.
Result<GeneratorOptions> CompleteGeneratorOptions(const GeneratorOptions& options);

/// Writes the dataset below `dir`, which is made where it does not exist. FailedPrecondition where
/// it is not empty (see `force`); PermissionDenied, ResourceExhausted (disk full) or another code
/// where writing fails, and then the files written so far are removed again.
Status GenerateDataset(const std::filesystem::path& dir, const GeneratorOptions& options,
                       GeneratorReport* report);

}  // namespace millrace
