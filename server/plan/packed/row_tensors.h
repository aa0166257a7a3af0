// The tensors of rows that documents are packed into, and how they come from tensors of documents.
//
// Value types and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "server/source/order_parts.h"
#include "server/source/source.h"
#include "server/source/tensors_part.h"

namespace millrace {

/// InvalidArgument that begins with the key, and says what fits, unless the source has the part's
/// tensors, and documents of these can be cut. Ok without a tensor.
Status CheckPacks(const Source& source, const PackPart& part);

struct RowTensors {
  /// A tensor of documents whose elements go into rows.
  struct Copied {
    std::size_t from = 0;    // by number among the tensors of documents
    std::size_t splits = 0;  // that cut it there
    std::size_t to = 0;      // by number among the tensors of rows
  };

  std::vector<TensorSpec> specs;
  std::vector<Copied> copied;  // T comes first
  std::optional<std::size_t> example_id;
  std::size_t lengths = 0;
  std::optional<std::size_t> documents;
  std::optional<std::size_t> begins;
  std::optional<std::size_t> next;
  // Elements of T, as bytes, that are put before and after each document.
  std::vector<std::byte> before;
  std::vector<std::byte> after;

  /// The tensors of `rows` rows. Errors of CheckPacks, and InvalidArgument if elements of
  /// `pack.before` or `pack.after` are none of T.
  static Result<RowTensors> Make(const Source& source, const PackPart& part,
                                 const PackNeeds& needs, std::uint64_t rows);

  const TensorSpec& tensor() const { return specs[copied.front().to]; }
  /// An upper estimate of the packed bytes of a row of `size` elements; 0: unknown.
  std::uint64_t MaxRowBytes(std::uint64_t size) const;
};

}  // namespace millrace
