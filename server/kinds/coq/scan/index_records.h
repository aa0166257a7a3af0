// The records of a dataset's index, as they are in the file (docs/formats/coq-index.md) and in the
// map.
//
// Plain values without padding. Numbers follow the dataset's order (dataset_index.h).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace {

/// Means "none" in every field that holds the number of another record.
inline constexpr std::uint32_t kNoRef = 0xFFFFFFFF;

/// A physical node.
struct NodeRef {
  std::uint32_t file;  // FileId
  std::uint32_t node;  // index in the file's nodes
  friend constexpr auto operator<=>(const NodeRef&, const NodeRef&) = default;
};

/// `count` entries, beginning with entry `first`, of an array that the field's comment names.
struct Slice {
  std::uint32_t first;
  std::uint32_t count;
};

/// The entries of `all` in a slice. Empty if some of them do not exist, which never happens in an
/// index with a good checksum.
template <class T>
std::span<const T> Sub(std::span<const T> all, std::uint64_t first, std::uint64_t count) {
  if (first > all.size() || count > all.size() - first) return {};
  return all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}
template <class T>
std::span<const T> Sub(std::span<const T> all, Slice slice) {
  return Sub(all, slice.first, slice.count);
}

/// Bytes inside the mapped file of a record: a text that the index does not copy.
struct TextRef {
  std::uint64_t offset;
  std::uint32_t bytes;
  std::uint32_t reserved;
};

struct FileRecord {
  std::uint64_t size;
  std::uint64_t digest_high;  // XXH3-128 of the file's bytes
  std::uint64_t digest_low;
  std::uint64_t node_base;  // number of nodes of all files before this one
  std::uint32_t node_count;
  std::uint32_t edge_count;
  std::uint32_t name;            // string number
  std::uint32_t representative;  // number of a definition, or kNoRef
  Slice dependencies;            // in dependency_files(); the first is the file itself
  Slice definitions;             // in definitions()
  Slice spine;                   // in spines(): from the representative backward
  Slice clusters;                // in clusters()
};

enum class DefinitionKind : std::uint8_t {
  kInductive,
  kConstructor,
  kProjection,
  kManualConstant,
  kTacticalConstant,
  kManualSectionConstant,
  kTacticalSectionConstant,
};

struct DefinitionRecord {
  std::int64_t identity;
  std::uint32_t file;
  std::uint32_t node;
  std::uint32_t name;      // string number
  std::uint32_t previous;  // number of a definition in the same file, or kNoRef
  std::uint32_t cluster;   // number in clusters()
  // Places in the forest of `previous`. For x and y in one file, x is y or an ancestor of y exactly
  // if x.enter <= y.enter && y.enter < x.exit. depth is 0 for a definition without `previous`.
  std::uint32_t enter;
  std::uint32_t exit;
  std::uint32_t depth;
  Slice required_files;  // in required_files(): externalPrevious as FileIds, in order
  Slice steps;           // in steps(): known tactics only
  DefinitionKind kind;
  std::uint8_t on_spine;
  std::uint16_t reserved;
  std::uint32_t reserved2;
};

/// A mutually recursive cluster, or a single definition.
struct ClusterRecord {
  Slice members;  // in cluster_members(): the representative, then its `previous` chain
  std::uint32_t representative;  // number of a definition
  std::uint32_t file;
};

/// A tactic. Tactics are numbered in file order when they are first met with an outcome. Tactics
/// that never have an outcome come after all others, in the order in which they are met.
struct TacticRecord {
  std::int64_t ident;
  std::uint32_t base_text;  // string number
  std::uint32_t reserved;
};

/// A proof step whose tactic is known, with or without outcomes.
struct StepRecord {
  TextRef text;  // the tactic's `text`
  std::uint32_t definition;
  std::uint32_t step;     // index in the proof; steps of unknown tactics count too
  std::uint32_t tactic;   // number in tactics(); every known tactic has one, see TacticRecord
  Slice outcomes;         // in outcomes()
  std::uint8_t faithful;  // 1 if `text` equals `intermText` when '@' is ignored
  std::uint8_t reserved[3];
};

/// A proof state: one outcome of a step.
struct OutcomeRecord {
  TextRef text;                  // `before.text`
  NodeRef root;                  // `before.root`
  std::uint64_t first_context;   // in context_nodes()
  std::uint64_t first_argument;  // in arguments()
  std::uint32_t context_count;
  std::uint32_t argument_count;
  std::uint32_t step;  // number in steps()
  std::uint32_t reserved;
};

/// The file system's data about a file when it was indexed, on the host that did it. They are not
/// part of the dataset's digest. If they differ, the file must be hashed again, and nothing else
/// follows.
struct HostFileRecord {
  std::uint64_t inode;
  std::int64_t modified_ns;  // last change of contents, ns since 1970
  std::int64_t changed_ns;   // last change of contents or inode, ns since 1970
};

/// A file of the folder that the index leaves out (BuildOptions::skip_bad), with its size and times
/// when the index was built. Once they have changed, the index no longer fits the folder.
struct LeftOutRecord {
  std::uint64_t size;
  HostFileRecord host;  // size and all three values are 0 if the file could not be examined
  std::uint64_t text;   // first byte in left_out_bytes(): name, then reason
  std::uint32_t name_bytes;
  std::uint32_t reason_bytes;
  std::uint32_t why;  // LeftOutWhy
  std::uint32_t reserved;
};

enum class LeftOutWhy : std::uint32_t {
  kBad = 0,         // the content is bad
  kUnreadable = 1,  // it cannot be opened; a later try may succeed although nothing changed
  kNeedsBad = 2,    // only a file that it depends on is bad
};

/// The largest values of a dataset. A plan uses them to choose the types of its tensors.
struct IndexBounds {
  std::uint64_t max_file_nodes;
  std::uint64_t max_context;     // nodes of one local context
  std::uint64_t max_arguments;   // arguments of one outcome
  std::uint64_t max_step;        // index of a proof step
  std::uint64_t max_cluster;     // members of one cluster
  std::uint64_t max_text_bytes;  // text of a state or tactic
  std::uint64_t reserved[2];
};

}  // namespace millrace
