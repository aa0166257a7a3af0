#include "client/local/local_plans.h"

#include <catch2/catch.hpp>

#include "server/catalog/product_kinds.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

PipelineSource Source() {
  PipelineSource source;
  source.yaml = "millrace: 1\ndataset: d\nsource: proof_states\nbatch: {size: 2}\n";
  return source;
}

Status OpenStatus(LocalDatasets datasets) {
  return LocalPlans::Open(Source(), std::move(datasets)).status();
}

TEST_CASE("the empty id stands for the pipeline's own dataset", "[local]") {
  const TempDir dir;
  WriteFixture(dir.path(), SampleFile("a.bin"));
  LocalPlans unnamed =
      LocalPlans::Open(Source(), {.kinds = ProductKinds(), .folders = {{"", dir.path()}}}).value();
  LocalPlans named =
      LocalPlans::Open(Source(), {.kinds = ProductKinds(), .folders = {{"d", dir.path()}}}).value();
  CHECK((*unnamed.Compile())->facts().fingerprint() == (*named.Compile())->facts().fingerprint());
}

TEST_CASE("a folder may have its kind before it", "[local]") {
  const TempDir dir;
  WriteFixture(dir.path(), SampleFile("a.bin"));
  const std::string folder = "coq:" + dir.path().string();
  LocalPlans told =
      LocalPlans::Open(Source(), {.kinds = ProductKinds(), .folders = {{"", folder}}}).value();
  CHECK((*told.OpenDataset())->kind() == "coq");
  CHECK(OpenStatus({.kinds = ProductKinds(), .folders = {{"", "tree:/a"}}}) ==
        InvalidArgument("there is no kind of dataset 'tree': expected one of graph, "
                        "records, tokens, coq, python"));
}

TEST_CASE("a dataset whose folder is given twice is refused", "[local]") {
  CHECK(OpenStatus({.folders = {{"", "/a"}, {"d", "/b"}}}) ==
        InvalidArgument("dataset 'd' was given before: expected one folder for each dataset"));
}

TEST_CASE("without the pipeline's own dataset the message says how to give it", "[local]") {
  CHECK(OpenStatus({.advice = ": say where it lies"}) ==
        InvalidArgument("the pipeline draws from dataset 'd': expected its folder, got none: say "
                        "where it lies"));
  CHECK(OpenStatus({.folders = {{"e", "/a"}, {"f", "/b"}}}) ==
        InvalidArgument(
            "the pipeline draws from dataset 'd': expected its folder, got only that of e, f"));
}

}  // namespace
}  // namespace millrace::test
