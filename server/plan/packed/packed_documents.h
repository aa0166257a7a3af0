// The documents of a plan in pack order: which examples they are, and their lengths.
//
// Immutable, except for the note of a wrong length; thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/plan/order/selection.h"
#include "server/plan/pack/document_lengths.h"
#include "server/source/keyed_order.h"
#include "server/source/source.h"

namespace millrace {

class PackedDocuments final : public DocumentLengths {
 public:
  /// Documents are the examples that `selection` has of `source`. `column`: their lengths. `added`:
  /// elements that are put before and after each document that has any. `seed`: of pack order;
  /// nullopt: documents lie as the examples do.
  PackedDocuments(std::shared_ptr<const Source> source, std::shared_ptr<const Selection> selection,
                  std::size_t column, std::uint64_t added, const OrderSeed& seed)
      : source_(std::move(source)),
        selection_(std::move(selection)),
        column_(column),
        added_(added),
        sorted_(!seed),
        order_(DeriveSeed(seed, "pack", 0), 0, selection_->size()) {}

  const Source& source() const { return *source_; }
  const Selection& selection() const { return *selection_; }
  std::size_t column() const { return column_; }

  std::uint64_t documents() const override { return selection_->size(); }
  /// A length that cannot be is noted, and counts as 0.
  void Read(std::uint64_t first, std::span<std::uint64_t> lengths) const override;
  /// The length of one document, without what is added.
  std::uint64_t OwnLengthOf(ExampleId example) const;

  /// REQUIRES: document < documents().
  ExampleId At(std::uint64_t document) const { return selection_->At(order_(document)); }
  /// nullopt if the example is not selected.
  std::optional<std::uint64_t> DocumentOf(ExampleId example) const;

  /// InvalidArgument, beginning with "pack.tensor", if a length that was read cannot be.
  Status CheckLengths() const;

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// Reads the lengths of consecutive examples as the column has them.
  void ReadColumn(std::uint64_t first, std::span<std::uint64_t> lengths) const;
  /// Reads the lengths of documents that lie as the examples do, not all of which are selected.
  void ReadSelected(std::uint64_t first, std::span<std::uint64_t> lengths) const;
  /// The length with what is added, of an example with this value in the column.
  std::uint64_t LengthOf(std::uint64_t value, ExampleId example) const;

  const std::shared_ptr<const Source> source_;
  const std::shared_ptr<const Selection> selection_;
  const std::size_t column_;
  const std::uint64_t added_;
  const bool sorted_;  // documents lie as the examples do
  const KeyedOrder order_;
  mutable std::atomic<std::uint64_t> wrong_{kNone};  // an example whose length cannot be
};

}  // namespace millrace
