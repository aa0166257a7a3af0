// The stages and keys that Coq's sources add to pipelines. Each is one file here, and one line in
// coq_stages.cc.
#pragma once

#include <vector>

#include "server/source/stage.h"

namespace millrace {

std::vector<AddedStage> CoqStages();

}  // namespace millrace
