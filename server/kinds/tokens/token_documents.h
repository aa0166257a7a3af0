// The documents of a source of tokens, numbered through all files: sequences of X.idx, whole files,
// or what a token cuts.
//
// Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/result.h"
#include "server/kinds/tokens/marked_documents.h"
#include "server/kinds/tokens/tokens_dataset.h"

namespace millrace {

class TokenDocuments {
 public:
  virtual ~TokenDocuments() = default;

  virtual std::uint64_t size() const = 0;
  /// Tokens of the longest document.
  virtual std::uint64_t longest() const = 0;
  /// The number of the first document of a file, or, for the number of files, size().
  virtual std::uint64_t FirstOf(std::size_t data) const = 0;
  /// The number of a document's file. REQUIRES: document < size().
  virtual std::uint32_t FileOf(std::uint64_t document) const = 0;
  /// DataLoss if what an X.idx says cannot be so, which is noted as its damage. What is returned
  /// lies in the file. REQUIRES: document < size().
  virtual Result<DocumentPlace> Find(std::uint64_t document) const = 0;
  /// The lengths of consecutive documents; 0 where an X.idx is damaged, which is noted. REQUIRES:
  /// they exist.
  virtual void ReadLengths(std::uint64_t first, std::span<std::int64_t> lengths) const = 0;
};

/// The sequences of a dataset of pairs, whose X.idx are opened now. Errors of opening them.
Result<std::shared_ptr<const TokenDocuments>> SequencesOf(
    std::shared_ptr<const TokensDataset> dataset);

/// Every file that has a token is a document.
std::shared_ptr<const TokenDocuments> WholeFiles(const RawLayout& layout);

/// The documents that a token cuts.
std::shared_ptr<const TokenDocuments> MarkedOnes(std::shared_ptr<const MarkedDocuments> marked);

}  // namespace millrace
