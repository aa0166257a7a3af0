// The chunks into which a plan cuts the examples of a source (`chunk`), and which it then counts as
// examples.
#pragma once

#include <cstdint>

#include "common/base/ids.h"

namespace millrace {

/// A chunk of an example.
struct ExampleChunk {
  ExampleId example;         // that is cut
  std::uint64_t number = 0;  // of the chunk within it, from 0 on
  friend bool operator==(const ExampleChunk&, const ExampleChunk&) = default;
};

/// The ids of all chunks of an example: `count` of them, from `first` on.
struct ChunkIds {
  ExampleId first;
  std::uint64_t count = 1;
  friend bool operator==(const ChunkIds&, const ChunkIds&) = default;
};

/// Immutable; thread-safe.
class ExampleChunks {
 public:
  virtual ~ExampleChunks() = default;

  /// The whole example that a chunk belongs to. REQUIRES: there is such a chunk.
  virtual ExampleChunk ChunkOf(ExampleId id) const = 0;
  /// Number of examples that are cut, or stay whole. Their ids are the ids of the source before
  /// cutting, 0 … whole_examples() - 1. Batches name them as the ids of their rows.
  virtual std::uint64_t whole_examples() const = 0;
  /// REQUIRES: example < whole_examples().
  virtual ChunkIds ChunksOf(ExampleId example) const = 0;
};

}  // namespace millrace
