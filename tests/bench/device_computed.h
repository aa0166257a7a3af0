// The part of bench_device that measures tensors which a device computes.
#pragma once

#include <cstdint>

#include "client/device/device.h"
#include "common/base/result.h"
#include "tests/bench/device_machine.h"
#include "tests/bench/report.h"

namespace millrace::bench {

/// For each of a few pipelines: the rate of the kernel beside a copy within the device's memory,
/// and the time of a batch beside that of computing it on the host and copying it. Internal if the
/// device's bytes are not the host's.
Status BenchComputed(Machine& machine, Device& device, std::uint32_t rows, std::uint32_t rounds,
                     const Report& report);

}  // namespace millrace::bench
