// What the scan of one file gives: records with numbers that count within the file, to be moved to
// their places in the index once the order of all files is known.
//
// Values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "server/dataset/coq/scan/index_records.h"
#include "server/files/file_identity.h"

namespace millrace {

/// The records of one file, as in DatasetIndex but for: `file` of definitions and clusters is 0; of
/// context nodes and arguments, and of roots, it is the number of the dependency, as are the
/// entries of required_files; names of definitions are numbers in `names`; StepRecord::tactic
/// counts in FileSummary::tactics.
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
  std::vector<std::uint32_t> name_ends;  // in name_bytes, one a definition
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

/// How much of each section of the index a file fills.
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

/// The largest node of a dependency that anything in the file refers to.
struct FurthestTarget {
  std::uint64_t needed_nodes = 0;  // that node + 1; 0: nothing refers to the dependency
  std::uint64_t offset = 0;        // byte of the file where the reference lies
};

/// A tactic as a file has it.
struct FileTactic {
  std::int64_t ident = 0;
  std::string base_text;
  /// Where the file's records come from an older index: the step there (IndexReuse) that the text
  /// is still to be read from, should it be needed.
  std::uint32_t text_step = kNone;
};

/// What stays in memory of a file after its scan.
struct FileSummary {
  FileIdentity identity;
  Digest128 digest;
  std::uint32_t node_count = 0;
  std::uint32_t edge_count = 0;
  std::uint32_t representative = kNone;     // definition of the file
  std::vector<std::uint32_t> dependencies;  // places in the listing; kNone: not in the dataset
  std::vector<FurthestTarget> targets;      // one a dependency
  std::vector<FileTactic> tactics;          // in the order in which they are met
  std::vector<std::uint32_t> tactics_with_outcomes;  // in the order of their first outcomes
  IndexBounds bounds{};
  BlobCounts counts;
};

}  // namespace millrace
