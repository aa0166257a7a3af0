#include "server/kinds/coq/scan/file_scanner.h"

#include <utility>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "server/kinds/coq/scan/definition_scanner.h"
#include "server/kinds/coq/scan/graph_file.h"
#include "server/kinds/coq/scan/graph_message.h"

namespace millrace {
namespace {

Status ReadDependencies(GraphFile& graph, const std::string& name, std::uint32_t self,
                        const NameTable& names, FileSummary& summary) {
  const auto list = graph.message().root.getDependencies();
  for (const capnp::Text::Reader text : list) {
    const std::string_view dependency(text.begin(), text.size());
    const auto found = names.find(dependency);
    const std::uint32_t place = found == names.end() ? kNoRef : found->second;
    if (summary.dependencies.empty() && place != self) {
      return DataLoss(fmt::format("its first dependency is {:?}, expected the file itself, {:?}",
                                  dependency, name));
    }
    if (place == kNoRef) {
      return DataLoss(fmt::format("depends on {:?}, which is not in the dataset", dependency));
    }
    if (!summary.dependencies.empty() && place == self) {
      return DataLoss("lists itself among the files that it depends on");
    }
    summary.dependencies.push_back(place);
  }
  if (summary.dependencies.empty()) return DataLoss("lists no dependencies, not even itself");
  summary.targets.resize(summary.dependencies.size());
  return OkStatus();
}

// Checks tags and children, and collects the nodes that are definitions.
Status ScanNodes(const GraphFile& graph, std::vector<std::uint32_t>& definition_nodes) {
  const std::uint64_t* word = graph.nodes();
  const std::uint64_t edges = graph.edge_count();
  for (std::uint32_t n = 0; n < graph.node_count(); ++n, word += kNodeWords) {
    const NodeWord node = NodeWord::Decode(LoadWord(word));
    if (node.tag >= kNodeClasses) {
      return DataLossAt(
          graph.OffsetOf(word),
          fmt::format("node {} has class {}, expected less than {}", n, node.tag, kNodeClasses));
    }
    if (std::uint64_t{node.children_index} + node.children_count > edges) {
      return DataLossAt(
          graph.OffsetOf(word),
          fmt::format("node {} has edges {} to {}, but the file has {}", n, node.children_index,
                      std::uint64_t{node.children_index} + node.children_count, edges));
    }
    if (node.tag == kDefinitionTag) definition_nodes.push_back(n);
  }
  return OkStatus();
}

Status ScanEdges(const GraphFile& graph, std::vector<FurthestTarget>& targets) {
  const std::uint64_t* word = graph.edges();
  for (std::uint32_t e = 0; e < graph.edge_count(); ++e, ++word) {
    const EdgeWord edge = EdgeWord::Decode(LoadWord(word));
    if (edge.label >= kEdgeClasses) {
      return DataLossAt(graph.OffsetOf(word),
                        fmt::format("edge {} has label {}, expected less than "
                                    "{}",
                                    e, edge.label, kEdgeClasses));
    }
    if (!NoteTarget(targets, edge.dependency, edge.node, graph.OffsetOf(word))) {
      return DataLossAt(graph.OffsetOf(word), fmt::format("edge {} leads to dependency {}, but the "
                                                          "file has {}",
                                                          e, edge.dependency, targets.size()));
    }
  }
  return OkStatus();
}

Status CheckOwnTargets(const GraphFile& graph, const FurthestTarget& own) {
  if (own.needed_nodes <= graph.node_count()) return OkStatus();
  return DataLossAt(own.offset, fmt::format("refers to node {} of this file, which has {}",
                                            own.needed_nodes - 1, graph.node_count()));
}

void CountBlob(const FileBlob& blob, BlobCounts& counts) {
  counts = {.definitions = blob.definitions.size(),
            .clusters = blob.clusters.size(),
            .steps = blob.steps.size(),
            .outcomes = blob.outcomes.size(),
            .required_files = blob.required_files.size(),
            .spine = blob.spine.size(),
            .context_nodes = blob.context_nodes.size(),
            .arguments = blob.arguments.size(),
            .name_bytes = blob.name_bytes.size()};
}

}  // namespace

BlobCounts& BlobCounts::operator+=(const BlobCounts& other) {
  definitions += other.definitions;
  clusters += other.clusters;
  steps += other.steps;
  outcomes += other.outcomes;
  required_files += other.required_files;
  spine += other.spine;
  context_nodes += other.context_nodes;
  arguments += other.arguments;
  name_bytes += other.name_bytes;
  return *this;
}

Status ScanFile(const std::filesystem::path& dir, const std::string& name, std::uint32_t self,
                const NameTable& names, FileSummary& summary, FileBlob& blob) {
  MILLRACE_ASSIGN_OR_RETURN(MappedFile file,
                            MappedFile::Open(dir / name, AccessPattern::kSequential));
  summary.identity = file.identity();
  summary.digest = Xxh3(file.bytes());
  MILLRACE_ASSIGN_OR_RETURN(GraphFile graph, GraphFile::Open(std::move(file)));
  summary.node_count = graph.node_count();
  summary.edge_count = graph.edge_count();
  summary.bounds.max_file_nodes = graph.node_count();
  const Status read = CatchCapnp([&]() -> Status {
    MILLRACE_RETURN_IF_ERROR(ReadDependencies(graph, name, self, names, summary));
    std::vector<std::uint32_t> definition_nodes;
    MILLRACE_RETURN_IF_ERROR(ScanNodes(graph, definition_nodes));
    MILLRACE_RETURN_IF_ERROR(ScanEdges(graph, summary.targets));
    MILLRACE_RETURN_IF_ERROR(ScanDefinitions(graph, definition_nodes, summary, blob));
    return CheckOwnTargets(graph, summary.targets[0]);
  });
  // Checked first, because it explains any other error.
  MILLRACE_RETURN_IF_ERROR(graph.file().CheckIntact());
  MILLRACE_RETURN_IF_ERROR(read);
  CountBlob(blob, summary.counts);
  if (graph.file().Changed()) return DataLoss("changed while it was read; index it again");
  return OkStatus();
}

}  // namespace millrace
