#include "common/transport/convert/tuning.h"

#include <algorithm>

#include "common/base/protocol_limits.h"
#include "common/base/utf8.h"

namespace millrace {
namespace {

tune::Outcome OutcomeOf(const std::string& name) {
  for (const tune::Outcome outcome :
       {tune::Outcome::kTrying, tune::Outcome::kKept, tune::Outcome::kUndone}) {
    if (name == tune::OutcomeName(outcome)) return outcome;
  }
  return tune::Outcome::kNotJudged;
}

/// A name as a dispatcher takes it: its beginning, of whole characters of UTF-8.
std::string Name(const std::string& name) {
  std::string beginning = name;
  CutUtf8(beginning, kMaxTuneText);
  return beginning;
}

}  // namespace

void ToProto(std::span<const tune::Setting> settings, const tune::Tuner& tuner, Time now,
             v1::Tuning& to) {
  static_assert(tune::Tuner::kMostDecisions <= kMaxTuneDecisions);
  const auto most = static_cast<std::size_t>(kMaxTuneSettings);
  for (const tune::Setting& setting : settings.first(std::min(settings.size(), most))) {
    v1::TuneSetting& out = *to.add_settings();
    out.set_name(Name(setting.name));
    out.set_value(setting.value);
    out.set_least(setting.least);
    out.set_most(setting.most);
    out.set_pinned(setting.pinned);
  }
  for (const tune::Decision& decision : tuner.decisions()) {
    v1::TuneDecision& out = *to.add_decisions();
    out.set_number(decision.number);
    out.set_age_seconds(ToSeconds(now - decision.at));
    out.set_setting(Name(decision.setting));
    out.set_from(decision.from);
    out.set_to(decision.to);
    out.set_waited_for(decision.waited_for);
    out.set_rate_before(decision.rate_before);
    out.set_waiting_before(decision.waiting_before);
    out.set_rate_after(decision.rate_after);
    out.set_waiting_after(decision.waiting_after);
    out.set_outcome(std::string(tune::OutcomeName(decision.outcome)));
  }
}

std::string TuneLine(const v1::TuneDecision& from) {
  tune::Decision decision;
  decision.setting = from.setting();
  decision.from = from.from();
  decision.to = from.to();
  decision.waited_for = from.waited_for();
  decision.rate_before = from.rate_before();
  decision.waiting_before = from.waiting_before();
  decision.rate_after = from.rate_after();
  decision.waiting_after = from.waiting_after();
  decision.outcome = OutcomeOf(from.outcome());
  return tune::ToLine(decision);
}

}  // namespace millrace
