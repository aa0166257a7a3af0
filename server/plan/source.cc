// source: what an example is. The kinds of datasets bring the values.

#include <string>
#include <vector>

#include <fmt/core.h>

#include "common/parameters/make_parameter.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {

StageType SourceStage() {
  StageType stage;
  stage.name = "source";
  stage.place = StagePlace::kPlan;
  stage.help = "what an example is";
  stage.scalar = true;
  stage.parameters = {Required(NonEmptyTextParameter("source", ""))};
  stage.check = [](const Params& params) {
    const std::string& chosen = params.GetText("source");
    if (!params.values().contains(chosen) || params.is_set(chosen)) return OkStatus();
    return InvalidArgument(fmt::format("{0} needs a value: write source: {{{0}: …}}", chosen));
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    SourcePart& source = parts.Edit<SourcePart>();
    source.name = params.GetText("source");
    for (const auto& [name, value] : params.values()) {
      if (name == source.name) source.argument = value;
      const bool given = !std::holds_alternative<std::monostate>(value);
      if (given && name != "source" && name != source.name) source.options.emplace(name, value);
    }
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
