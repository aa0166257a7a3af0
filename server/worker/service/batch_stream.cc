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

void BatchStream::OnCompressed(CompressedPart part) {
  if (!outgoing_) return;  // the stream was closed
  ready_ = std::move(part);
  if (may_write_) WriteNext();
}

std::span<const std::byte> BatchStream::NextBytes() const {
  const std::span<const std::byte> bytes = outgoing_->batch->batch->bytes();
  return bytes.subspan(offset_, std::min(bytes.size() - offset_, wire::kMaxPartBytes));
}

void BatchStream::CompressNext() { compress_(compression_, NextBytes(), outgoing_->batch); }

void BatchStream::Write(CompressedPart compressed) {
  const std::uint64_t total = outgoing_->batch->batch->bytes().size();
  OutgoingPart out;
  v1::BatchPart& part = out.part;
  ToProto(outgoing_->task.at, part.mutable_at());
  part.set_total_bytes(total);
  part.set_offset(offset_);
  part.set_digest(outgoing_->batch->digest);
  part.set_credit_used(outgoing_->credit_used);
  part.set_batches_sent(outgoing_->batches_sent);
  part.set_mostly_python(outgoing_->batch->mostly_python);
  const std::span<const std::byte> bytes = NextBytes();
  if (compressed.data.empty()) {
    out.data = bytes;
    out.owner = outgoing_->batch;
  } else {
    part.set_compression(ToProto(compression_));
    part.set_raw_bytes(bytes.size());
    out.data = compressed.data;
    out.owner = std::move(compressed.owner);
  }
  offset_ += bytes.size();
  const bool last = offset_ >= total;
  stream_->Write(std::move(out));
  if (last) outgoing_.reset();
}

void BatchStream::WriteControl(v1::BatchPart part) {
  OutgoingPart out;
  out.part = std::move(part);
  stream_->Write(std::move(out));
}

void BatchStream::Close(const Status& status) {
  outgoing_.reset();  // what is being compressed is not sent any more
  stream_->Close(status);
}

}  // namespace millrace
