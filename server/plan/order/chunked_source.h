// A source whose examples are chunks of another source's examples (`chunk`): one tensor of a chunk
// has some of the example's elements, and all other tensors are the example's.
//
// Immutable; thread-safe.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "server/source/order_parts.h"
#include "server/source/source.h"

namespace millrace {

/// The tensor that tells the chunks of an example apart, by their numbers.
inline constexpr const char* kChunkTensor = "chunk";

/// The most chunks that a source may be cut into.
inline constexpr std::uint64_t kMaxChunks = std::uint64_t{1} << 32;

/// InvalidArgument that begins with the key, and names the tensors that may be cut, unless the
/// source has the part's tensor and its elements belong to the example alone. Ok without a tensor.
Status CheckChunks(const Source& source, const ChunkPart& part);

/// The chunks of a source's examples, numbered example after example; the source itself if the part
/// names no tensor. It has one more tensor, kChunkTensor, and its column of lengths has the lengths
/// of chunks. Errors of CheckChunks, and InvalidArgument if the source has no column with the
/// lengths.
Result<std::shared_ptr<const Source>> CutIntoChunks(std::shared_ptr<const Source> source,
                                                    const ChunkPart& part);

}  // namespace millrace
