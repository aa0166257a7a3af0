#include "server/plan/packed/packed_documents.h"

#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include "server/source/order.h"

namespace millrace {
namespace {

/// Number of examples whose lengths are read at once if some of them are not selected.
constexpr std::uint64_t kExamplesAtOnce = 4096;
/// Examples are read one by one if fewer than one of so many is selected.
constexpr std::uint64_t kSparse = 8;

}  // namespace

void PackedDocuments::ReadColumn(std::uint64_t first, std::span<std::uint64_t> lengths) const {
  // Signed and unsigned integers may be read as each other.
  auto* const values = reinterpret_cast<std::int64_t*>(lengths.data());
  const ColumnValues wanted{column_, {values, lengths.size()}};
  source_->ReadColumns(ExampleId(first), {&wanted, 1});
}

std::uint64_t PackedDocuments::LengthOf(std::uint64_t value, ExampleId example) const {
  if (value > kMaxOrderValue) {
    wrong_ = example.value();
    return 0;
  }
  return value == 0 ? 0 : value + added_;
}

void PackedDocuments::Read(std::uint64_t first, std::span<std::uint64_t> lengths) const {
  if (lengths.empty()) return;
  const bool all = selection_->size() == selection_->counts().source_examples;
  if (sorted_ && all) {
    ReadColumn(first, lengths);
    for (std::uint64_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = LengthOf(lengths[i], ExampleId(first + i));
    }
    return;
  }
  const std::uint64_t range =
      sorted_ ? At(first + lengths.size() - 1).value() - At(first).value() + 1 : kNone;
  if (range / kSparse < lengths.size()) return ReadSelected(first, lengths);
  for (std::uint64_t i = 0; i < lengths.size(); ++i) {
    const ExampleId example = At(first + i);
    lengths[i] = LengthOf(OwnLengthOf(example), example);
  }
}

void PackedDocuments::ReadSelected(std::uint64_t first, std::span<std::uint64_t> lengths) const {
  std::uint64_t next = At(first).value();
  const std::uint64_t end = At(first + lengths.size() - 1).value() + 1;
  std::vector<std::uint64_t> read;
  std::size_t done = 0;
  while (next < end) {
    read.resize(std::min(kExamplesAtOnce, end - next));
    ReadColumn(next, read);
    for (const std::uint64_t value : read) {
      const ExampleId example(next++);
      if (selection_->Has(example)) lengths[done++] = LengthOf(value, example);
    }
  }
}

std::uint64_t PackedDocuments::OwnLengthOf(ExampleId example) const {
  std::uint64_t length = 0;
  ReadColumn(example.value(), {&length, 1});
  return length;
}

std::optional<std::uint64_t> PackedDocuments::DocumentOf(ExampleId example) const {
  const std::optional<std::uint64_t> rank = selection_->RankOf(example);
  if (!rank) return std::nullopt;
  return order_.Inverse(*rank);
}

Status PackedDocuments::CheckLengths() const {
  const std::uint64_t wrong = wrong_;
  if (wrong == kNone) return OkStatus();
  return InvalidArgument(fmt::format(
      "pack.tensor: expected lengths from 0 to {}, got {} for example {} in the column {}",
      kMaxOrderValue, static_cast<std::int64_t>(OwnLengthOf(ExampleId(wrong))), wrong,
      source_->columns()[column_].name));
}

}  // namespace millrace
