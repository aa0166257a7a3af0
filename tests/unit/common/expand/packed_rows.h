// Rows that `pack` would make of documents, as a source has them, and a plain model of the tensors
// that follow from them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/batch/batch_writer.h"
#include "common/operations/pack_names.h"

namespace millrace::test {

using Numbers = std::vector<std::int64_t>;

/// A piece of a document.
struct RowPiece {
  std::int64_t document = 0;
  std::int64_t begin = 0;
  Numbers elements;
  std::int64_t next = kNoLabel;
};
using PackedRow = std::vector<RowPiece>;

/// Which tensors of pieces the source has besides pack.lengths, and which types.
struct PackedRowsForm {
  bool documents = false;
  bool begins = false;
  bool next = false;
  DType elements = DType::kUint16;
  DType lengths = DType::kUint32;
};

/// The tensors: `tokens`, `mask` (a byte for each token), and those of pieces. `tokens` are number
/// 0, `mask` 2, pack.lengths 4, and then those of the form, each followed by its splits.
inline std::vector<TensorSpec> PackedRowsTensors(const PackedRowsForm& form) {
  std::vector<TensorSpec> tensors;
  const auto add = [&](std::string name, DType dtype, Expansion expansion) {
    TensorSpec values;
    values.path = values.dimension = name;
    values.kind = TensorKind::kRaggedValues;
    values.dtype = dtype;
    values.min = DTypeMin(dtype);
    values.max = DTypeMax(dtype);
    values.splits = name + "_splits";
    values.expansion = expansion;
    TensorSpec splits;
    splits.path = values.splits;
    splits.kind = TensorKind::kSplits;
    splits.dtype = DType::kUint32;
    splits.dimension = "batch+1";
    splits.max = DTypeMax(DType::kUint32);
    tensors.push_back(std::move(values));
    tensors.push_back(std::move(splits));
  };
  add("tokens", form.elements, Expansion::kWiden);
  add("mask", DType::kUint8, Expansion::kKeep);
  add(std::string(kPackLengths), form.lengths, Expansion::kWiden);
  if (form.documents) add(std::string(kPackDocuments), DType::kInt64, Expansion::kKeep);
  if (form.begins) add(std::string(kPackBegins), DType::kInt64, Expansion::kKeep);
  if (form.next) add(std::string(kPackNext), DType::kInt64, Expansion::kKeep);
  return tensors;
}

/// The byte of a token's mask.
inline std::int64_t MaskOf(std::int64_t token) { return token * 7 % 5; }

/// Appends rows to a writer of these tensors, which has begun a batch.
inline void AppendPackedRows(const PackedRowsForm& form, const std::vector<PackedRow>& rows,
                             BatchWriter& writer) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const RowPiece& piece : rows[i]) {
      for (const std::int64_t element : piece.elements) {
        writer.AppendOne(0, element);
        writer.AppendOne(2, MaskOf(element));
      }
      writer.AppendOne(4, std::ssize(piece.elements));
      std::size_t tensor = 6;
      const auto append = [&](bool has, std::int64_t value) {
        if (!has) return;
        writer.AppendOne(tensor, value);
        tensor += 2;
      };
      append(form.documents, piece.document);
      append(form.begins, piece.begin);
      append(form.next, piece.next);
    }
    writer.EndExample(ExampleId(i));
  }
}

inline std::shared_ptr<const PackedBatch> PackedRowsBatch(const PackedRowsForm& form,
                                                          const std::vector<PackedRow>& rows,
                                                          BufferPool& pool) {
  auto writer = BatchWriter::Create(PackedRowsTensors(form), {}, pool).value();
  writer.Begin({}, 3, 64, static_cast<std::uint32_t>(rows.size()));
  AppendPackedRows(form, rows, writer);
  return writer.Seal().value();
}

/// The tensors of rows, by the words of their definitions.
struct RowsModel {
  Numbers tokens, position, segment, label;
  Numbers splits = {0};
  Numbers ends = {0};  // pack.cu_seqlens

  /// `padded_to`: the extent of rows; 0: they are not padded.
  explicit RowsModel(std::span<const PackedRow> rows, std::int64_t padded_to = 0) {
    for (const PackedRow& row : rows) {
      const std::int64_t begin = ends.back();
      for (std::size_t k = 0; k < row.size(); ++k) {
        const Numbers& elements = row[k].elements;
        for (std::size_t i = 0; i < elements.size(); ++i) {
          tokens.push_back(elements[i]);
          position.push_back(static_cast<std::int64_t>(i));
          segment.push_back(static_cast<std::int64_t>(k + 1));
          label.push_back(i + 1 < elements.size() ? elements[i + 1] : row[k].next);
        }
        ends.push_back(ends.back() + std::ssize(elements));
      }
      if (padded_to > ends.back() - begin) {
        const auto missing = static_cast<std::size_t>(begin + padded_to - ends.back());
        for (Numbers* const filled : {&tokens, &position, &segment}) {
          filled->insert(filled->end(), missing, 0);
        }
        label.insert(label.end(), missing, kNoLabel);
        ends.push_back(begin + padded_to);
      }
      splits.push_back(std::ssize(tokens));
    }
  }
};

}  // namespace millrace::test
