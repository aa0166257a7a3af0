#include "server/kinds/coq/index/index_format.h"

#include <string>
#include <vector>

#include "server/kinds/coq/scan/graph_file.h"

namespace millrace {

std::string_view IndexSectionName(IndexSection section) {
  switch (section) {
    case IndexSection::kFiles:
      return "files";
    case IndexSection::kHostFiles:
      return "host files";
    case IndexSection::kDefinitions:
      return "definitions";
    case IndexSection::kClusters:
      return "clusters";
    case IndexSection::kTactics:
      return "tactics";
    case IndexSection::kSteps:
      return "steps";
    case IndexSection::kOutcomes:
      return "outcomes";
    case IndexSection::kDependencyFiles:
      return "dependency files";
    case IndexSection::kRequiredFiles:
      return "required files";
    case IndexSection::kSpines:
      return "spines";
    case IndexSection::kClusterMembers:
      return "cluster members";
    case IndexSection::kContextNodes:
      return "context nodes";
    case IndexSection::kArguments:
      return "arguments";
    case IndexSection::kStringOffsets:
      return "string offsets";
    case IndexSection::kStringBytes:
      return "string bytes";
    case IndexSection::kDefinitionsByNode:
      return "definitions by node";
    case IndexSection::kBounds:
      return "bounds";
    case IndexSection::kLeftOut:
      return "left out";
    case IndexSection::kLeftOutBytes:
      return "left out bytes";
  }
  return "unknown";
}

std::uint32_t IndexEntryBytes(IndexSection section) {
  switch (section) {
    case IndexSection::kFiles:
      return sizeof(FileRecord);
    case IndexSection::kHostFiles:
      return sizeof(HostFileRecord);
    case IndexSection::kDefinitions:
      return sizeof(DefinitionRecord);
    case IndexSection::kClusters:
      return sizeof(ClusterRecord);
    case IndexSection::kTactics:
      return sizeof(TacticRecord);
    case IndexSection::kSteps:
      return sizeof(StepRecord);
    case IndexSection::kOutcomes:
      return sizeof(OutcomeRecord);
    case IndexSection::kContextNodes:
    case IndexSection::kArguments:
      return sizeof(NodeRef);
    case IndexSection::kStringOffsets:
      return sizeof(std::uint64_t);
    case IndexSection::kStringBytes:
    case IndexSection::kLeftOutBytes:
      return 1;
    case IndexSection::kBounds:
      return sizeof(IndexBounds);
    case IndexSection::kLeftOut:
      return sizeof(LeftOutRecord);
    case IndexSection::kDependencyFiles:
    case IndexSection::kRequiredFiles:
    case IndexSection::kSpines:
    case IndexSection::kClusterMembers:
    case IndexSection::kDefinitionsByNode:
      return sizeof(std::uint32_t);
  }
  return 0;
}

std::uint64_t HeaderChecksum(IndexHeader header, std::span<const SectionEntry> table) {
  header.checksum = 0;
  std::vector<std::byte> bytes;
  const auto add = [&](std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
  };
  add(std::as_bytes(std::span(&header, 1)));
  add(std::as_bytes(table));
  return Xxh3_64(bytes);
}

DatasetDigest::DatasetDigest() {
  const auto version = static_cast<std::uint32_t>(kDataVersion);
  stream_.Update(std::as_bytes(std::span(&version, 1)));
}

void DatasetDigest::Add(std::string_view name, std::uint64_t size, const Digest128& digest) {
  const auto length = static_cast<std::uint32_t>(name.size());
  const std::string digest_bytes = digest.ToBytes();
  stream_.Update(std::as_bytes(std::span(&length, 1)));
  stream_.Update(std::as_bytes(std::span(name.data(), name.size())));
  stream_.Update(std::as_bytes(std::span(&size, 1)));
  stream_.Update(std::as_bytes(std::span(digest_bytes.data(), digest_bytes.size())));
}

}  // namespace millrace
