// Reads some elements of a ragged tensor of an example, without the rest of it. Sources that can do
// so save plans that pack documents from reading whole documents for each of their pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/layout/layout.h"

namespace millrace {

/// Not thread-safe. Must not outlive its source.
class ElementReader {
 public:
  virtual ~ElementReader() = default;

  /// Why the example is dropped; nullopt if it can be read.
  virtual std::optional<DropReason> DropOf(ExampleId id) = 0;
  /// Tells that elements are read soon, so that a disk reads them ahead.
  virtual void WillRead(ExampleId /*id*/, std::uint64_t /*first*/, std::uint64_t /*count*/) {}
  /// Copies the elements [first, first + count), in the type that the tensor has in batches.
  /// DataLoss that names the file if stored data are damaged. REQUIRES: the example is not dropped,
  /// and has these elements by its column of lengths.
  virtual Status Read(ExampleId id, std::uint64_t first, std::uint64_t count, std::byte* to) = 0;
};

}  // namespace millrace
