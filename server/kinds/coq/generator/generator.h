// Writes datasets of made-up files that resemble real ones in the important shapes
// (docs/formats/coq-dataset.md). They serve for tests, benchmarks and a first try without data.
//
// A file is made from (options, number of the file) alone. So files are written in parallel, each
// thread holds one file at a time, and memory does not grow with the dataset. Equal options give
// equal bytes, on any machine and with any number of threads, because only integer arithmetic is
// used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "common/base/result.h"

namespace millrace {

struct GeneratorOptions {
  std::uint64_t seed = 0;
  /// Nodes of all files together. The result differs from it by a few per cent at most, and is
  /// never below the number of definitions.
  std::uint64_t nodes = 1'000'000;
  /// Exact numbers. 0: derived from `nodes`, in the proportions of published datasets.
  /// `proof_states` is the number of examples, that is, of outcomes of known tactics.
  std::uint64_t files = 0;
  std::uint64_t definitions = 0;
  std::uint64_t proof_states = 0;
  /// If true, there are no proof states, whatever `proof_states` says.
  bool without_proofs = false;
  /// Approximate number of segments of a file's message (1 to 1000). Small files have fewer.
  std::uint32_t segments = 6;
  /// Number of threads that write files; 0: one for each processor.
  std::uint32_t threads = 0;
  /// Replaces a generated dataset in the folder: first deletes the .bin files below DIR/generated.
  bool force = false;
  /// Called after each file, from any thread, with the number of its nodes. May be empty.
  std::function<void(std::uint64_t nodes)> progress;
};

/// Numbers of the written dataset.
struct GeneratorReport {
  std::uint64_t files = 0;
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  std::uint64_t definitions = 0;
  std::uint64_t proof_states = 0;  // outcomes of known tactics
  std::uint64_t bytes = 0;
};

/// Returns `options` with every 0 that means "in proportion" replaced by its number.
/// InvalidArgument if the numbers contradict each other, for example if there are more definitions
/// than nodes.
Result<GeneratorOptions> CompleteGeneratorOptions(const GeneratorOptions& options);

/// Writes the dataset below `dir`, which is created if it does not exist. FailedPrecondition if
/// `dir` is not empty (see `force`). PermissionDenied, ResourceExhausted (disk full) or another
/// code if writing fails; the files written so far are then removed.
Status GenerateDataset(const std::filesystem::path& dir, const GeneratorOptions& options,
                       GeneratorReport* report);

}  // namespace millrace
