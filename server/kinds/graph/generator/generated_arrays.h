// Writes the arrays of a made-up graph dataset one after the other, and graph.json last.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "common/base/result.h"
#include "server/kinds/graph/writer/array_writer.h"
#include "server/kinds/graph/writer/graph_sealer.h"

namespace millrace::generator {

/// InvalidArgument with the option's name if `value` is out of range.
Status CheckRange(std::string_view name, std::uint64_t value, std::uint64_t min, std::uint64_t max);

class GeneratedArrays {
 public:
  GeneratedArrays(std::filesystem::path dir, GraphDescription description)
      : dir_(std::move(dir)), sealer_(dir_, std::move(description)) {}

  /// Writes an array: `append` is called with the writer and each number below `count`.
  template <class AppendOne>
  Status Write(const std::string& name, ArrayType type, std::uint64_t count,
               const AppendOne& append) {
    MILLRACE_ASSIGN_OR_RETURN(ArrayWriter writer,
                              ArrayWriter::Create(dir_, name + ".npy", std::move(type)));
    for (std::uint64_t i = 0; i < count; ++i) MILLRACE_RETURN_IF_ERROR(append(writer, i));
    MILLRACE_ASSIGN_OR_RETURN(ArrayRecord record, std::move(writer).Finish());
    bytes_ += record.bytes;
    sealer_.AddWritten(name, std::move(record));
    return OkStatus();
  }

  /// Writes graph.json.
  Status Seal() { return sealer_.Seal().status(); }

  /// Bytes of the files of all arrays.
  std::uint64_t bytes() const { return bytes_; }

 private:
  const std::filesystem::path dir_;
  GraphSealer sealer_;
  std::uint64_t bytes_ = 0;
};

}  // namespace millrace::generator
