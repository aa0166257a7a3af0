// Turns the content of a generated file into a Cap'n Proto message of several segments, and writes
// it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include <capnp/message.h>

#include "common/base/result.h"
#include "server/dataset/coq/generator/content.h"
#include "server/dataset/coq/generator/plan.h"

namespace millrace::generator {

/// A message whose segments have about the size that was asked for. Memory is zeroed by the system
/// and touched only where it is written. Not thread-safe.
class SegmentedMessage : public capnp::MessageBuilder {
 public:
  explicit SegmentedMessage(std::size_t segment_words) : segment_words_(segment_words) {}
  ~SegmentedMessage() override;

  /// The next segments are exactly as large as the object that needs them: with no room for a
  /// landing pad, so that a pointer to it from another segment is a double-far one.
  void SetExact(bool exact) { exact_ = exact; }

  kj::ArrayPtr<capnp::word> allocateSegment(capnp::uint minimum_words) override;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  const std::size_t segment_words_;
  bool exact_ = false;
  std::vector<std::unique_ptr<void, Free>> segments_;
};

/// The message of a file, with about `segments` segments. Throws what Cap'n Proto throws.
std::unique_ptr<SegmentedMessage> MakeMessage(const Plan& plan, const FileContent& content,
                                              std::uint32_t segments);

/// Writes a message to a file that is made or emptied; returns its size in bytes. On failure the
/// file is removed again.
Result<std::uint64_t> WriteMessage(capnp::MessageBuilder& message,
                                   const std::filesystem::path& file);

}  // namespace millrace::generator
