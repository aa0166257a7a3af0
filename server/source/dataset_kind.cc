#include "server/source/dataset_kind.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace millrace {
namespace {

bool IsKindName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

Result<std::string> DatasetKind::Index(const std::filesystem::path& dir,
                                       const DatasetOpenOptions& options) const {
  return Inspect(dir, options);
}

Result<std::string> DatasetKind::Verify(const std::filesystem::path& dir,
                                        const DatasetOpenOptions& /*options*/) const {
  return FailedPrecondition(
      fmt::format("dataset {} is of kind {}: nothing is known of the contents of its files",
                  dir.string(), name()));
}

Result<DatasetListing> DatasetKind::FilesToWarm(const std::filesystem::path& dir) const {
  const OpenedDataset opened = Open(dir, {});
  if (opened.dataset == nullptr) return opened.status;
  DatasetListing listing;
  for (const DatasetFile& file : opened.dataset->Files()) {
    const auto identity = IdentifyFile(dir / file.name);
    if (!identity.ok()) {
      listing.bad.push_back({file.name, identity.status().message()});
      continue;
    }
    listing.names.push_back(file.name);
    listing.identities.push_back(*identity);
  }
  return listing;
}

Result<DatasetListing> DatasetKind::ArraysToWarm(const std::filesystem::path& dir,
                                                 const std::vector<std::string>& /*arrays*/) const {
  return InvalidArgument(
      fmt::format("dataset {} is of kind {}, which has no arrays: expected a "
                  "graph dataset",
                  dir.string(), name()));
}

Result<std::string> DatasetKind::Generate(const std::filesystem::path& /*dir*/,
                                          const GenerateRequest& /*request*/) const {
  return Unimplemented(fmt::format("datasets of kind {} cannot be made up", name()));
}

DatasetKinds DatasetKinds::With(std::shared_ptr<const DatasetKind> kind) const {
  DatasetKinds kinds = *this;
  kinds.kinds_.insert(kinds.kinds_.begin(), std::move(kind));
  return kinds;
}

DatasetKinds DatasetKinds::Replacing(std::shared_ptr<const DatasetKind> kind) const {
  DatasetKinds kinds = *this;
  for (auto& known : kinds.kinds_) {
    if (known->name() == kind->name()) known = kind;
  }
  return kinds;
}

Result<std::shared_ptr<const DatasetKind>> DatasetKinds::Named(std::string_view name) const {
  std::string known;
  for (const auto& kind : kinds_) {
    if (kind->name() == name) return kind;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", kind->name());
  }
  return InvalidArgument(
      fmt::format("there is no kind of dataset '{}': expected one of {}", name, known));
}

Result<std::shared_ptr<const DatasetKind>> DatasetKinds::Find(const std::filesystem::path& dir,
                                                              std::string_view told) const {
  if (!told.empty()) return Named(told);
  MILLRACE_RETURN_IF_ERROR(CheckFolder(dir));
  std::string looked_for;
  for (const auto& kind : kinds_) {
    if (kind->IsOne(dir)) return kind;
    looked_for += fmt::format("{}no {} ({})", looked_for.empty() ? "" : ", ", kind->looks_for(),
                              kind->name());
  }
  return InvalidArgument(fmt::format("{} holds no dataset: {}; give the folder of a dataset",
                                     dir.string(), looked_for));
}

DatasetPlace ParseDatasetPlace(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || !IsKindName(text.substr(0, colon))) {
    return {.kind = "", .dir = text};
  }
  return {.kind = std::string(text.substr(0, colon)), .dir = text.substr(colon + 1)};
}

std::string FormatDatasetPlace(const DatasetPlace& place) {
  if (place.kind.empty()) return place.dir.string();
  return place.kind + ":" + place.dir.string();
}

}  // namespace millrace
