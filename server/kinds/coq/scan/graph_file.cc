#include "server/kinds/coq/scan/graph_file.h"

#include <cstring>
#include <utility>

#include <capnp/any.h>
#include <fmt/core.h>

#include "server/kinds/coq/scan/graph_message.h"

namespace millrace {
namespace {

// More than any writer makes. Without this limit, a damaged first word could ask for a table of
// gigabytes.
constexpr std::uint64_t kMaxSegments = 65536;

std::uint32_t ReadUint32(std::span<const std::byte> bytes, std::uint64_t offset) {
  std::uint32_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

// Checks the standard framing (https://capnproto.org/encoding.html, "Serialization over a stream"):
// number of segments - 1, the size of each segment in words, padding to a word, the segments.
// Nothing may follow.
Status CheckFraming(std::span<const std::byte> bytes) {
  const std::uint64_t size = bytes.size();
  if (size < 16) {
    return DataLossAt(0, fmt::format("the file has {} bytes, no message has fewer than 16", size));
  }
  const std::uint64_t segments = std::uint64_t{ReadUint32(bytes, 0)} + 1;
  if (segments > kMaxSegments) {
    return DataLossAt(0, fmt::format("the segment table claims {} segments, expected at most {}",
                                     segments, kMaxSegments));
  }
  const std::uint64_t table_bytes = (segments + 2) / 2 * 8;
  if (table_bytes > size) {
    return DataLossAt(
        size, fmt::format("the file ends within its segment table of {} bytes", table_bytes));
  }
  std::uint64_t end = table_bytes;
  for (std::uint64_t s = 0; s < segments; ++s) {
    const std::uint64_t entry = 4 + 4 * s;
    end += std::uint64_t{ReadUint32(bytes, entry)} * 8;
    if (end > size) {
      return DataLossAt(entry,
                        fmt::format("segment {} of {} ends at byte {}, the file at {}: it is "
                                    "truncated or its segment table is damaged",
                                    s, segments, end, size));
    }
  }
  if (end != size) {
    return DataLossAt(end, fmt::format("the message ends here, but the file has {} bytes", size));
  }
  return OkStatus();
}

// The address of the first element of a list of structs that have `data_bytes` of data and
// `pointers` pointers. Cap'n Proto's own reader gives it.
template <class ListReader>
Result<const std::uint64_t*> BaseOf(const ListReader& list, const char* what,
                                    std::size_t data_bytes, unsigned pointers) {
  if (list.size() == 0) return static_cast<const std::uint64_t*>(nullptr);
  const capnp::AnyStruct::Reader first(list[0]);
  const auto data = first.getDataSection();
  if (data.size() != data_bytes || first.getPointerSection().size() != pointers) {
    return DataLoss(fmt::format(
        "{} have {} bytes of data and {} pointers each, expected {} and {}: the file was written "
        "with another schema, or is damaged",
        what, data.size(), first.getPointerSection().size(), data_bytes, pointers));
  }
  return reinterpret_cast<const std::uint64_t*>(data.begin());
}

}  // namespace

Status DataLossAt(std::uint64_t offset, const std::string& reason) {
  return DataLoss(fmt::format("at byte {}: {}", offset, reason));
}

GraphFile::GraphFile(MappedFile file) : file_(std::move(file)) {}
GraphFile::GraphFile(GraphFile&&) noexcept = default;
GraphFile& GraphFile::operator=(GraphFile&&) noexcept = default;
GraphFile::~GraphFile() = default;

Result<GraphFile> GraphFile::Open(MappedFile file) {
  GraphFile graph(std::move(file));
  MILLRACE_RETURN_IF_ERROR(CheckFraming(graph.file_.bytes()));
  const Status read = CatchCapnp([&] { return graph.Read(); });
  MILLRACE_RETURN_IF_ERROR(read);
  return graph;
}

Status GraphFile::Read() {
  const auto bytes = file_.bytes();
  capnp::ReaderOptions options;
  // A normal reading visits everything once. If a message needs more than two readings, its
  // pointers overlap in order to make it look larger than it is.
  options.traversalLimitInWords = bytes.size() / 8 * 2 + 8192;
  message_ = std::make_unique<GraphMessage>(
      kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()), bytes.size() / 8), options);
  message_->root = message_->reader.getRoot<schema::Dataset>();
  if (!message_->root.hasDataVersion()) {
    return DataLoss(fmt::format("has no data version, expected {}", kDataVersion));
  }
  const std::int64_t version = message_->root.getDataVersion().getMajor();
  if (version != kDataVersion) {
    return DataLoss(fmt::format("has data version {}, expected {}", version, kDataVersion));
  }
  const auto graph = message_->root.getGraph();
  message_->nodes = graph.getNodes();
  const auto edges = graph.getEdges();
  MILLRACE_ASSIGN_OR_RETURN(nodes_, BaseOf(message_->nodes, "nodes", 16, 1));
  MILLRACE_ASSIGN_OR_RETURN(edges_, BaseOf(edges, "edges", 8, 0));
  node_count_ = message_->nodes.size();
  edge_count_ = edges.size();
  if (!Contains(nodes_, std::size_t{node_count_} * kNodeWords * 8) ||
      !Contains(edges_, std::size_t{edge_count_} * 8)) {
    return DataLoss("nodes or edges lie outside the file");
  }
  return OkStatus();
}

bool GraphFile::Contains(const void* address, std::size_t bytes) const {
  if (bytes == 0) return true;
  const auto all = file_.bytes();
  const auto* first = static_cast<const std::byte*>(address);
  return first >= all.data() && first <= all.data() + all.size() &&
         bytes <= static_cast<std::size_t>(all.data() + all.size() - first);
}

MappedFile GraphFile::TakeFile() && {
  message_.reset();
  return std::move(file_);
}

}  // namespace millrace
