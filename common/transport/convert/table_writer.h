// Writes one named table in serialized form (v1::Table), column by column, directly from its
// values' memory. No message is made in between, which could hold a string for every definition of
// a large dataset.
//
// A table is written twice: first into a writer that only measures, then into the same writer after
// BeginWriting. REQUIRES: both times give the same values, and every column of the spec, in order.
//
// Not thread-safe.
#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/tables.h"
#include "common/transport/convert/wire_fields.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

class TableWriter {
 public:
  explicit TableWriter(const TableSpec& spec) : spec_(spec) {}

  // Each writes a column. `each(visit)` calls visit for every row's value: a std::uint64_t, a
  // std::int64_t or a std::string_view. It may be called more than once.
  template <class Each>
  void Unsigned(const Each& each) {
    Packed(v1::TableColumn::kNumbersFieldNumber, each);
  }
  template <class Each>
  void Signed(const Each& each) {
    Packed(v1::TableColumn::kSignedNumbersFieldNumber, [&each](const auto& visit) {
      each([&visit](std::int64_t value) { visit(wire_fields::ZigZag(value)); });
    });
  }
  template <class Each>
  void Texts(const Each& each) {
    const auto lengths = [&each](const auto& visit) {
      each([&visit](std::string_view text) { visit(std::uint64_t{text.size()}); });
    };
    if (out_ == nullptr) {
      Sizes sizes;
      each([&sizes](std::string_view text) {
        sizes.values += wire_fields::Out::VarintSize64(text.size());
        sizes.text += text.size();
      });
      return Measured(sizes);
    }
    const Sizes sizes = BeginColumn();
    WritePacked(v1::TableColumn::kLengthsFieldNumber, sizes.values, lengths);
    if (sizes.text == 0) return;
    wire_fields::WriteLengthTag(v1::TableColumn::kTextFieldNumber, sizes.text, *out_);
    each([this](std::string_view text) {
      if (!text.empty()) out_->WriteRaw(text.data(), static_cast<int>(text.size()));
    });
  }

  /// The bytes of the table, once all columns have been measured.
  std::size_t bytes() const;
  /// Writes the beginning of the table. The columns go to `out` from now on.
  void BeginWriting(google::protobuf::io::CodedOutputStream* out);

 private:
  struct Sizes {
    std::size_t values = 0;  // varints of numbers, or of the lengths of texts
    std::size_t text = 0;    // all texts
  };

  template <class Each>
  void Packed(int field, const Each& each) {
    if (out_ == nullptr) return Measured({wire_fields::PackedBytes(each), 0});
    WritePacked(field, BeginColumn().values, each);
  }
  template <class Each>
  void WritePacked(int field, std::size_t bytes, const Each& each) {
    if (bytes == 0) return;
    wire_fields::WriteLengthTag(field, bytes, *out_);
    each([this](std::uint64_t value) { out_->WriteVarint64(value); });
  }
  void Measured(Sizes sizes) { sizes_.push_back(sizes); }
  /// Writes everything of the next column except its values.
  Sizes BeginColumn();
  std::size_t ColumnBytes(std::size_t column) const;

  const TableSpec& spec_;
  std::vector<Sizes> sizes_;                                // by column
  std::size_t column_ = 0;                                  // the next one to be written
  google::protobuf::io::CodedOutputStream* out_ = nullptr;  // null while the table is measured
};

}  // namespace millrace
