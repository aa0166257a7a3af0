#include "server/kinds/coq/index/blob_placer.h"

namespace millrace {
namespace {

std::uint32_t Narrow(std::uint64_t value) { return static_cast<std::uint32_t>(value); }

void MoveRecords(const BlobPlace& place, FileBlob& blob) {
  const std::uint32_t definitions = Narrow(place.first.definitions);
  for (DefinitionRecord& d : blob.definitions) {
    d.file = place.file;
    d.name += Narrow(place.first_name + place.first.definitions);
    if (d.previous != kNoRef) d.previous += definitions;
    d.cluster += Narrow(place.first.clusters);
    d.required_files.first += Narrow(place.first.required_files);
    d.steps.first += Narrow(place.first.steps);
  }
  for (ClusterRecord& c : blob.clusters) {
    // Every definition is in exactly one cluster, so there are as many members as definitions.
    c.members.first += definitions;
    c.representative += definitions;
    c.file = place.file;
  }
  for (StepRecord& s : blob.steps) {
    s.definition += definitions;
    s.tactic = place.tactics[s.tactic];
    s.outcomes.first += Narrow(place.first.outcomes);
  }
  for (OutcomeRecord& o : blob.outcomes) {
    o.root.file = place.dependencies[o.root.file];
    o.first_context += place.first.context_nodes;
    o.first_argument += place.first.arguments;
    o.step += Narrow(place.first.steps);
  }
  for (std::uint32_t& f : blob.required_files) f = place.dependencies[f];
  for (std::uint32_t& d : blob.spine) d += definitions;
  for (std::uint32_t& d : blob.cluster_members) d += definitions;
  for (std::uint32_t& d : blob.definitions_by_node) d += definitions;
  for (NodeRef& n : blob.context_nodes) n.file = place.dependencies[n.file];
  for (NodeRef& n : blob.arguments) {
    if (n.file != kNoRef) n.file = place.dependencies[n.file];
  }
}

}  // namespace

Status PlaceBlob(const BlobPlace& place, FileBlob& blob, IndexWriter& writer) {
  MoveRecords(place, blob);
  std::vector<std::uint64_t> name_begins;
  std::uint64_t begin = place.first_name_byte;
  for (const std::uint32_t end : blob.name_ends) {
    name_begins.push_back(begin);
    begin = place.first_name_byte + end;
  }
  Status status;
  const auto write = [&](IndexSection section, std::uint64_t first, const auto& entries) {
    if (status.ok()) status = writer.Write(section, first, std::span(entries));
  };
  write(IndexSection::kDefinitions, place.first.definitions, std::as_const(blob.definitions));
  write(IndexSection::kClusters, place.first.clusters, std::as_const(blob.clusters));
  write(IndexSection::kSteps, place.first.steps, std::as_const(blob.steps));
  write(IndexSection::kOutcomes, place.first.outcomes, std::as_const(blob.outcomes));
  write(IndexSection::kRequiredFiles, place.first.required_files,
        std::as_const(blob.required_files));
  write(IndexSection::kSpines, place.first.spine, std::as_const(blob.spine));
  write(IndexSection::kClusterMembers, place.first.definitions,
        std::as_const(blob.cluster_members));
  write(IndexSection::kDefinitionsByNode, place.first.definitions,
        std::as_const(blob.definitions_by_node));
  write(IndexSection::kContextNodes, place.first.context_nodes, std::as_const(blob.context_nodes));
  write(IndexSection::kArguments, place.first.arguments, std::as_const(blob.arguments));
  write(IndexSection::kStringOffsets, place.first_name + place.first.definitions,
        std::as_const(name_begins));
  write(IndexSection::kStringBytes, place.first_name_byte, std::as_const(blob.name_bytes));
  return status;
}

}  // namespace millrace
