// A digest of the functions of common/math over many inputs. The build compiles recorded.cc several
// times with different options; all digests have to be equal.
#pragma once

#include "common/base/ids.h"

namespace millrace::test {

Digest128 DigestWithoutOptimisation();
Digest128 DigestOptimised();
/// With instructions that multiply and add at once. REQUIRES: the processor has x86-64-v3.
Digest128 DigestForNewerProcessors();

}  // namespace millrace::test
