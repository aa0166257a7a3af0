// One file of a dataset, open: framing, version and the strides of nodes and edges are checked,
// what the graph says is not (index_builder checks it once, readers check each value that they
// use).
//
// Opening reads the ends of the message only, whatever its size. Thread-safe for const access to
// the words; `message()` is for one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "server/dataset/coq/scan/node_words.h"
#include "server/files/mapped_file.h"

namespace millrace {

struct GraphMessage;  // graph_message.h

/// The only data version that is read.
inline constexpr std::int64_t kDataVersion = 15;

/// A DataLoss that begins with "at byte N: ".
Status DataLossAt(std::uint64_t offset, const std::string& reason);

class GraphFile {
 public:
  /// DataLoss, with the byte where known, for what is not one whole message of data version 15 with
  /// nodes of 24 and edges of 8 bytes. Messages leave the path to the caller.
  static Result<GraphFile> Open(MappedFile file);

  GraphFile(GraphFile&&) noexcept;
  GraphFile& operator=(GraphFile&&) noexcept;
  ~GraphFile();

  /// kNodeWords words a node, one word an edge: see node_words.h. nullptr where there are none.
  const std::uint64_t* nodes() const { return nodes_; }
  const std::uint64_t* edges() const { return edges_; }
  std::uint32_t node_count() const { return node_count_; }
  std::uint32_t edge_count() const { return edge_count_; }

  const MappedFile& file() const { return file_; }
  GraphMessage& message() { return *message_; }

  /// Where a word or byte of the map lies in the file.
  std::uint64_t OffsetOf(const void* address) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(address) -
                                      file_.bytes().data());
  }
  /// Whether the `bytes` from `address` lie in the map.
  bool Contains(const void* address, std::size_t bytes) const;

  /// Gives up the message and leaves the map, for those who read words only.
  MappedFile TakeFile() &&;

 private:
  explicit GraphFile(MappedFile file);
  Status Read();

  MappedFile file_;
  std::unique_ptr<GraphMessage> message_;
  const std::uint64_t* nodes_ = nullptr;
  const std::uint64_t* edges_ = nullptr;
  std::uint32_t node_count_ = 0;
  std::uint32_t edge_count_ = 0;
};

}  // namespace millrace
