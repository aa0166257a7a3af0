#include "server/worker/service/batch_stream.h"

#include <algorithm>
#include <utility>

#include "common/transport/convert/places.h"
#include "common/transport/wire.h"

namespace millrace {

void BatchStream::Send(BuildQueue::Outgoing outgoing) {
  outgoing_ = std::move(outgoing);
  offset_ = 0;
  WriteNext();
}

void BatchStream::WriteNext() {
  const std::span<const std::byte> bytes = outgoing_->batch->batch->bytes();
  OutgoingPart out;
  v1::BatchPart& part = out.part;
  ToProto(outgoing_->task.lease, part.mutable_lease());
  ToProto(outgoing_->task.at, part.mutable_at());
  part.set_total_bytes(bytes.size());
  part.set_offset(offset_);
  part.set_digest(outgoing_->batch->digest);
  part.set_credit_used(outgoing_->credit_used);
  part.set_batches_sent(outgoing_->batches_sent);
  part.set_mostly_python(outgoing_->batch->mostly_python);
  out.data = bytes.subspan(offset_, std::min(bytes.size() - offset_, wire::kMaxPartBytes));
  out.owner = outgoing_->batch;
  offset_ += out.data.size();
  const bool last = offset_ >= bytes.size();
  stream_->Write(std::move(out));
  if (last) outgoing_.reset();
}

void BatchStream::WriteControl(v1::BatchPart part) {
  OutgoingPart out;
  out.part = std::move(part);
  stream_->Write(std::move(out));
}

}  // namespace millrace
