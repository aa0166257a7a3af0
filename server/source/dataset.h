// A dataset: an open folder of some kind. It has a digest, files that may turn out to be damaged,
// and the sources of its kind (dataset_kind.h), from which plans draw examples.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "server/files/damaged_files.h"
#include "server/files/dataset_files.h"

namespace millrace {

/// A file that the dataset's digest covers.
struct DatasetFile {
  std::string name;  // in the dataset
  std::uint64_t size = 0;
  Digest128 digest;
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Name of the kind.
  virtual std::string_view kind() const = 0;
  virtual const std::filesystem::path& dir() const = 0;
  /// Equal digests mean equal examples, on any host.
  virtual Digest128 digest() const = 0;
  /// How much it holds, for people: examples of the kind's first source, if no plan leaves any out.
  virtual std::uint64_t examples() const = 0;

  virtual std::uint64_t file_count() const = 0;
  virtual std::vector<DatasetFile> Files() const = 0;
  /// Number of files that were left out when the dataset was indexed, and the first `most` of them.
  virtual std::uint64_t left_out_count() const { return 0; }
  virtual std::vector<BadFile> LeftOut(std::size_t /*most*/) const { return {}; }

  /// Checks whether the files in use are still the opened ones, and returns the news since the last
  /// call. Contents that were not compared with their digests when the dataset was opened are
  /// compared meanwhile, some of them at each call. A file that was changed in place stays damaged,
  /// whatever happens to it later. `stop` ends long work early; suspect files then stay suspect.
  /// Call this once a second if you use a dataset for long. Readers never wait for it.
  virtual FileNews CheckFiles(const std::stop_token& stop) const = 0;
  /// The share of its bytes that CheckFiles has still to compare with their digests, 0 to 1.
  virtual double unverified() const { return 0; }
  /// Bytes of copies of its files that are in memory (DatasetOpenOptions::in_memory); 0: it is read
  /// from its files.
  virtual std::uint64_t in_memory_bytes() const { return 0; }
  /// Whether pipelines can go on without some of its files (`exclude.files`).
  virtual bool can_exclude_files() const { return true; }
  /// Files known to be damaged. Data read from such a file are worthless; data read from other
  /// files are right. Cheap if no file is damaged.
  virtual std::vector<DamagedFile> Damages() const = 0;
  /// Whether a file that was damaged when the dataset was opened may be read all the same: each
  /// source then decides by itself whether it can do so, and cannot be made otherwise.
  virtual bool LeavesToSources(std::string_view /*file*/) const { return false; }
};

}  // namespace millrace
