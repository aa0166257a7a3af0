// A stream to which protobuf writes if the bytes are only to be hashed. Sections of them can also
// be hashed alone.
//
// Not thread-safe.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/hash.h"

namespace millrace {

class HashingStream final : public google::protobuf::io::ZeroCopyOutputStream {
 public:
  bool Next(void** data, int* size) override {
    Hash();
    *data = buffer_.data();
    *size = static_cast<int>(buffer_.size());
    used_ = buffer_.size();
    return true;
  }
  void BackUp(int count) override { used_ -= static_cast<std::size_t>(count); }
  std::int64_t ByteCount() const override { return static_cast<std::int64_t>(hashed_ + used_); }

  /// A section begins or ends after all bytes written until now. REQUIRES: as for Finish. Sections
  /// do not overlap.
  void BeginSection() {
    Hash();
    section_.emplace();
  }
  /// XXH3-128 of the section.
  Digest128 FinishSection() {
    Hash();
    const Digest128 digest = section_->Finish();
    section_.reset();
    return digest;
  }

  /// XXH3-128 of all bytes written. REQUIRES: no part of the buffer is in use by a writer.
  Digest128 Finish() {
    Hash();
    return hash_.Finish();
  }

 private:
  void Hash() {
    hash_.Update(std::span(buffer_).first(used_));
    if (section_) section_->Update(std::span(buffer_).first(used_));
    hashed_ += used_;
    used_ = 0;
  }

  std::vector<std::byte> buffer_ = std::vector<std::byte>(std::size_t{64} << 10);
  std::size_t used_ = 0;  // bytes of the buffer that have been written
  std::uint64_t hashed_ = 0;
  Xxh3Stream hash_;
  std::optional<Xxh3Stream> section_;
};

}  // namespace millrace
