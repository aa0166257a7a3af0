// Makes a dataset from a folder of arrays: it checks the files, and writes graph.json last.
//
// Not thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/result.h"
#include "server/files/npy_header.h"
#include "server/kinds/graph/format/graph_description.h"

namespace millrace {

/// An array in an existing file.
struct ArrayFile {
  std::string path;  // as in graph.json
  /// Needed for a raw file. For a .npy file it may say that uint16 is bfloat16; nothing else may
  /// differ. Absent for a safetensors file.
  std::optional<ArrayType> type;
  std::uint64_t offset = 0;  // of a raw file
  std::string tensor;        // name in a safetensors file; empty for other files
};

/// The place of an array in its file, and its type. `dir`: the folder of relative paths. Errors
/// name neither file nor array; the caller adds them.
Result<StoredArray> FindArray(const std::filesystem::path& dir, const ArrayFile& file);

/// How much of a new dataset is checked.
enum class SealCheck {
  kOpens,    // for arrays whose numbers are right because of how they were made
  kNumbers,  // for arrays that somebody brings
};

class GraphSealer {
 public:
  /// Numbers and names of the dataset; its arrays are added.
  GraphSealer(std::filesystem::path dir, GraphDescription description)
      : dir_(std::move(dir)), description_(std::move(description)) {}

  /// Adds an array. Its file is read once to hash it, whatever the number of its arrays. DataLoss,
  /// NotFound or another code, with the names of array and file, if it cannot be used.
  Status Add(const std::string& name, const ArrayFile& file);
  /// Adds an array that an ArrayWriter has written.
  void AddWritten(const std::string& name, ArrayRecord record);

  /// Checks the whole, writes graph.json and renames it into place. The dataset is then opened
  /// once, and all its numbers are read if they are to be checked. After an error, graph.json is
  /// removed. Returns the digest.
  Result<Digest128> Seal(SealCheck check = SealCheck::kOpens);

 private:
  struct Known {
    std::uint64_t bytes;
    Digest128 xxh3;
  };

  const std::filesystem::path dir_;
  GraphDescription description_;
  std::map<std::string, Known> files_;  // by path
};

}  // namespace millrace
