// What a plan keeps for every form of order, whatever its numbers: each example once an epoch, as
// many units in every epoch, the budget, the inverse, and resuming at any unit on any world size.

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "common/base/ids.h"
#include "common/batch/batch.h"
#include "common/epoch/cursor.h"
#include "server/plan/plan.h"
#include "tests/unit/server/plan/number_plans.h"

namespace millrace::test {
namespace {

using Examples = std::vector<ExampleId>;

constexpr std::uint64_t kMostExamples = 12;  // of a batch of a given size

std::uint64_t AnyFrom(std::uint64_t first, std::uint64_t last) {
  return *rc::gen::inRange<std::uint64_t>(first, last + 1);
}

std::string AnyShuffle(bool blocks) {
  const std::uint64_t kind = AnyFrom(0, blocks ? 3 : 1);
  const std::uint64_t seed = AnyFrom(0, 1000);
  if (kind == 0) return "";
  if (kind == 1) return fmt::format("shuffle: {{seed: {}}}\n", seed);
  return fmt::format("shuffle: {{seed: {}, block: {}, window: {}}}\n", seed, AnyFrom(1, 30),
                     AnyFrom(1, 5));
}

/// The keys of a form of order, and what its batches have to keep.
struct AnyForm {
  std::string text;
  bool keep = true;            // remainder: keep
  std::uint64_t global = 0;    // examples of a step; 0: each rank's batch has a size of its own
  std::uint64_t budget = 0;    // of a batch; 0: none
  bool drops_above = false;    // whether examples may be above all buckets
  bool drops_classes = false;  // whether the last batch of each class may be cut
};

AnyForm AnyBatches() {
  AnyForm form;
  form.keep = *rc::gen::arbitrary<bool>();
  const std::string remainder = form.keep ? "keep" : "drop";
  if (AnyFrom(0, 2) == 0) {
    form.global = 12;
    form.text = fmt::format("batch: {{global_size: 12, remainder: {}}}\n", remainder);
  } else {
    form.text =
        fmt::format("batch: {{size: {}, remainder: {}}}\n", AnyFrom(1, kMostExamples), remainder);
  }
  form.text += AnyShuffle(true);
  return form;
}

AnyForm AnyBuckets() {
  AnyForm form;
  form.drops_above = *rc::gen::arbitrary<bool>();
  // No class is smaller than a batch of 1, so that drop is never refused.
  form.keep = AnyFrom(0, 3) > 0;
  std::string bucket = "by: value";
  if (form.drops_above) {
    bucket += fmt::format(", above: drop, bounds: [{}, 60]", AnyFrom(1, 50));
  } else {
    bucket += fmt::format(", count: {}", AnyFrom(1, 6));
  }
  if (!form.keep) {
    bucket += ", size: 1";
  } else if (*rc::gen::arbitrary<bool>()) {
    form.budget = AnyFrom(100, 700);
    bucket += fmt::format(", budget: {}, max_size: {}", form.budget, AnyFrom(1, 40));
  } else {
    bucket += fmt::format(", size: {}", AnyFrom(1, 20));
  }
  form.drops_classes = !form.keep;
  form.text = fmt::format("batch: {{bucket: {{{}, together: {}}}, remainder: {}}}\n", bucket,
                          AnyFrom(1, 5), form.keep ? "keep" : "drop");
  form.text += AnyShuffle(false);
  return form;
}

AnyForm AnyBalance() {
  AnyForm form;
  form.keep = *rc::gen::arbitrary<bool>();
  form.text = fmt::format("batch: {{size: {}, remainder: {}}}\nbalance: {{by: value, group: {}}}\n",
                          AnyFrom(1, kMostExamples), form.keep ? "keep" : "drop", AnyFrom(1, 9));
  form.text += AnyShuffle(true);
  return form;
}

AnyForm AnyOfAllForms() {
  switch (*rc::gen::element(0, 1, 2)) {
    case 0:
      return AnyBatches();
    case 1:
      return AnyBuckets();
    default:
      return AnyBalance();
  }
}

/// A dataset, a form of order over some of its examples, and the plan of both.
struct AnyPlan {
  AnyForm form;
  std::unique_ptr<NumberPlans> numbers;
  std::shared_ptr<const Plan> plan;
};

AnyPlan MakeAnyPlan(AnyForm form) {
  AnyPlan any;
  const std::uint64_t n = AnyFrom(24, 200);
  any.numbers = std::make_unique<NumberPlans>(
      *rc::gen::container<std::vector<std::int64_t>>(n, rc::gen::inRange<std::int64_t>(0, 100)));
  any.form = std::move(form);
  if (AnyFrom(0, 3) == 0) any.form.text += "filter: {where: \"value != 7\"}\n";
  const auto plan = any.numbers->Compile(any.form.text);
  RC_LOG(any.form.text + plan.status().message());
  RC_PRE(plan.ok());  // a filter may leave too little
  any.plan = *plan;
  return any;
}

std::uint64_t AnEpoch() { return *rc::gen::element<std::uint64_t>(0, 1, 5, 1u << 20); }

/// A world size that the form allows.
std::uint32_t AnyWorld(const AnyForm& form) {
  if (form.global > 0) return *rc::gen::element<std::uint32_t>(1, 2, 3, 4, 6, 12);
  return *rc::gen::inRange<std::uint32_t>(1, 6);
}

Examples AllOf(const Plan& plan, std::uint64_t epoch) {
  const std::uint64_t units = plan.planned_order().order->units();
  return plan.ExamplesOf(epoch, {0, static_cast<std::uint32_t>(units)});
}

TEST_CASE("a plan of any form has every example once in every epoch", "[plan][order]") {
  rc::prop("in as many units", [] {
    const AnyPlan any = MakeAnyPlan(AnyOfAllForms());
    const Order& order = *any.plan->planned_order().order;
    std::set<ExampleId> selected;
    for (std::uint64_t id = 0; id < any.plan->source()->examples(); ++id) {
      if (any.plan->Selects(ExampleId(id))) selected.insert(ExampleId(id));
    }
    RC_ASSERT(selected.size() + any.plan->counts().above == any.plan->counts().selected);
    RC_ASSERT(any.form.drops_above || any.plan->counts().above == 0);
    for (const std::uint64_t epoch : {AnEpoch(), AnEpoch() + 2}) {
      const Examples all = AllOf(*any.plan, epoch);
      const std::set<ExampleId> seen(all.begin(), all.end());
      RC_ASSERT(seen.size() == all.size());
      RC_ASSERT(all.size() == order.rows());
      RC_ASSERT(std::includes(selected.begin(), selected.end(), seen.begin(), seen.end()));
      if (any.form.keep) RC_ASSERT(seen == selected);
    }
  });
}

TEST_CASE("a plan of any form finds every example where it comes", "[plan][order]") {
  rc::prop("or says why it does not", [] {
    const AnyPlan any = MakeAnyPlan(AnyOfAllForms());
    const std::uint64_t epoch = AnEpoch();
    std::map<ExampleId, UnitRow> places;
    for (std::uint64_t unit = 0; unit < any.plan->planned_order().order->units(); ++unit) {
      const Examples rows = any.plan->ExamplesOf(epoch, {unit, 1});
      for (std::uint32_t row = 0; row < rows.size(); ++row) places[rows[row]] = {unit, row};
    }
    for (std::uint64_t id = 0; id < any.plan->source()->examples(); ++id) {
      const ExamplePlaces found = any.plan->PlacesOf(epoch, ExampleId(id));
      const auto wanted = places.find(ExampleId(id));
      if (wanted != places.end()) {
        RC_ASSERT(found.places == std::vector<UnitRow>{wanted->second});
        RC_ASSERT(found.why == ExamplePlaces::Absence::kNone);
        continue;
      }
      RC_ASSERT(found.places.empty());
      const bool selected = any.plan->Selects(ExampleId(id));
      RC_ASSERT((found.why == ExamplePlaces::Absence::kCut) == selected);
      RC_ASSERT(!selected || !any.form.keep);
    }
  });
}

TEST_CASE("batches of buckets of any plan keep bucket, size and budget", "[plan][bucket]") {
  rc::prop("whatever they are", [] {
    const AnyPlan any = MakeAnyPlan(AnyBuckets());
    const std::vector<BucketFacts>& buckets = any.plan->planned_order().buckets;
    std::vector<std::uint64_t> batches(buckets.size());
    for (const auto& batch : ReadEpoch(*any.plan, AnEpoch(), 1)) {
      std::set<std::size_t> of;
      for (const ExampleId id : batch->info().example_ids) {
        const auto value = static_cast<std::uint64_t>((*any.numbers)[id]);
        of.insert(static_cast<std::size_t>(
            std::find_if(buckets.begin(), buckets.end(),
                         [&](const BucketFacts& facts) { return value <= facts.bound; }) -
            buckets.begin()));
      }
      RC_ASSERT(of.size() == 1u);
      const std::size_t c = *of.begin();
      RC_ASSERT(c < buckets.size());
      RC_ASSERT(batch->examples() <= buckets[c].size);
      if (any.form.budget > 0) RC_ASSERT(batch->examples() * buckets[c].bound <= any.form.budget);
      ++batches[c];
    }
    for (std::size_t c = 0; c < buckets.size(); ++c) RC_ASSERT(batches[c] == buckets[c].batches);
  });
}

TEST_CASE("a plan of any form goes on at any unit with another world size", "[plan][order]") {
  rc::prop("from a cursor, without a gap or a repetition", [] {
    const AnyPlan any = MakeAnyPlan(AnyOfAllForms());
    const Plan& plan = *any.plan;
    const std::uint64_t epoch = AnEpoch();
    const auto scratch = plan.NewScratch();
    Examples read;
    std::string cursor = Cursor{{{plan.facts().order_fingerprint(), {epoch, 0}}}}.ToString();
    std::uint64_t left_out = 0;
    for (;;) {
      const Position wanted = Cursor::PlaceIn(plan.facts().order_fingerprint(), cursor).value();
      if (wanted.epoch != epoch) break;
      const auto steps = plan.facts().Steps(AnyWorld(any.form));
      RC_PRE(steps.ok());
      const auto start = steps->Start(wanted);
      RC_PRE(start.ok());  // drop may leave no step for so many ranks in any epoch
      left_out = steps->LeftOut(wanted.example);
      Position at = *start;
      for (std::uint64_t more = AnyFrom(1, 6); more > 0 && at.epoch == epoch; --more) {
        for (std::uint32_t rank = 0; rank < steps->options().world_size; ++rank) {
          const ExampleRange units = steps->RankExamples(at, rank);
          const auto batch = plan.Batch(epoch, units, *scratch);
          RC_ASSERT(batch.ok());
          const Examples& ids = (*batch)->info().example_ids;
          RC_ASSERT(units.count == 0 || (*batch)->info().first_example == units.first);
          read.insert(read.end(), ids.begin(), ids.end());
        }
        at = steps->Next(at);
      }
      cursor = Cursor{{{plan.facts().order_fingerprint(), at}}}.ToString();
    }
    const Order& order = *plan.planned_order().order;
    RC_ASSERT(left_out == 0 || !any.form.keep);
    const std::uint64_t units = order.units() - left_out;
    RC_ASSERT(read == plan.ExamplesOf(epoch, {0, static_cast<std::uint32_t>(units)}));
  });
}

TEST_CASE("a cursor of one form of order is refused by every other", "[plan][order]") {
  NumberPlans numbers(Scattered());
  const std::vector<std::string> forms = {
      "shuffle: {seed: 2}\nbatch: {size: 8}\n",
      "shuffle: {seed: 2, block: 10}\nbatch: {size: 8}\n",
      "shuffle: {seed: 2, block: 10, window: 3}\nbatch: {size: 8}\n",
      "shuffle: {seed: 2}\nbatch: {bucket: {by: value, count: 4, size: 8}}\n",
      "shuffle: {seed: 2}\nbatch: {bucket: {by: value, count: 4, size: 8, together: 2}}\n",
      "shuffle: {seed: 2}\nbatch: {size: 8}\nbalance: {by: value, group: 4}\n",
      "shuffle: {seed: 2}\nbatch: {size: 8}\nbalance: {by: value, group: 5}\n"};
  for (const std::string& of : forms) {
    const Fingerprint order = numbers.MustCompile(of)->facts().order_fingerprint();
    const std::string cursor = Cursor{{{order, {1, 4}}}}.ToString();
    for (const std::string& at : forms) {
      CAPTURE(of, at);
      const auto place =
          Cursor::PlaceIn(numbers.MustCompile(at)->facts().order_fingerprint(), cursor);
      CHECK(place.ok() == (of == at));
      if (of != at) CHECK(place.status().code() == StatusCode::kFailedPrecondition);
    }
  }
}

}  // namespace
}  // namespace millrace::test
