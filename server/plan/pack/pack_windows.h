// The windows that documents are packed in: V = ⌈n / window⌉ of them, and window w has the
// documents [⌊w·n / V⌋, ⌊(w + 1)·n / V⌋). So their sizes differ by one at most, and none is above
// `window`.
//
// Immutable; thread-safe.
#pragma once

#include <cassert>
#include <cstdint>

namespace millrace {

class PackWindows {
 public:
  /// Windows of at most `window` of n documents. REQUIRES: window > 0.
  PackWindows(std::uint64_t documents, std::uint64_t window)
      : documents_(documents), windows_(documents / window + (documents % window != 0 ? 1 : 0)) {}

  /// Number of windows, V.
  std::uint64_t size() const { return windows_; }
  /// The first document of a window, or the number of documents for `size()`. REQUIRES: window <=
  /// size().
  std::uint64_t Begin(std::uint64_t window) const {
    assert(window <= windows_);
    return windows_ == 0 ? 0 : static_cast<std::uint64_t>(Wide{window} * documents_ / windows_);
  }
  /// The window that has a document. REQUIRES: the document exists.
  std::uint64_t Of(std::uint64_t document) const {
    assert(document < documents_);
    // Window w begins at or before the document if w·n / V < document + 1. The last such w:
    const Wide above = (Wide{document} + 1) * windows_;
    return static_cast<std::uint64_t>((above + documents_ - 1) / documents_) - 1;
  }

 private:
  __extension__ using Wide = unsigned __int128;  // w·n may be above 2^64

  std::uint64_t documents_;
  std::uint64_t windows_;
};

}  // namespace millrace
