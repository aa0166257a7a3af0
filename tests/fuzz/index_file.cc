// An index file that may not belong to the dataset beside it. It is opened and verified, and plans
// are compiled over it. Unless byte 0 of an input is odd, checksums and the dataset's digest are
// first made right, so that the checks behind them are reached too.
#include "server/kinds/coq/index/index_format.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "server/kinds/coq/coq_dataset.h"
#include "server/kinds/coq/generator/generator.h"
#include "server/kinds/coq/index/index_builder.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/plan_use.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::fuzz {
namespace {

/// The files are the same each time, so that the corpus fits them.
struct World {
  World() : dir(folder.path() / "data") {
    GeneratorOptions options;
    options.nodes = 300;
    options.files = 2;
    options.definitions = 16;
    options.proof_states = 12;
    options.threads = 1;
    GeneratorReport report;
    RequireOk(GenerateDataset(dir, options, &report), "a generated dataset");
  }
  test::TemporaryFolder folder;
  std::filesystem::path dir;
};

const World& TheWorld() {
  static const World world;
  return world;
}

class Sealer {
 public:
  explicit Sealer(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string Seal() && {
    IndexHeader header{};
    if (bytes_.size() < sizeof(header)) return std::move(bytes_);
    std::memcpy(&header, bytes_.data(), sizeof(header));
    header.file_bytes = bytes_.size();
    const std::size_t most = (bytes_.size() - sizeof(header)) / sizeof(SectionEntry);
    std::vector<SectionEntry> table(std::min<std::size_t>(header.section_count, most));
    if (!table.empty()) {
      std::memcpy(table.data(), bytes_.data() + sizeof(header),
                  table.size() * sizeof(SectionEntry));
    }
    for (SectionEntry& entry : table) {
      if (const auto section = Bytes(entry)) {
        entry.checksum = Xxh3_64(std::as_bytes(std::span(section->data(), section->size())));
      }
    }
    Digest(table, header);
    header.checksum = HeaderChecksum(header, table);
    std::memcpy(bytes_.data(), &header, sizeof(header));
    if (!table.empty()) {
      std::memcpy(bytes_.data() + sizeof(header), table.data(),
                  table.size() * sizeof(SectionEntry));
    }
    return std::move(bytes_);
  }

 private:
  std::optional<std::string_view> Bytes(const SectionEntry& entry) const {
    const std::uint64_t size = bytes_.size();
    if (entry.entry_bytes == 0 || entry.offset > size ||
        entry.count > (size - entry.offset) / entry.entry_bytes) {
      return std::nullopt;
    }
    return std::string_view(bytes_).substr(entry.offset, entry.count * entry.entry_bytes);
  }

  template <class T>
  std::vector<T> Values(const std::vector<SectionEntry>& table, IndexSection wanted) const {
    for (const SectionEntry& entry : table) {
      if (entry.section != wanted || entry.entry_bytes != sizeof(T)) continue;
      const auto section = Bytes(entry);
      if (!section) return {};
      std::vector<T> values(entry.count);
      if (!values.empty()) std::memcpy(values.data(), section->data(), section->size());
      return values;
    }
    return {};
  }

  /// Computes the digest and the number of nodes from the files' records.
  void Digest(const std::vector<SectionEntry>& table, IndexHeader& header) const {
    const auto offsets = Values<std::uint64_t>(table, IndexSection::kStringOffsets);
    const auto text = Values<char>(table, IndexSection::kStringBytes);
    DatasetDigest digest;
    header.nodes = 0;
    for (const FileRecord& file : Values<FileRecord>(table, IndexSection::kFiles)) {
      std::string_view name;
      if (std::uint64_t{file.name} + 1 < offsets.size()) {
        const std::uint64_t begin = offsets[file.name];
        const std::uint64_t end = offsets[file.name + 1];
        if (begin <= end && end <= text.size()) name = {text.data() + begin, end - begin};
      }
      digest.Add(name, file.size, {file.digest_high, file.digest_low});
      header.nodes += file.node_count;
    }
    const Digest128 value = digest.Finish();
    header.dataset_digest_high = value.high;
    header.dataset_digest_low = value.low;
  }

  std::string bytes_;
};

void LookThrough(const DatasetIndex& index) {
  std::size_t bytes = 0;
  for (std::uint32_t f = 0; f <= index.files().size(); ++f) bytes += index.file_name(f).size();
  for (const DefinitionRecord& definition : index.definitions()) {
    bytes += index.string(definition.name).size();
    static_cast<void>(index.definition_table().Find({definition.file, definition.node}));
  }
  for (const TacticRecord& tactic : index.tactics()) bytes += index.string(tactic.base_text).size();
  Require(bytes < 1 << 28, "names lie in the file");
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  const fuzz::World& world = fuzz::TheWorld();
  fuzz::Input in(data, size);
  const bool sealed = in.Byte() % 2 == 0;
  std::string bytes(in.rest());
  if (sealed) bytes = fuzz::Sealer(std::move(bytes)).Seal();
  const std::filesystem::path file = world.folder.path() / "index";
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  const auto index = DatasetIndex::Open(file);
  if (!index.ok()) {
    fuzz::Require(index.status().code() == StatusCode::kDataLoss, "a bad index is DataLoss");
    return 0;
  }
  fuzz::RequireOk((*index)->Verify(), "a small index is verified when it is opened");
  fuzz::LookThrough(**index);
  static_cast<void>(fuzz::UseDataset(std::make_shared<const CoqDataset>(world.dir, *index)));
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  const World& world = TheWorld();
  const std::filesystem::path file = world.folder.path() / "whole";
  RequireOk(BuildIndex(world.dir, file, {.threads = 1}).status(), "an index");
  std::ifstream in(file, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  return {std::string(1, '\0') + bytes, std::string(1, '\1') + bytes};
}
