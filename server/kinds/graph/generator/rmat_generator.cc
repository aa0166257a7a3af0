#include "server/kinds/graph/generator/rmat_generator.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "server/kinds/graph/generator/generated_arrays.h"
#include "server/kinds/graph/generator/rmat_graph.h"
#include "server/source/generate.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using generator::CheckRange;

constexpr std::uint64_t kProgressSteps = 1 << 16;
constexpr std::size_t kEntriesWritten = std::size_t{1} << 18;  // at a time

Status CheckRmat(const RmatOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckRange("nodes", options.nodes, 4, 0x7FFFFFFF));
  MILLRACE_RETURN_IF_ERROR(CheckRange("edges", options.edges, 1, 0xFFFFFFFF));
  MILLRACE_RETURN_IF_ERROR(CheckRange("a", options.a, 25, 100));
  MILLRACE_RETURN_IF_ERROR(CheckRange("b", options.b, 0, 100 - options.a));
  MILLRACE_RETURN_IF_ERROR(CheckRange("c", options.c, 0, 100 - options.a - options.b));
  MILLRACE_RETURN_IF_ERROR(CheckRange("features", options.features, 0, 65536));
  MILLRACE_RETURN_IF_ERROR(CheckRange("classes", options.classes, 0, 65536));
  return CheckRange("roots", options.roots, 0, options.nodes / 2);
}

/// Writes the arrays of one graph.
class RmatRun {
 public:
  RmatRun(const fs::path& dir, const RmatOptions& options)
      : options_(options), graph_(options), arrays_(dir, Description(options)) {}

  Status Write(GraphGeneratorReport* report) {
    MILLRACE_RETURN_IF_ERROR(WriteRows());
    MILLRACE_RETURN_IF_ERROR(WriteNodes());
    MILLRACE_RETURN_IF_ERROR(WriteRoots());
    MILLRACE_RETURN_IF_ERROR(arrays_.Seal());
    *report = {options_.nodes, options_.edges, TrainRoots(), arrays_.bytes()};
    return OkStatus();
  }

 private:
  static GraphDescription Description(const RmatOptions& options) {
    GraphDescription description;
    description.nodes = options.nodes;
    description.edges = options.edges;
    description.rows = options.rows;
    return description;
  }
  std::uint64_t TrainRoots() const {
    return options_.roots > 0 ? options_.roots : std::max<std::uint64_t>(1, options_.nodes / 10);
  }

  /// Reports progress of a pass over `count` edges or nodes, of which number i was done.
  void Step(std::uint64_t i, std::uint64_t count) {
    if (!options_.progress || (i + 1) % kProgressSteps != 0) return;
    const std::uint64_t passes = 2 + (options_.edges - 1) / options_.entries_at_once +
                                 static_cast<std::uint64_t>(options_.features > 0);
    const auto nodes_at = [&](std::uint64_t number) { return number * options_.nodes / count; };
    options_.progress(nodes_at(i + 1) - nodes_at(i + 1 - kProgressSteps), passes * options_.nodes);
  }

  /// Calls `take` with the row and the entry of every edge.
  template <class Take>
  void ForEdges(const Take& take) {
    const bool by_source = options_.rows == GraphRows::kSource;
    // Some at a time: memory is then waited for at many places at once.
    std::array<generator::RmatEdge, 256> drawn;
    for (std::uint64_t first = 0; first < options_.edges; first += drawn.size()) {
      const std::uint64_t count = std::min<std::uint64_t>(drawn.size(), options_.edges - first);
      for (std::uint64_t e = 0; e < count; ++e) {
        drawn[e] = graph_.Edge(first + e);
        Step(first + e, options_.edges);
      }
      for (std::uint64_t e = 0; e < count; ++e) {
        const auto& [source, target] = drawn[e];
        by_source ? take(source, target) : take(target, source);
      }
    }
  }

  Status WriteRows() {
    // At first the number of entries of each row, then where its next entry lies.
    std::vector<std::uint64_t> next(options_.nodes);
    ForEdges([&](std::uint64_t row, std::uint64_t) { ++next[row]; });
    std::uint64_t end = 0;
    for (std::uint64_t& row : next) end += std::exchange(row, end);
    MILLRACE_RETURN_IF_ERROR(
        arrays_.Write("indptr", {DType::kInt64, {options_.nodes + 1}}, options_.nodes + 1,
                      [&](ArrayWriter& writer, std::uint64_t node) {
                        const std::uint64_t begin = node < options_.nodes ? next[node] : end;
                        return writer.Append(static_cast<std::int64_t>(begin));
                      }));
    return arrays_.Write(
        "indices", {DType::kInt32, {options_.edges}}, 1,
        [&](ArrayWriter& writer, std::uint64_t) { return WriteEntries(writer, next); });
  }

  /// Writes rows in ranges that fit into memory, with a pass over all edges for each.
  Status WriteEntries(ArrayWriter& writer, std::vector<std::uint64_t>& next) {
    const auto end_of = [&](std::uint64_t row) {
      return row + 1 < options_.nodes ? next[row + 1] : options_.edges;
    };
    std::vector<std::int32_t> entries;
    for (std::uint64_t first = 0; first < options_.nodes;) {
      const std::uint64_t begin = next[first];
      std::uint64_t last = first + 1;  // a row that is too long comes alone
      while (last < options_.nodes && end_of(last) - begin <= options_.entries_at_once) ++last;
      entries.resize(end_of(last - 1) - begin);
      ForEdges([&](std::uint64_t row, std::uint64_t entry) {
        if (row < first || row >= last) return;
        entries[next[row]++ - begin] = static_cast<std::int32_t>(entry);
      });
      for (std::span<const std::int32_t> rest(entries); !rest.empty();) {
        const std::size_t piece = std::min(kEntriesWritten, rest.size());
        MILLRACE_RETURN_IF_ERROR(writer.AppendBytes(std::as_bytes(rest.first(piece))));
        rest = rest.subspan(piece);
      }
      first = last;
    }
    return OkStatus();
  }

  Status WriteNodes() {
    if (options_.classes > 0) {
      MILLRACE_RETURN_IF_ERROR(
          arrays_.Write("node_feature/y", {DType::kInt64, {options_.nodes}}, options_.nodes,
                        [&](ArrayWriter& writer, std::uint64_t node) {
                          return writer.Append(std::int64_t{graph_.Class(node)});
                        }));
    }
    if (options_.features == 0) return OkStatus();
    std::vector<float> values;
    return arrays_.Write("node_feature/x", {DType::kFloat32, {options_.nodes, options_.features}},
                         options_.nodes, [&](ArrayWriter& writer, std::uint64_t node) {
                           graph_.Features(node, values);
                           Step(node, options_.nodes);
                           return writer.AppendBytes(std::as_bytes(std::span(values)));
                         });
  }

  Status WriteRoots() {
    std::uint64_t first = 0;
    const auto write = [&](const char* name, std::uint64_t count) {
      const Status status = arrays_.Write(
          name, {DType::kInt32, {count}}, count, [&](ArrayWriter& writer, std::uint64_t row) {
            return writer.Append(static_cast<std::int32_t>(graph_.Root(first + row)));
          });
      first += count;
      return status;
    };
    const std::uint64_t half = std::max<std::uint64_t>(1, TrainRoots() / 2);
    MILLRACE_RETURN_IF_ERROR(write("roots/train", TrainRoots()));
    MILLRACE_RETURN_IF_ERROR(write("roots/valid", half));
    return write("roots/test", half);
  }

  const RmatOptions options_;
  const generator::RmatGraph graph_;
  generator::GeneratedArrays arrays_;
};

}  // namespace

Status GenerateRmat(const fs::path& dir, const RmatOptions& options, GraphGeneratorReport* report) {
  MILLRACE_RETURN_IF_ERROR(CheckRmat(options));
  return GenerateInto(dir, [&] { return RmatRun(dir, options).Write(report); });
}

}  // namespace millrace
