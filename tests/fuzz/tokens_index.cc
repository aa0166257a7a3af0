// The index of a dataset of tokens, which may not belong to the files beside it. It is opened and
// verified, a source is made over it, and documents are looked for and read. Unless byte 0 of an
// input is odd, size and checksum are first made right, so that the checks behind them are reached
// too. Byte 0 also says whether the files beside it are pairs.
#include "server/kinds/tokens/index/tokens_index.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/base/hash.h"
#include "common/batch/arena.h"
#include "common/batch/batch_writer.h"
#include "server/kinds/tokens/generator/tokens_generator.h"
#include "server/kinds/tokens/index/tokens_index_store.h"
#include "server/kinds/tokens/tokens_dataset.h"
#include "server/kinds/tokens/tokens_source.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::fuzz {
namespace {

constexpr std::size_t kHeaderBytes = 28;
constexpr std::uint64_t kMostRead = 100;  // documents, from either end

/// The files are the same each time, so that the corpus fits them.
struct World {
  World() {
    for (const char* format : {"pairs", "raw"}) {
      GenerateRequest request;
      request.params = Params({{"documents", std::int64_t{50}},
                               {"files", std::int64_t{2}},
                               {"mean", std::int64_t{8}},
                               {"vocab", std::int64_t{100}},
                               {"format", std::string(format)}});
      RequireOk(GenerateTokens(folder.path() / format, request).status(), "generated tokens");
    }
  }
  std::filesystem::path dir(bool pairs) const { return folder.path() / (pairs ? "pairs" : "raw"); }

  test::TemporaryFolder folder;
};

const World& TheWorld() {
  static const World world;
  return world;
}

void Seal(std::string& bytes) {
  if (bytes.size() < kHeaderBytes) return;
  const auto put = [&bytes](std::size_t at, std::uint64_t value) {
    std::memcpy(bytes.data() + at, &value, sizeof(value));
  };
  put(12, bytes.size());
  put(20, Xxh3_64(std::as_bytes(std::span(bytes).subspan(kHeaderBytes))));
}

void CheckFacts(const TokensIndex& index) {
  for (const TokensIndex::Data& data : index.data()) {
    const TokensFile& file = index.files().at(data.file);
    Require(data.sequences.has_value() == index.is_pairs(), "a pair has sequences");
    Require(file.begin <= file.file.size, "tokens begin in their file");
    if (data.sequences) {
      const TokensFile& idx = index.files().at(*data.sequences);
      Require(idx.tokens * DTypeSize(idx.dtype) == file.file.size, "sequences fill their file");
    }
  }
}

void ReadDocuments(const Source& source) {
  BufferPool pool;
  auto writer = BatchWriter::Create(source.tensors(), source.expand(), pool);
  RequireOk(writer.status(), "a writer of tokens");
  const auto reader = source.NewReader();
  for (std::uint64_t i = 0; i < source.examples(); ++i) {
    if (i == kMostRead) i = std::max(i, source.examples() - kMostRead);
    const ExampleId id(i);
    static_cast<void>(source.Describe(id));
    for (std::size_t column = 0; column < source.columns().size(); ++column) {
      std::int64_t value = 0;
      const ColumnValues wanted{column, {&value, 1}};
      source.ReadColumns(id, {&wanted, 1});
      Require(value >= 0, "a column is 0 or more");
    }
    writer->Begin({}, 0, 0, 1);
    if (reader->Append({&id, 1}, *writer).ok()) RequireOk(writer->Seal().status(), "a batch");
  }
  static_cast<void>(source.CheckIntact());
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  fuzz::Input in(data, size);
  const std::uint8_t form = in.Byte();
  const bool pairs = form / 2 % 2 == 0;
  std::string bytes(in.rest());
  if (form % 2 == 0) fuzz::Seal(bytes);
  const auto index = TokensIndex::Decode(std::as_bytes(std::span(bytes)));
  if (!index.ok()) {
    fuzz::Require(index.status().code() == StatusCode::kDataLoss, "a bad index is DataLoss");
    return 0;
  }
  fuzz::CheckFacts(**index);
  const std::filesystem::path dir = fuzz::TheWorld().dir(pairs);
  DatasetOpenOptions options;
  options.threads = 1;
  options.index_file = fuzz::TheWorld().folder.path() / "index";  // where columns would be kept
  const Status verified = VerifyTokens(dir, **index, options);
  fuzz::Require(verified.ok() || verified.code() == StatusCode::kDataLoss,
                "files that differ are DataLoss");
  const auto dataset = std::make_shared<const TokensDataset>(dir, *index, options);
  for (const char* keys : {"{}", R"({"dtype": "uint16"})", R"({"dtype": "uint16", "eos": 99})"}) {
    PlanParts parts;
    parts.Edit<SourcePart>() = {"tokens", ParamTree{keys}, {}};
    const auto source = TokensSources().Make("tokens", dataset, parts);
    if (source.ok()) fuzz::ReadDocuments(**source);
  }
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  std::vector<std::string> seeds;
  for (const bool pairs : {true, false}) {
    const World& world = TheWorld();
    DatasetOpenOptions options;
    options.threads = 1;
    options.index_file = world.folder.path() / (pairs ? "of pairs" : "of raw");
    IndexOutcome outcome;
    RequireOk(OpenOrBuildTokensIndex(world.dir(pairs), options, outcome).status(), "an index");
    std::ifstream in(options.index_file, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    for (const int form : {0, 1}) {
      seeds.push_back(std::string(1, static_cast<char>(form + (pairs ? 0 : 2))) + bytes);
    }
  }
  return seeds;
}
