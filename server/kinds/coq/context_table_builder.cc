#include "server/kinds/coq/context_table_builder.h"

#include <algorithm>

namespace millrace {
namespace {

// A polynomial hash over the field of 2^61 - 1: h(s) = sum of (s[i] + 1) * kBase^i.
constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
constexpr std::uint64_t kBase = 0x1B7D3F8A5C96E241u % kPrime;

std::uint64_t Multiply(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  const auto sum =
      static_cast<std::uint64_t>(product & kPrime) + static_cast<std::uint64_t>(product >> 61);
  return sum >= kPrime ? sum - kPrime : sum;
}

std::uint64_t Add(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum >= kPrime ? sum - kPrime : sum;
}

std::uint64_t PowerOfBase(std::uint64_t exponent) {
  std::uint64_t power = 1;
  for (std::uint64_t square = kBase; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) power = Multiply(power, square);
    square = Multiply(square, square);
  }
  return power;
}

std::uint64_t Pair(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }

bool IsClusterKind(DefinitionKind kind) {
  return kind == DefinitionKind::kInductive || kind == DefinitionKind::kConstructor ||
         kind == DefinitionKind::kProjection;
}

}  // namespace

ContextTable::Builder::Builder(ContextTable* table, std::span<const std::uint32_t> definitions)
    : table_(*table),
      index_(*table->index_),
      definitions_(definitions),
      list_of_(index_.definitions().size(), kNoRef),
      chain_hash_(index_.definitions().size(), 0),
      list_hash_{0},
      requirements_(index_.files().size()),
      requirements_known_(index_.files().size(), false),
      seen_(index_.files().size(), 0) {
  table_.lists_.push_back({0, 0, 0, 0, 0});
  table_.id_of_.assign(index_.definitions().size(), kNoRef);
}

void ContextTable::Builder::Run() {
  for (const std::uint32_t definition : definitions_) {
    const Context context{ListOf(definition), Start(definition)};
    const auto [known, is_new] =
        by_pair_.try_emplace(Pair(context.list, context.start), table_.size());
    if (is_new) {
      const std::uint64_t hash = ContextHash(context);
      const auto [first, last] = by_hash_.equal_range(hash);
      const auto equal = std::find_if(first, last, [&](const auto& entry) {
        return SameValue(table_.contexts_[entry.second], context);
      });
      if (equal != last) {
        known->second = equal->second;
      } else {
        by_hash_.emplace(hash, table_.size());
        table_.contexts_.push_back(context);
        table_.max_length_ = std::max(table_.max_length_, table_.Length(known->second));
      }
    }
    table_.id_of_[definition] = known->second;
  }
  table_.contexts_.shrink_to_fit();
  table_.lists_.shrink_to_fit();
  NumberTree();
}

std::uint32_t ContextTable::Builder::ListOf(std::uint32_t definition) {
  std::vector<std::uint32_t> chain;
  for (std::uint32_t d = definition; d != kNoRef && list_of_[d] == kNoRef;
       d = index_.definitions()[d].previous) {
    chain.push_back(d);
  }
  for (auto d = chain.rbegin(); d != chain.rend(); ++d) {
    const std::uint32_t previous = index_.definitions()[*d].previous;
    list_of_[*d] = Extend(previous == kNoRef ? 0 : list_of_[previous], *d);
  }
  return list_of_[definition];
}

std::uint32_t ContextTable::Builder::Extend(std::uint32_t list, std::uint32_t definition) {
  const auto required =
      Sub(index_.required_files(), index_.definitions()[definition].required_files);
  if (required.empty()) return list;
  ++run_;
  for (std::uint32_t l = list; l != 0; l = table_.lists_[l].parent) {
    seen_[table_.lists_[l].file] = run_;
  }
  // Depth first: the files that a file requires come right after it. `waiting` holds the files
  // still to visit, the next one last.
  std::vector<std::uint32_t> waiting(required.rbegin(), required.rend());
  while (!waiting.empty()) {
    const std::uint32_t file = waiting.back();
    waiting.pop_back();
    if (seen_[file] == run_) continue;
    seen_[file] = run_;
    // A file without a spine adds nothing to any context.
    if (index_.files()[file].spine.count == 0) continue;
    list = Child(list, file);
    const std::vector<std::uint32_t>& further = Requirements(file);
    waiting.insert(waiting.end(), further.rbegin(), further.rend());
  }
  return list;
}

std::uint32_t ContextTable::Builder::Child(std::uint32_t list, std::uint32_t file) {
  const auto next = static_cast<std::uint32_t>(table_.lists_.size());
  const auto [child, is_new] = child_.try_emplace(Pair(list, file), next);
  if (is_new) {
    const std::uint64_t before = table_.lists_[list].length;
    table_.lists_.push_back({list, file, 0, 0, before + index_.files()[file].spine.count});
    list_hash_.push_back(
        Add(list_hash_[list],
            Multiply(PowerOfBase(before), ChainHash(index_.files()[file].representative))));
  }
  return child->second;
}

const std::vector<std::uint32_t>& ContextTable::Builder::Requirements(std::uint32_t file) {
  std::vector<std::uint32_t>& files = requirements_[file];
  if (!requirements_known_[file]) {
    requirements_known_[file] = true;
    for (const std::uint32_t definition : Sub(index_.spines(), index_.files()[file].spine)) {
      const auto required =
          Sub(index_.required_files(), index_.definitions()[definition].required_files);
      files.insert(files.end(), required.begin(), required.end());
    }
    // If a file occurs several times, only the first occurrence counts.
    std::vector<std::uint32_t> met;
    std::erase_if(files, [&met](std::uint32_t f) {
      if (std::find(met.begin(), met.end(), f) != met.end()) return true;
      met.push_back(f);
      return false;
    });
  }
  return files;
}

std::uint32_t ContextTable::Builder::Start(std::uint32_t definition) const {
  const DefinitionRecord& record = index_.definitions()[definition];
  return IsClusterKind(record.kind) ? index_.clusters()[record.cluster].representative
                                    : record.previous;
}

std::uint64_t ContextTable::Builder::ChainHash(std::uint32_t definition) {
  if (definition == kNoRef) return 0;
  std::vector<std::uint32_t> chain;
  for (std::uint32_t d = definition; d != kNoRef && chain_hash_[d] == 0;
       d = index_.definitions()[d].previous) {
    chain.push_back(d);
  }
  for (auto d = chain.rbegin(); d != chain.rend(); ++d) {
    const std::uint32_t previous = index_.definitions()[*d].previous;
    const std::uint64_t rest = previous == kNoRef ? 0 : chain_hash_[previous];
    const std::uint64_t first = std::uint64_t{table_.labels_->Label(*d)} + 1;
    chain_hash_[*d] = Add(first, Multiply(kBase, rest));
  }
  return chain_hash_[definition];
}

std::uint64_t ContextTable::Builder::ContextHash(Context context) {
  const std::uint64_t before = table_.lists_[context.list].length;
  return Add(list_hash_[context.list], Multiply(PowerOfBase(before), ChainHash(context.start)));
}

bool ContextTable::Builder::SameValue(Context a, Context b) const {
  std::vector<std::uint32_t> labels_a;
  std::vector<std::uint32_t> labels_b;
  table_.AppendLabels(a, &labels_a);
  table_.AppendLabels(b, &labels_b);
  return labels_a == labels_b;
}

void ContextTable::Builder::NumberTree() {
  // A list has a higher number than its parent. So one backward pass gives the sizes of subtrees,
  // and one forward pass gives the places.
  std::vector<List>& lists = table_.lists_;
  for (List& list : lists) list.exit = 1;
  for (std::size_t l = lists.size(); l-- > 1;) lists[lists[l].parent].exit += lists[l].exit;
  std::vector<std::uint32_t> next(lists.size(), 0);
  for (std::size_t l = 0; l < lists.size(); ++l) {
    const std::uint32_t size = lists[l].exit;
    if (l > 0) {
      std::uint32_t& place = next[lists[l].parent];
      lists[l].enter = place;
      place += size;
    }
    lists[l].exit = lists[l].enter + size;
    next[l] = lists[l].enter + 1;
  }
  std::vector<std::uint32_t>& first = table_.first_list_of_file_;
  first.assign(index_.files().size() + 1, 0);
  for (std::size_t l = 1; l < lists.size(); ++l) ++first[lists[l].file + 1];
  for (std::size_t f = 1; f < first.size(); ++f) first[f] += first[f - 1];
  table_.lists_of_file_.resize(lists.size() - 1);
  std::vector<std::uint32_t> fill(first.begin(), first.end());
  for (std::uint32_t l = 1; l < lists.size(); ++l) {
    table_.lists_of_file_[fill[lists[l].file]++] = l;
  }
  for (std::size_t f = 0; f + 1 < first.size(); ++f) {
    std::sort(
        table_.lists_of_file_.begin() + first[f], table_.lists_of_file_.begin() + first[f + 1],
        [&lists](std::uint32_t a, std::uint32_t b) { return lists[a].enter < lists[b].enter; });
  }
}

}  // namespace millrace
