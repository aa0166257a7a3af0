#include "server/kinds/graph/writer/graph_sealer.h"

#include <span>
#include <string_view>
#include <system_error>

#include <fcntl.h>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/base/quoted.h"
#include "common/system/errno_status.h"
#include "server/files/file_io.h"
#include "server/files/mapped_file.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/format/graph_json.h"
#include "server/kinds/graph/format/numbers_check.h"
#include "server/kinds/graph/format/safetensors_header.h"

namespace millrace {
namespace {

Result<StoredArray> FromNpy(std::span<const std::byte> bytes, const ArrayFile& file) {
  MILLRACE_ASSIGN_OR_RETURN(StoredArray stored, ReadNpyHeader(bytes));
  if (!file.type || *file.type == stored.type) return stored;
  if (stored.type != ArrayType{NpyDType(file.type->dtype), file.type->shape}) {
    return InvalidArgument(fmt::format("its header says {}, expected {}", stored.type.ToString(),
                                       file.type->ToString()));
  }
  stored.type = *file.type;
  return stored;
}

Result<StoredArray> FromSafetensors(std::span<const std::byte> bytes, const ArrayFile& file) {
  MILLRACE_ASSIGN_OR_RETURN(auto tensors, ReadSafetensorsHeader(bytes));
  const auto found = tensors.find(file.tensor);
  if (found != tensors.end()) return std::move(found->second);
  std::string names;
  for (const auto& entry : tensors) names += (names.empty() ? "" : ", ") + Quoted(entry.first);
  return NotFound(fmt::format("has no tensor {}; it has {}", Quoted(file.tensor), names));
}

Result<StoredArray> Stored(std::span<const std::byte> bytes, const ArrayFile& file) {
  if (!file.tensor.empty()) return FromSafetensors(bytes, file);
  if (file.path.ends_with(".npy") || file.path.ends_with(".npz")) return FromNpy(bytes, file);
  if (!file.type) {
    return InvalidArgument(
        "is neither a .npy file nor a tensor of a safetensors file: say dtype and "
        "shape");
  }
  return StoredArray{*file.type, file.offset};
}

}  // namespace

Result<StoredArray> FindArray(const std::filesystem::path& dir, const ArrayFile& file) {
  MILLRACE_ASSIGN_OR_RETURN(const MappedFile mapped,
                            MappedFile::Open(dir / file.path, AccessPattern::kSequential));
  Result<StoredArray> stored = Stored(mapped.bytes(), file);
  MILLRACE_RETURN_IF_ERROR(mapped.CheckIntact());
  return stored;
}

Status GraphSealer::Add(const std::string& name, const ArrayFile& file) {
  const std::string where = fmt::format("{} (array {})", file.path, name);
  Result<MappedFile> mapped = MappedFile::Open(dir_ / file.path, AccessPattern::kSequential);
  if (!mapped.ok()) return mapped.status().WithContext(where);
  const Result<StoredArray> stored = Stored(mapped->bytes(), file);
  if (!stored.ok()) return stored.status().WithContext(where);
  auto known = files_.find(file.path);
  if (known == files_.end()) {
    known = files_.emplace(file.path, Known{mapped->bytes().size(), Xxh3(mapped->bytes())}).first;
  }
  MILLRACE_RETURN_IF_ERROR(mapped->CheckIntact().WithContext(where));
  AddWritten(name, {.path = file.path,
                    .type = stored->type,
                    .offset = stored->offset,
                    .bytes = known->second.bytes,
                    .xxh3 = known->second.xxh3});
  return OkStatus();
}

void GraphSealer::AddWritten(const std::string& name, ArrayRecord record) {
  description_.arrays.insert_or_assign(name, std::move(record));
}

Result<Digest128> GraphSealer::Seal(SealCheck check) {
  const std::string where = "dataset " + dir_.string();
  MILLRACE_RETURN_IF_ERROR(CheckDescription(description_).WithContext(where));
  const std::filesystem::path file = dir_ / kGraphFileName;
  const std::filesystem::path partial = file.string() + ".partial";
  {
    const std::string text = WriteGraphJson(description_);
    MILLRACE_ASSIGN_OR_RETURN(const FileDescriptor opened, ReplaceFile(partial, Readers::kUmask));
    MILLRACE_RETURN_IF_ERROR(
        WriteAt(opened, std::as_bytes(std::span(text)), 0).WithContext(partial.string()));
    MILLRACE_RETURN_IF_ERROR(SyncFile(opened).WithContext(partial.string()));
  }
  std::error_code error;
  std::filesystem::rename(partial, file, error);
  if (error) return ErrnoStatus(file.string() + " cannot be written", error.value());
  const auto opened = GraphDataset::Open(dir_);
  Status status = opened.status();
  if (status.ok() && check == SealCheck::kNumbers) status = CheckNumbers(**opened, {});
  if (!status.ok()) {
    std::filesystem::remove(file, error);
    return status;
  }
  MILLRACE_RETURN_IF_ERROR(SyncFolder(dir_));
  return (*opened)->digest();
}

}  // namespace millrace
