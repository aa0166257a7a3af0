#include "server/kinds/coq/index/definition_table.h"

#include <algorithm>
#include <bit>

namespace millrace {

DefinitionTable::DefinitionTable(std::span<const FileRecord> files,
                                 std::span<const DefinitionRecord> definitions) {
  bases_.reserve(files.size() + 1);
  bases_.push_back(0);
  for (const FileRecord& file : files) bases_.push_back(bases_.back() + file.node_count);
  key_bits_ = std::max(1, static_cast<int>(std::bit_width(bases_.back())));
  std::uint64_t capacity = std::max<std::uint64_t>(16, definitions.size() + definitions.size() / 3);
  // Ensures that few enough nodes share a home for Slot::rest to distinguish them.
  capacity = std::max(capacity, bases_.back() >> (kMaxRestBits - 1));
  while (!Fill(definitions, capacity)) capacity += capacity / 2;
}

bool DefinitionTable::Fill(std::span<const DefinitionRecord> definitions, std::uint64_t capacity) {
  slots_.assign(capacity, Slot{0, kNoRef});
  step_ = static_cast<std::uint32_t>(std::bit_ceil((std::uint64_t{1} << key_bits_) / capacity + 1));
  for (std::uint32_t d = 0; d < definitions.size(); ++d) {
    const NodeRef node{definitions[d].file, definitions[d].node};
    if (IsNode(node) && !Insert(node, d)) return false;
  }
  return true;
}

bool DefinitionTable::Insert(NodeRef node, std::uint32_t definition) {
  const std::uint64_t key = Key(node);
  std::uint32_t rest = Rest(key);
  std::uint64_t slot = Home(key);
  while (slots_[slot].definition != kNoRef) {
    if (rest + step_ < rest) return false;
    rest += step_;
    if (++slot == slots_.size()) slot = 0;
  }
  slots_[slot] = {rest, definition};
  return true;
}

}  // namespace millrace
