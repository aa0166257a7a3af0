#include "server/kinds/coq/coq_stages.h"

namespace millrace {

StageType CoqFilterStage();
StageType CoqClosureKeys();
StageType CoqFieldsStage();

std::vector<AddedStage> CoqStages() {
  return {
      {CoqFilterStage(), "shuffle"},
      {CoqClosureKeys(), "edges"},
      {CoqFieldsStage(), "exclude"},
  };
}

}  // namespace millrace
