// One open file of a dataset. Framing, version and the strides of nodes and edges are checked. The
// content of the graph is not: index_builder checks it once, and readers check each value that they
// use.
//
// Opening reads only the beginning and the end of the message, whatever its size. Const access to
// the words is thread-safe; `message()` is for one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "server/files/mapped_file.h"
#include "server/kinds/coq/scan/node_words.h"

namespace millrace {

struct GraphMessage;  // graph_message.h

/// The only data version that is supported.
inline constexpr std::int64_t kDataVersion = 15;

/// A DataLoss whose message begins with "at byte N: ".
Status DataLossAt(std::uint64_t offset, const std::string& reason);

class GraphFile {
 public:
  /// DataLoss, with the byte if it is known, if the file is not one complete message of data
  /// version 15 with nodes of 24 bytes and edges of 8 bytes. The caller adds the path to messages.
  static Result<GraphFile> Open(MappedFile file);

  GraphFile(GraphFile&&) noexcept;
  GraphFile& operator=(GraphFile&&) noexcept;
  ~GraphFile();

  /// kNodeWords words for each node, one word for each edge: see node_words.h. nullptr without
  /// nodes or edges.
  const std::uint64_t* nodes() const { return nodes_; }
  const std::uint64_t* edges() const { return edges_; }
  std::uint32_t node_count() const { return node_count_; }
  std::uint32_t edge_count() const { return edge_count_; }

  const MappedFile& file() const { return file_; }
  GraphMessage& message() { return *message_; }

  /// The position in the file of a word or byte of the map.
  std::uint64_t OffsetOf(const void* address) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(address) -
                                      file_.bytes().data());
  }
  /// Whether all `bytes` bytes from `address` are in the map.
  bool Contains(const void* address, std::size_t bytes) const;

  /// Drops the message and keeps the map, for readers of words.
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
