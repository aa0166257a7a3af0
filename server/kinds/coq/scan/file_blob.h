// The result of scanning one file: records with numbers that count within the file. They are moved
// to their places in the index once the order of all files is known.
//
// Value types.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "server/files/file_identity.h"
#include "server/kinds/coq/scan/index_records.h"

namespace millrace {

/// The records of one file, as in DatasetIndex, except for some numbers. `file` is 0 in definitions
/// and clusters. In context nodes, arguments, roots and required_files, the file is the number of
/// the dependency. Names of definitions are numbers in `names`. StepRecord::tactic is a position in
/// FileSummary::tactics.
struct FileBlob {
  std::vector<DefinitionRecord> definitions;
  std::vector<ClusterRecord> clusters;
  std::vector<StepRecord> steps;
  std::vector<OutcomeRecord> outcomes;
  std::vector<std::uint32_t> required_files;
  std::vector<std::uint32_t> spine;
  std::vector<std::uint32_t> cluster_members;
  std::vector<std::uint32_t> definitions_by_node;
  std::vector<NodeRef> context_nodes;
  std::vector<NodeRef> arguments;
  std::vector<std::uint32_t> name_ends;  // position in name_bytes, one for each definition
  std::vector<char> name_bytes;

  /// Calls visit(array) for every array, always in the same order.
  template <class Visit>
  void ForEachArray(const Visit& visit) {
    visit(definitions);
    visit(clusters);
    visit(steps);
    visit(outcomes);
    visit(required_files);
    visit(spine);
    visit(cluster_members);
    visit(definitions_by_node);
    visit(context_nodes);
    visit(arguments);
    visit(name_ends);
    visit(name_bytes);
  }
};

/// Number of arrays that FileBlob::ForEachArray visits.
inline constexpr std::size_t kBlobArrays = 12;

/// Number of entries of each section of the index that belong to a file.
struct BlobCounts {
  std::uint64_t definitions = 0;
  std::uint64_t clusters = 0;
  std::uint64_t steps = 0;
  std::uint64_t outcomes = 0;
  std::uint64_t required_files = 0;
  std::uint64_t spine = 0;
  std::uint64_t context_nodes = 0;
  std::uint64_t arguments = 0;
  std::uint64_t name_bytes = 0;

  BlobCounts& operator+=(const BlobCounts& other);
};

/// The largest node of a dependency to which the file refers.
struct FurthestTarget {
  std::uint64_t needed_nodes = 0;  // number of that node + 1; 0: nothing refers to the dependency
  std::uint64_t offset = 0;        // position in the file of that reference, in bytes
};

/// A tactic as a file has it.
struct FileTactic {
  std::int64_t ident = 0;
  std::string base_text;
  /// Set if the file's records come from an older index: the step in that index (IndexReuse) from
  /// which the text is to be read if it is needed.
  std::uint32_t text_step = kNoRef;
};

/// The data of a file that stay in memory after its scan.
struct FileSummary {
  FileIdentity identity;
  Digest128 digest;
  std::uint32_t node_count = 0;
  std::uint32_t edge_count = 0;
  std::uint32_t representative = kNoRef;     // a definition of the file
  std::vector<std::uint32_t> dependencies;  // places in the listing; kNoRef: not in the dataset
  std::vector<FurthestTarget> targets;      // one for each dependency
  std::vector<FileTactic> tactics;          // in the order in which they are met
  std::vector<std::uint32_t> tactics_with_outcomes;  // in the order of their first outcomes
  IndexBounds bounds{};
  BlobCounts counts;
};

}  // namespace millrace
