#include "server/kinds/coq/coq_names.h"

#include <array>
#include <span>

#include "common/base/hash.h"

namespace millrace {
namespace {

template <class T>
void Hash(const T& value, Xxh3Stream& stream) {
  stream.Update(std::as_bytes(std::span(&value, 1)));
}

/// The label of a file's first definition; those of its others follow.
std::uint32_t FirstLabel(const FileRecord& file, const CoqTables& tables) {
  return kNodeClasses + (tables.labels.spine_only() ? file.spine.first : file.definitions.first);
}

}  // namespace

CoqNames::CoqNames(const CoqTables& tables) {
  const DatasetIndex& index = tables.index();
  files_.resize(index.files().size());
  for (std::uint32_t number = 0; number < files_.size(); ++number) {
    const FileRecord& file = index.files()[number];
    const std::string_view name = index.file_name(number);
    Xxh3Stream stream;
    Hash(name.size(), stream);
    stream.Update(std::as_bytes(std::span(name)));
    Hash(std::array{file.digest_high, file.digest_low}, stream);
    Hash(FirstLabel(file, tables), stream);
    Hash(static_cast<std::uint32_t>(tables.excluded[number]), stream);
    for (const std::uint32_t other : Sub(index.dependency_files(), file.dependencies)) {
      if (other == number) continue;
      // Files come in topological order. If the index says otherwise, only the dataset as a whole
      // is known.
      const Digest128 digest = other < number ? files_[other] : index.digest();
      Hash(std::array{digest.high, digest.low}, stream);
    }
    files_[number] = stream.Finish();
  }
}

Digest128 CoqNames::Of(const Place& place) const {
  const Digest128& file = files_[place.file];
  const std::array<std::uint64_t, 5> words = {
      file.high,
      file.low,
      std::uint64_t{place.node} << 32 | place.step,
      std::uint64_t{place.outcome} << 32 | place.tactic,
      place.context,
  };
  return Xxh3(std::as_bytes(std::span(words)));
}

}  // namespace millrace
