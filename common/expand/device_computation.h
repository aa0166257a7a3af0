// How a device and its host share the computed tensors of a delivery. The device makes tensors
// whose operations it can do (device_form.h) from the payload that it has anyway. The host makes
// the others, and their bytes are copied.
//
// Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/batch.h"
#include "common/expand/computation.h"
#include "common/expand/compute_program.h"
#include "common/expand/compute_steps.h"
#include "common/expand/expand.h"

namespace millrace {

class DeviceComputation {
 public:
  explicit DeviceComputation(const internal::Computation& all);

  /// The constants of the device's programs.
  std::span<const std::byte> constants() const { return steps_.constants; }
  /// The names of the outputs that the host makes.
  std::vector<std::string> host_outputs() const;
  /// The phases that take time when the host makes its tensors, as Program::phases. The whole
  /// computation has other phases, because its program fuses other operations.
  const std::vector<std::string>& host_phases() const { return host_.computation->phases(); }

  /// The device's work for a batch. Errors as for LayOutExpanded.
  Result<ComputeProgram> ProgramFor(const PackedBatch& packed, const ExpandLayout& layout) const;

  /// Bytes of one or several of the host's tensors that are side by side in the delivered batch.
  struct Run {
    std::uint64_t from = 0;  // in the host's memory
    std::uint64_t to = 0;    // and in the delivered batch
    std::uint64_t bytes = 0;
  };
  std::vector<Run> HostRuns(const ExpandLayout& layout) const;
  /// Computes the host's tensors with their padding. `out` is as long as all runs together. The
  /// layout's observer is notified of host_phases().
  Status ComputeOnHost(const PackedBatch& packed, const ExpandLayout& layout,
                       std::span<std::byte> out) const;

 private:
  /// A subset of the computation, and the number of each of its tensors among all computed ones.
  struct Subset {
    std::shared_ptr<const internal::Computation> computation;
    std::vector<std::size_t> numbers;
  };
  static Subset SubsetOf(const internal::Computation& all, bool on_device);

  Subset device_;
  Subset host_;
  ComputeSteps steps_;
};

}  // namespace millrace
