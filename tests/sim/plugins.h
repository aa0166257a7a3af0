// The plugins of a simulated history: they fail for some examples.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "tests/sim/history.h"

namespace millrace::sim {

/// How a worker refuses a batch with an example that the code of a user cannot build.
Status FailureOfCode(std::uint64_t example);

/// The lines of a job's pipeline that say which examples its plugin cannot build; none without one.
std::string PluginLines(const JobSetup& setup);

}  // namespace millrace::sim
