#include "server/worker/service/batch_stream.h"

#include <algorithm>
#include <utility>

#include "common/transport/convert/compression.h"
#include "common/transport/convert/places.h"
#include "common/transport/wire.h"

namespace millrace {

void BatchStream::Send(BuildQueue::Outgoing outgoing, Compression compression) {
  outgoing_ = std::move(outgoing);
  offset_ = 0;
  compression_ = compression;
  if (compression_ != Compression::kOff) CompressNext();
  WriteNext();
}

void BatchStream::WriteNext() {
  if (compression_ == Compression::kOff) return Write({});
  if (!ready_) {
    may_write_ = true;
    return;
  }
  may_write_ = false;
  Write(*std::exchange(ready_, std::nullopt));
  if (outgoing_) CompressNext();
}

void BatchStream::OnCompressed(CompressedFragment fragment) {
  if (!outgoing_) return;  // the stream was closed
  ready_ = std::move(fragment);
  if (may_write_) WriteNext();
}

std::span<const std::byte> BatchStream::NextBytes() const {
  const std::span<const std::byte> bytes = outgoing_->batch->batch->bytes();
  return bytes.subspan(offset_, std::min(bytes.size() - offset_, wire::kMaxFragmentBytes));
}

void BatchStream::CompressNext() { compress_(compression_, NextBytes(), outgoing_->batch); }

void BatchStream::Write(CompressedFragment compressed) {
  const std::uint64_t total = outgoing_->batch->batch->bytes().size();
  OutgoingFragment out;
  v1::BatchFragment& fragment = out.message;
  ToProto(outgoing_->task.at, fragment.mutable_at());
  fragment.set_total_bytes(total);
  fragment.set_offset(offset_);
  fragment.set_digest(outgoing_->batch->digest);
  fragment.set_credit_used(outgoing_->credit_used);
  fragment.set_batches_sent(outgoing_->batches_sent);
  fragment.set_mostly_python(outgoing_->batch->mostly_python);
  const std::span<const std::byte> bytes = NextBytes();
  if (compressed.data.empty()) {
    out.data = bytes;
    out.owner = outgoing_->batch;
  } else {
    fragment.set_compression(ToProto(compression_));
    fragment.set_raw_bytes(bytes.size());
    out.data = compressed.data;
    out.owner = std::move(compressed.owner);
  }
  offset_ += bytes.size();
  const bool last = offset_ >= total;
  stream_->Write(std::move(out));
  if (last) outgoing_.reset();
}

void BatchStream::WriteControl(v1::BatchFragment message) {
  OutgoingFragment out;
  out.message = std::move(message);
  stream_->Write(std::move(out));
}

void BatchStream::Close(const Status& status) {
  outgoing_.reset();  // what is being compressed is not sent any more
  stream_->Close(status);
}

}  // namespace millrace
