#include "server/dispatcher/machine/branch_progress.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/epoch/mix_shares.h"

namespace millrace {

void AddBranches(const v1::Spec& spec, Position next, v1::JobStatus& out) {
  if (spec.branches().empty()) return;
  std::vector<std::uint64_t> weights;
  for (const v1::Branch& branch : spec.branches()) weights.push_back(branch.weight());
  const std::vector<std::uint64_t> read = MixShares(weights).Of(next.example);
  for (std::size_t i = 0; i < read.size(); ++i) {
    const v1::Branch& branch = spec.branches(static_cast<int>(i));
    v1::BranchStatus& status = *out.add_branches();
    status.set_name(branch.name());
    status.set_dataset(branch.dataset());
    status.set_examples(read[i]);
    // Epochs times rows can be beyond 64 bits.
    const double earlier =
        static_cast<double>(next.epoch) * static_cast<double>(branch.rows_per_epoch());
    status.set_passes((earlier + static_cast<double>(read[i])) /
                      static_cast<double>(branch.examples()));
  }
}

}  // namespace millrace
