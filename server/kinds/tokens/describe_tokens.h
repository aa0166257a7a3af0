// The text that `millrace inspect` prints of a dataset of tokens.
//
// Free functions; thread-safe.
#pragma once

#include <memory>
#include <string>

#include "server/kinds/tokens/tokens_dataset.h"

namespace millrace {

/// Counts, lengths of sequences, and files.
std::string DescribeTokens(const std::shared_ptr<const TokensDataset>& dataset);

/// A `source:` for a pipeline over the dataset. What raw files do not say is guessed from a few of
/// their tokens, and marked as a guess.
std::string SuggestTokensSource(const TokensDataset& dataset);

}  // namespace millrace
