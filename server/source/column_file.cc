#include "server/source/column_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "server/files/file_io.h"
#include "server/files/number_bytes.h"

namespace millrace {
namespace {

constexpr std::string_view kColumnMagic = "MRCOLUMN";
constexpr std::uint32_t kCountsVersion = 1;  // has no type: its values are counts
constexpr std::uint32_t kTypedVersion = 2;
constexpr std::size_t kMaxName = 1024;
// Magic, version, width, number of values, dataset, operations, length of the name. With a type
// there is a byte more.
constexpr std::size_t kHeader = 8 + 4 + 4 + 8 + 16 + 16 + 4;
constexpr std::size_t kDigest = 16;

std::vector<std::uint8_t> TakeBytes(std::span<const std::byte>& in, std::size_t size) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(in.data());
  in = in.subspan(size);
  return {first, first + size};
}

}  // namespace

std::string ColumnKey::FileName() const {
  return Xxh3(fmt::format("{} {} {}", dataset.ToHex(), operations.ToHex(), name)).ToHex() +
         ".column";
}

std::vector<std::byte> EncodeColumn(const ColumnKey& key, const MeasuredValues& values) {
  std::vector<std::byte> out;
  const bool typed = values.type() != MeasuredType::kCount;
  PutText(out, kColumnMagic);
  PutNumber(out, typed ? kTypedVersion : kCountsVersion);
  PutNumber(out, std::uint32_t{values.width()});
  if (typed) PutNumber(out, static_cast<std::uint8_t>(values.type()));
  PutNumber(out, values.size());
  PutText(out, std::string_view(key.dataset.ToBytes()));
  PutText(out, std::string_view(key.operations.ToBytes()));
  PutNumber(out, static_cast<std::uint32_t>(key.name.size()));
  PutText(out, std::string_view(key.name));
  for (const std::span<const std::uint8_t> array : {values.bytes(), values.present()}) {
    const auto bytes = std::as_bytes(array);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  PutText(out, std::string_view(Xxh3(std::span<const std::byte>(out)).ToBytes()));
  return out;
}

Result<MeasuredValues> DecodeColumn(std::span<const std::byte> bytes, const ColumnKey& key) {
  if (bytes.size() < kHeader + kDigest) {
    return DataLoss(
        fmt::format("a column of {} bytes: expected at least {}", bytes.size(), kHeader + kDigest));
  }
  std::span<const std::byte> in = bytes;
  if (TakeText(in, kColumnMagic.size()) != kColumnMagic)
    return DataLoss("it is no column: other magic bytes");
  const auto version = TakeNumber<std::uint32_t>(in);
  if (version != kCountsVersion && version != kTypedVersion) {
    return DataLoss(fmt::format("a column of version {}: expected {} or {}", version,
                                kCountsVersion, kTypedVersion));
  }
  const auto width = TakeNumber<std::uint32_t>(in);
  auto type = MeasuredType::kCount;
  if (version == kTypedVersion) {
    if (bytes.size() < kHeader + 1 + kDigest) return DataLoss("a column that ends in its header");
    type = static_cast<MeasuredType>(TakeNumber<std::uint8_t>(in));
  }
  const auto size = TakeNumber<std::uint64_t>(in);
  const std::string dataset = TakeText(in, 16);
  const std::string operations = TakeText(in, 16);
  const auto name_size = TakeNumber<std::uint32_t>(in);
  const std::span<const std::byte> content = bytes.first(bytes.size() - kDigest);
  const Digest128 digest = Xxh3(content);
  if (std::memcmp(digest.ToBytes().data(), bytes.last(kDigest).data(), kDigest) != 0) {
    return DataLoss("a column whose bytes do not have its digest");
  }
  if (name_size > kMaxName || name_size > in.size() - kDigest) {
    return DataLoss(fmt::format("a column with a name of {} bytes", name_size));
  }
  const std::string name = TakeText(in, name_size);
  if (dataset != key.dataset.ToBytes() || operations != key.operations.ToBytes() ||
      name != key.name) {
    return DataLoss(fmt::format("the column '{}' of another dataset or pipeline", name));
  }
  in = in.first(in.size() - kDigest);
  const std::size_t bits = type == MeasuredType::kCount ? 0 : (size + 7) / 8;
  if (bits > in.size()) {
    return DataLoss(fmt::format("a column that says {} values and has {} bytes", size, in.size()));
  }
  std::vector<std::uint8_t> of_values = TakeBytes(in, in.size() - bits);
  Result<MeasuredValues> values =
      MeasuredValues::FromBytes(std::move(of_values), width, type, TakeBytes(in, bits));
  if (!values.ok()) return DataLoss(values.status().message());
  if (values->size() != size) {
    return DataLoss(fmt::format("a column that says {} values and has {}", size, values->size()));
  }
  return values;
}

Status WriteColumn(const std::filesystem::path& folder, const ColumnKey& key,
                   const MeasuredValues& values) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return PermissionDenied(
        fmt::format("cannot make the folder {}: {}", folder.string(), error.message()));
  }
  const std::filesystem::path path = folder / key.FileName();
  const std::filesystem::path temporary = folder / fmt::format("{}.{}", key.FileName(), ::getpid());
  return WriteWholeFile(path, temporary, EncodeColumn(key, values));
}

Result<MeasuredValues> ReadColumn(const std::filesystem::path& folder, const ColumnKey& key) {
  const std::filesystem::path path = folder / key.FileName();
  MILLRACE_ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_RDONLY));
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return Unavailable(fmt::format("{}: {}", path.string(), error.message()));
  std::vector<std::byte> bytes(size);
  if (const Status read = ReadAt(file, bytes, 0); !read.ok()) {
    return read.WithContext(path.string());
  }
  Result<MeasuredValues> values = DecodeColumn(bytes, key);
  if (!values.ok()) return values.status().WithContext(path.string());
  return values;
}

}  // namespace millrace
