#include "common/batch/batch_frame.h"

#include <cstring>
#include <utility>

#include "common/batch/layout/batch_header.h"

namespace millrace {

Result<BatchFrame> BatchFrame::Make(BatchInfo info, std::vector<TensorPlace> places,
                                    std::vector<EdgeGroup> edges, BufferPool& pool) {
  BatchFrame frame;
  const std::uint64_t payload_bytes = LayOutPayload(places);
  frame.header_bytes_ = HeaderBytes(info, places);
  MILLRACE_ASSIGN_OR_RETURN(frame.buffer_, pool.Acquire(frame.header_bytes_ + payload_bytes));
  const std::span<std::byte> bytes = frame.buffer_->bytes();
  EncodeHeader(info, places, payload_bytes, bytes.first(frame.header_bytes_));
  const std::span<std::byte> payload = bytes.subspan(frame.header_bytes_);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::uint64_t end = i + 1 < places.size() ? places[i + 1].offset : payload_bytes;
    const std::uint64_t filled = places[i].offset + places[i].bytes;
    std::memset(payload.data() + filled, 0, end - filled);
  }
  frame.info_ = std::move(info);
  frame.places_ = std::move(places);
  frame.edges_ = std::move(edges);
  return frame;
}

std::span<std::byte> BatchFrame::room(std::size_t tensor) {
  const TensorPlace& place = places_[tensor];
  return buffer_->bytes().subspan(header_bytes_ + place.offset, place.bytes);
}

void BatchFrame::Filled(std::size_t tensor, std::uint64_t bytes) {
  HashUpTo(header_bytes_ + places_[tensor].offset + bytes);
}

void BatchFrame::HashUpTo(std::size_t bytes) {
  hash_.Update(buffer_->bytes().subspan(hashed_, bytes - hashed_));
  hashed_ = bytes;
}

std::shared_ptr<const PackedBatch> BatchFrame::Finish() {
  const std::span<const std::byte> bytes = buffer_->bytes();
  HashUpTo(bytes.size());
  return std::shared_ptr<const PackedBatch>(new PackedBatch(std::move(info_), std::move(places_),
                                                            std::move(edges_), header_bytes_, bytes,
                                                            std::move(buffer_), hash_.Finish()));
}

}  // namespace millrace
