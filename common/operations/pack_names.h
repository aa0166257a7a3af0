// Names of the tensors of packed rows (docs/reference/tensors.md).
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace millrace {

/// Lengths of a row's pieces; the source has them.
inline constexpr std::string_view kPackLengths = "pack.lengths";
/// The id of each piece's document, and where in the document the piece begins.
inline constexpr std::string_view kPackDocuments = "pack.documents";
inline constexpr std::string_view kPackBegins = "pack.begins";
/// The document's element behind each piece, or kNoLabel. The source has it for pack.label alone,
/// and nobody else sees it.
inline constexpr std::string_view kPackNext = "pack.next";

// Computed from those, by operations of the same names.
inline constexpr std::string_view kPackPosition = "pack.position";
inline constexpr std::string_view kPackSegment = "pack.segment";
inline constexpr std::string_view kPackLabel = "pack.label";
inline constexpr std::string_view kPackSeqlens = "pack.cu_seqlens";

/// The label of an element without a next one.
inline constexpr int kNoLabel = -100;
/// The rows of pack.cu_seqlens: it has one number more than the batch has pieces. It is delivered
/// as splits are, which have no rows of examples either, though it cuts no tensor of the batch.
inline constexpr std::string_view kPackSeqlensRows = "pieces+1";

/// Whether a tensor has an element for each piece of a row.
inline bool IsOfPieces(std::string_view tensor) {
  constexpr std::array kAll = {kPackLengths, kPackDocuments, kPackBegins, kPackNext};
  return std::find(kAll.begin(), kAll.end(), tensor) != kAll.end();
}

}  // namespace millrace
