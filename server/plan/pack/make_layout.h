// Makes the layout of documents: one pass over all lengths, on several threads.
//
// A free function; it uses threads of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "common/base/result.h"
#include "server/plan/pack/document_lengths.h"
#include "server/plan/pack/pack_layout.h"
#include "server/plan/pack/pack_options.h"

namespace millrace {

struct LayoutOptions {
  unsigned threads = 0;  // 0: one for each CPU that the process may use
  std::stop_token stop;  // ends the work with Cancelled
  /// Called with the number of documents that are done, which ascends; from several threads, but by
  /// only one at a time.
  std::function<void(std::uint64_t documents)> progress;
};

/// Reads each length once. The layout does not depend on the number of threads. InvalidArgument if
/// options are beyond their limits, or if there are more documents or elements than can be packed;
/// Cancelled.
Result<PackLayout> MakePackLayout(const DocumentLengths& lengths, const PackOptions& pack,
                                  const LayoutOptions& options = {});

}  // namespace millrace
