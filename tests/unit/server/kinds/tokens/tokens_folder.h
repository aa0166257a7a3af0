// Small folders of tokens for tests, written by another hand than the code that reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/base/dtype.h"
#include "server/files/npy_header.h"
#include "server/kinds/tokens/index/tokens_index_store.h"
#include "server/kinds/tokens/tokens_dataset.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/recording_logger.h"

namespace millrace::test {

using Tokens = std::vector<std::int64_t>;
using Documents = std::vector<Tokens>;

/// A number in little endian.
inline std::string Little(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

/// Tokens as a file of the type has them.
inline std::string TokenBytes(DType dtype, const Tokens& tokens) {
  std::string bytes;
  for (const std::int64_t token : tokens) {
    bytes += Little(static_cast<std::uint64_t>(token), DTypeSize(dtype));
  }
  return bytes;
}

inline Tokens Joined(const Documents& documents) {
  Tokens all;
  for (const Tokens& document : documents) all.insert(all.end(), document.begin(), document.end());
  return all;
}

inline void WriteBytes(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
/// Writes bytes over those of a file.
inline void WriteOver(const std::filesystem::path& path, std::uint64_t at,
                      const std::string& bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// The code of a type in X.idx.
inline std::uint8_t CodeOfType(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return 1;
    case DType::kInt8:
      return 2;
    case DType::kInt16:
      return 3;
    case DType::kInt32:
      return 4;
    case DType::kInt64:
      return 5;
    default:
      return 8;
  }
}

/// X.idx of these sequences, as Megatron-LM writes it for documents of one sequence each.
inline std::string SequenceIndexBytes(DType dtype, const Documents& sequences) {
  std::string bytes = std::string("MMIDIDX\0\0", 9) + Little(1, 8) + Little(CodeOfType(dtype), 1) +
                      Little(sequences.size(), 8) + Little(sequences.size() + 1, 8);
  std::uint64_t offset = 0;
  for (const Tokens& sequence : sequences) bytes += Little(sequence.size(), 4);
  for (const Tokens& sequence : sequences) {
    bytes += Little(offset, 8);
    offset += sequence.size() * DTypeSize(dtype);
  }
  for (std::size_t i = 0; i <= sequences.size(); ++i) bytes += Little(i, 8);
  return bytes;
}

/// Writes X.bin and X.idx. `stem`: their path without an ending.
inline void WritePair(const std::filesystem::path& stem, DType dtype, const Documents& sequences) {
  WriteBytes(stem.string() + ".bin", TokenBytes(dtype, Joined(sequences)));
  WriteBytes(stem.string() + ".idx", SequenceIndexBytes(dtype, sequences));
}

inline std::string NpyBytes(DType dtype, const Tokens& tokens) {
  return MakeNpyHeader({dtype, {tokens.size()}}) + TokenBytes(dtype, tokens);
}

/// A file of llm.c; `dtype` is uint16 or uint32.
inline std::string LlmcBytes(DType dtype, const Tokens& tokens) {
  const bool wide = dtype == DType::kUint32;
  std::string bytes =
      Little(wide ? 20240801 : 20240520, 4) + Little(wide ? 7 : 1, 4) + Little(tokens.size(), 4);
  bytes.resize(1024, '\0');
  return bytes + TokenBytes(dtype, tokens);
}

/// The index of a folder, and what was done and logged to have it.
struct OpenedTokens {
  Result<std::shared_ptr<const TokensIndex>> index = NotFound("not opened");
  IndexOutcome outcome = {};
  std::shared_ptr<RecordingLogger> logger = std::make_shared<RecordingLogger>();
};

inline OpenedTokens OpenTokens(const std::filesystem::path& dir, DatasetOpenOptions options = {}) {
  OpenedTokens opened;
  options.logger = opened.logger;
  options.threads = 1;
  opened.index = OpenOrBuildTokensIndex(dir, options, opened.outcome);
  return opened;
}

/// The dataset in a folder, which is good.
inline std::shared_ptr<const TokensDataset> MustOpenTokens(const std::filesystem::path& dir,
                                                           DatasetOpenOptions options = {}) {
  OpenedTokens opened = OpenTokens(dir);
  INFO(opened.index.status().message());
  REQUIRE(opened.index.ok());
  options.threads = 2;
  return std::make_shared<const TokensDataset>(dir, *std::move(opened.index), options);
}

}  // namespace millrace::test
