// The records of a dataset's index, as they lie in the file (docs/index-format.md) and in the map.
//
// Plain values without padding; numbers are those of the dataset's order (dataset_index.h).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace {

/// "None", wherever a record holds the number of another record.
inline constexpr std::uint32_t kNone = 0xFFFFFFFF;

/// A physical node.
struct NodeRef {
  std::uint32_t file;  // FileId
  std::uint32_t node;  // index in the file's nodes
  friend constexpr auto operator<=>(const NodeRef&, const NodeRef&) = default;
};

/// `count` entries from `first` of an array that the field's comment names.
struct Slice {
  std::uint32_t first;
  std::uint32_t count;
};

/// The entries of `all` that a slice names; empty where they are not all there, which an index with
/// a good checksum never has.
template <class T>
std::span<const T> Sub(std::span<const T> all, std::uint64_t first, std::uint64_t count) {
  if (first > all.size() || count > all.size() - first) return {};
  return all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}
template <class T>
std::span<const T> Sub(std::span<const T> all, Slice slice) {
  return Sub(all, slice.first, slice.count);
}

/// Bytes inside the mapped file of a record (text that the index does not copy).
struct TextRef {
  std::uint64_t offset;
  std::uint32_t bytes;
  std::uint32_t reserved;
};

struct FileRecord {
  std::uint64_t size;
  std::uint64_t digest_high;  // XXH3-128 of the file's bytes
  std::uint64_t digest_low;
  std::uint64_t node_base;  // nodes of all files before this one
  std::uint32_t node_count;
  std::uint32_t edge_count;
  std::uint32_t name;            // string number
  std::uint32_t representative;  // DefinitionId, kNone
  Slice dependencies;            // of dependency_files(); the first is the file itself
  Slice definitions;             // of definitions()
  Slice spine;                   // of spines(): from the representative backward
  Slice clusters;                // of clusters()
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
  std::uint32_t previous;  // DefinitionId in the same file, kNone
  std::uint32_t cluster;   // number in clusters()
  // The forest of `previous`: x is an ancestor of y or y itself, in one file, exactly when
  // x.enter <= y.enter && y.enter < x.exit. depth is 0 for a definition without previous.
  std::uint32_t enter;
  std::uint32_t exit;
  std::uint32_t depth;
  Slice required_files;  // of required_files(): externalPrevious as FileIds, in order
  Slice steps;           // of steps(): known tactics only
  DefinitionKind kind;
  std::uint8_t on_spine;
  std::uint16_t reserved;
  std::uint32_t reserved2;
};

/// A mutually recursive cluster, or a definition that stands alone.
struct ClusterRecord {
  Slice members;  // of cluster_members(): the representative, then its previous chain
  std::uint32_t representative;  // DefinitionId
  std::uint32_t file;
};

/// A tactic, numbered when first met with an outcome, in file order; those that never have an
/// outcome come after all others, in the order in which they are met.
struct TacticRecord {
  std::int64_t ident;
  std::uint32_t base_text;  // string number
  std::uint32_t reserved;
};

/// A proof step whose tactic is known, with or without outcomes.
struct StepRecord {
  TextRef text;  // the tactic's `text`
  std::uint32_t definition;
  std::uint32_t step;     // index in the proof, steps of unknown tactics counted
  std::uint32_t tactic;   // number in tactics(); every known tactic has one, see TacticRecord
  Slice outcomes;         // of outcomes()
  std::uint8_t faithful;  // text equals intermText without '@'
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

/// What the file system said of a file when it was indexed, on the host that did it. Outside the
/// dataset's digest: from a difference follows only that the file has to be hashed again.
struct HostFileRecord {
  std::uint64_t inode;
  std::int64_t modified_ns;  // since 1970: contents
  std::int64_t changed_ns;   // since 1970: contents or inode
};

/// A file of the folder that is not in the index (BuildOptions::skip_bad), as it was when that was
/// decided: whoever finds another one there decides again.
struct LeftOutRecord {
  std::uint64_t size;
  HostFileRecord host;  // all three, and the size, are 0 where the file could not be looked at
  std::uint64_t text;   // first byte in left_out_bytes(): name, then reason
  std::uint32_t name_bytes;
  std::uint32_t reason_bytes;
  std::uint32_t why;  // LeftOutWhy
  std::uint32_t reserved;
};

enum class LeftOutWhy : std::uint32_t {
  kBad = 0,         // what it holds
  kUnreadable = 1,  // it cannot be opened: who tries again may succeed, though nothing changed
  kNeedsBad = 2,    // nothing is wrong with it but what it depends on
};

/// Largest values, from which a plan fixes the types of its tensors.
struct IndexBounds {
  std::uint64_t max_file_nodes;
  std::uint64_t max_context;     // nodes of one local context
  std::uint64_t max_arguments;   // of one outcome
  std::uint64_t max_step;        // index of a proof step
  std::uint64_t max_cluster;     // members
  std::uint64_t max_text_bytes;  // of a state's or tactic's text
  std::uint64_t reserved[2];
};

}  // namespace millrace
