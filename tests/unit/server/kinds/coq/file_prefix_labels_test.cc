#include <catch2/catch.hpp>

#include <vector>

#include "server/kinds/coq/file_prefix_labels.h"
#include "tests/unit/server/kinds/coq/fake_index.h"

namespace millrace::test {
namespace {

std::vector<FakeFile> ThreeFiles() {
  std::vector<FakeFile> files(3);
  files[0].name = "a/one.bin";
  files[1].name = "a/two.bin";
  files[1].dependencies = {0};
  files[2].name = "b/three.bin";
  files[2].dependencies = {1};
  return files;
}

TEST_CASE("a file has the highest list with a prefix of its name", "[split]") {
  const FakeIndex index(ThreeFiles());
  SplitOptions options;
  options.prefixes = {{"a/t", "b/"}, {"b/three"}};
  CHECK(*FilePrefixLabels(index, options) == std::vector<std::uint32_t>{0, 1, 2});
}

TEST_CASE("a prefix that matches nothing is an error that names it", "[split]") {
  const FakeIndex index(ThreeFiles());
  SplitOptions options;
  options.prefixes = {{"b/"}, {"c/"}};
  CHECK(FilePrefixLabels(index, options).status().message() ==
        "split.prefixes: no file's name starts with 'c/' (list 2): check it against the names that "
        "`millrace inspect` prints");
}

TEST_CASE("a file that depends on one of a higher label is an error that names both", "[split]") {
  const FakeIndex index(ThreeFiles());
  SplitOptions options;
  options.prefixes = {{"a/two"}};
  CHECK(
      FilePrefixLabels(index, options).status().message() ==
      "split.prefixes: file 'b/three.bin' (label 0) depends on 'a/two.bin' (label 1): a file must "
      "not depend on one of a higher label");
}

}  // namespace
}  // namespace millrace::test
