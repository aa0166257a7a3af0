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
#include "server/kinds/coq/generator/content.h"
#include "server/kinds/coq/generator/outline.h"

namespace millrace::generator {

/// A message whose segments have about the requested size. The system provides zeroed memory, which
/// is touched only where something is written. Not thread-safe.
class SegmentedMessage : public capnp::MessageBuilder {
 public:
  explicit SegmentedMessage(std::size_t segment_words) : segment_words_(segment_words) {}
  ~SegmentedMessage() override;

  /// The next segments are exactly as large as the objects that need them. They have no room for a
  /// landing pad, so a pointer from another segment is double-far.
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

/// Makes the message of a file, with about `segments` segments. Throws the exceptions of Cap'n
/// Proto.
std::unique_ptr<SegmentedMessage> MakeMessage(const Outline& outline, const FileContent& content,
                                              std::uint32_t segments);

/// Writes a message to a file, which is created or emptied first, and returns its size in bytes. If
/// writing fails, the file is removed.
Result<std::uint64_t> WriteMessage(capnp::MessageBuilder& message,
                                   const std::filesystem::path& file);

}  // namespace millrace::generator
