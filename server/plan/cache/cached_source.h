// A source whose examples are taken from a cache, if it has them, and kept there, once they are
// built. The cache keeps what the reader of an example appends to a batch: its rows of the source's
// tensors, or why it is dropped.
//
// Immutable; thread-safe.
#pragma once

#include <memory>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/plan/cache/built_examples.h"
#include "server/plan/cache/cache_part.h"
#include "server/source/source.h"

namespace millrace {

struct SourceCache {
  std::shared_ptr<BuiltExamples> examples;
  CacheLevel level = CacheLevel::kMemory;
  Digest128 operations;  // all that decide what is built, besides the dataset
};

/// Batches of the result have the same bytes as batches of `source`. InvalidArgument, beginning
/// with the key `cache.examples`, if the source's examples have no names. If `cache.examples` is
/// null, only that is checked, and `source` is returned.
Result<std::shared_ptr<const Source>> WithCache(std::shared_ptr<const Source> source,
                                                const SourceCache& cache);

}  // namespace millrace
