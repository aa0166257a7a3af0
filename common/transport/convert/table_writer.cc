#include "common/transport/convert/table_writer.h"

#include <string>

namespace millrace {
namespace {

using wire_fields::LengthFieldSize;

std::size_t PackedSize(int field, std::size_t bytes) {
  return bytes == 0 ? 0 : LengthFieldSize(field, bytes);
}

}  // namespace

std::size_t TableWriter::ColumnBytes(std::size_t column) const {
  const ColumnSpec& spec = spec_.columns[column];
  const Sizes& sizes = sizes_[column];
  std::size_t bytes =
      LengthFieldSize(v1::TableColumn::kNameFieldNumber, spec.name.size()) +
      LengthFieldSize(v1::TableColumn::kTypeFieldNumber, ColumnTypeName(spec.type).size());
  // All fields of values have numbers below 16, and so tags of one byte.
  bytes += PackedSize(v1::TableColumn::kNumbersFieldNumber, sizes.values);
  return bytes + PackedSize(v1::TableColumn::kTextFieldNumber, sizes.text);
}

std::size_t TableWriter::bytes() const {
  std::size_t bytes = LengthFieldSize(v1::Table::kNameFieldNumber, spec_.name.size());
  if (spec_.rows > 0) bytes += 1 + wire_fields::Out::VarintSize64(spec_.rows);
  for (std::size_t column = 0; column < spec_.columns.size(); ++column) {
    bytes += LengthFieldSize(v1::Table::kColumnsFieldNumber, ColumnBytes(column));
  }
  return bytes;
}

void TableWriter::BeginWriting(google::protobuf::io::CodedOutputStream* out) {
  out_ = out;
  wire_fields::WriteString(v1::Table::kNameFieldNumber, spec_.name, *out_);
  if (spec_.rows == 0) return;
  out_->WriteTag(
      wire_fields::Lite::MakeTag(v1::Table::kRowsFieldNumber, wire_fields::Lite::WIRETYPE_VARINT));
  out_->WriteVarint64(spec_.rows);
}

TableWriter::Sizes TableWriter::BeginColumn() {
  const std::size_t column = column_++;
  const ColumnSpec& spec = spec_.columns[column];
  wire_fields::WriteLengthTag(v1::Table::kColumnsFieldNumber, ColumnBytes(column), *out_);
  wire_fields::WriteString(v1::TableColumn::kNameFieldNumber, spec.name, *out_);
  wire_fields::WriteString(v1::TableColumn::kTypeFieldNumber, ColumnTypeName(spec.type), *out_);
  return sizes_[column];
}

}  // namespace millrace
