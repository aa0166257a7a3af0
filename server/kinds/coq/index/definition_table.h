// Finds the definition at a node of a dataset. It is a flat table made from an index's records and
// takes 11 bytes for each definition. Closures look up every definition that they meet, so a lookup
// takes a single cache line.
//
// It uses open addressing. The home slot of a node and the rest of its key, which the entry stores,
// identify the node. So no record has to be read for comparison.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ask_for_line.h"
#include "server/kinds/coq/scan/index_records.h"

namespace millrace {

class DefinitionTable {
 public:
  /// Definitions with node numbers that their file does not have are left out.
  DefinitionTable(std::span<const FileRecord> files, std::span<const DefinitionRecord> definitions);

  /// The definition at a node, or kNoRef. Any node may be asked for.
  std::uint32_t Find(NodeRef node) const {
    if (!IsNode(node)) return kNoRef;
    const std::uint64_t key = Key(node);
    std::uint32_t rest = Rest(key);
    for (std::uint64_t slot = Home(key);;) {
      const Slot& found = slots_[slot];
      if (found.definition == kNoRef || found.rest == rest) return found.definition;
      if (rest + step_ < rest) return kNoRef;  // no entry is further from its home
      rest += step_;
      if (++slot == slots_.size()) slot = 0;
    }
  }

  /// Hints that Find will be called with this node soon.
  void Prefetch(NodeRef node) const {
    if (IsNode(node)) AskForLine(&slots_[Home(Key(node))]);
  }

  std::uint64_t bytes() const {
    return slots_.capacity() * sizeof(Slot) + bases_.capacity() * sizeof(std::uint64_t);
  }

 private:
  /// Most bits of Slot::rest that distinguish keys of one home. The bits above them count the slots
  /// between an entry and its home.
  static constexpr int kMaxRestBits = 24;

  struct Slot {
    std::uint32_t rest;
    std::uint32_t definition;  // kNoRef: empty
  };

  bool IsNode(NodeRef node) const {
    return node.file + std::uint64_t{1} < bases_.size() &&
           node.node < bases_[node.file + 1] - bases_[node.file];
  }
  /// The node's number in the dataset, spread over 64 bits. The upper key_bits_ bits differ for any
  /// two nodes.
  std::uint64_t Key(NodeRef node) const {
    return (bases_[node.file] + node.node) * 0x9E3779B97F4A7C15u << (64 - key_bits_);
  }
  std::uint64_t Home(std::uint64_t key) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(static_cast<Wide>(key) * slots_.size() >> 64);
  }
  /// The keys of one home are consecutive, so their lowest bits distinguish them.
  std::uint32_t Rest(std::uint64_t key) const {
    return static_cast<std::uint32_t>(key >> (64 - key_bits_)) & (step_ - 1);
  }

  /// False if too many entries are far from their homes.
  bool Fill(std::span<const DefinitionRecord> definitions, std::uint64_t capacity);
  bool Insert(NodeRef node, std::uint32_t definition);

  // For each file the number of nodes of all files before it, and one more entry at the end.
  std::vector<std::uint64_t> bases_;
  int key_bits_ = 1;
  std::uint32_t step_ = 1;  // 2^n, if n bits distinguish the keys of one home
  std::vector<Slot> slots_;
};

}  // namespace millrace
