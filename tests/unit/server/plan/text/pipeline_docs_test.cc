// Compares docs/reference/pipeline.md and docs/reference/tensors.md with the tables and the parser.
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/operations/after_steps.h"
#include "common/operations/graph_pad.h"
#include "common/operations/pad.h"
#include "server/plan/text/canonical.h"
#include "server/yaml/read_parameter.h"
#include "tests/unit/server/plan/text/pipeline_text.h"

namespace millrace::test {
namespace {

std::vector<std::string> PageLines(const std::string& page = "reference/pipeline.md") {
  std::ifstream file(std::string(MILLRACE_SOURCE_DIR) + "/docs/" + page);
  REQUIRE(file.good());
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// The contents of the fenced blocks of a language.
std::vector<std::string> Blocks(const std::string& language,
                                const std::string& page = "reference/pipeline.md") {
  std::vector<std::string> blocks;
  bool inside = false;
  for (const std::string& line : PageLines(page)) {
    if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back() += line + '\n';
    } else if (line == "```" + language) {
      inside = true;
      blocks.emplace_back();
    }
  }
  return blocks;
}

/// The cells of the table row that describes a key; empty if there is none.
std::vector<std::string> RowOf(const std::string& key,
                               const std::string& page = "reference/pipeline.md") {
  const std::string start = "| `" + key + "` | ";
  for (const std::string& line : PageLines(page)) {
    if (!line.starts_with(start)) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 0; at + 2 < line.size();) {
      const std::size_t end = line.find(" |", at + 1);
      if (end == std::string::npos) break;
      cells.push_back(line.substr(at + 2, end - at - 2));
      at = end + 1;
    }
    return cells;
  }
  return {};
}

}  // namespace

TEST_CASE("the page describes every parameter, its values and its default", "[docs]") {
  for (const StageType& stage : ProductStages().stages()) {
    for (const Parameter& parameter : stage.parameters) {
      const std::string key = CanonicalKey(stage, parameter);
      INFO(key);
      const std::vector<std::string> row = RowOf(key);
      REQUIRE(row.size() == 4);
      const bool has_default = !std::holds_alternative<std::monostate>(parameter.default_value);
      if (parameter.required && !has_default) {
        CHECK(row[2] == "required");
      } else {
        CHECK(row[2] == "`" + FormatParamValue(parameter, parameter.default_value) + "`");
      }
      for (const std::string& value : parameter.allowed) {
        CHECK(row[1].find("`" + value + "`") != std::string::npos);
      }
      if (parameter.max) {
        CHECK(row[1].find(std::to_string(parameter.min.value_or(0)) + " to " +
                          std::to_string(*parameter.max)) != std::string::npos);
      } else if (parameter.min) {
        CHECK(row[1].find("at least " + std::to_string(*parameter.min)) != std::string::npos);
      }
    }
  }
}

TEST_CASE("the page names every reserved and every unused key", "[docs]") {
  std::string page;
  for (const std::string& line : PageLines()) page += line + '\n';
  for (const StageType& stage : ProductStages().stages()) {
    for (const std::string& name : stage.reserved) {
      CHECK(page.find("`" + stage.name + "." + name + "`") != std::string::npos);
    }
  }
  const std::string unused_keys = page.substr(page.find("### Unused keys"));
  const Pipeline definitions =
      MustParse(Minimal(), "",
                {"source=definitions",
                 "filter={exclude_none_arguments: true, exclude_not_faithful: true, "
                 "required_tactic_occurrence: 2, restrict_to_spine: true}",
                 "fields={global_context: full, text: true}",
                 "split={method: disabled, proportions: [9, 1], seed: 1, prefixes: [[a]]}"});
  CHECK(definitions.unused_keys().size() == 8);
  for (const std::string& key : definitions.unused_keys()) {
    INFO(key);
    CHECK(unused_keys.find("`" + key + "`") != std::string::npos);
  }
}

TEST_CASE("every pipeline of the page parses, with all its variants", "[docs]") {
  const std::vector<std::string> blocks = Blocks("yaml");
  CHECK(blocks.size() >= 5);
  for (const std::string& block : blocks) {
    const std::string yaml = block.starts_with("millrace:") ? block : Minimal(block);
    const Pipeline pipeline = MustParse(yaml);
    for (const std::string& variant : pipeline.variants()) MustParse(yaml, variant);
  }
}

TEST_CASE("every pipeline of the page about orders parses", "[docs]") {
  const std::vector<std::string> blocks = Blocks("yaml", "guides/orders.md");
  CHECK(blocks.size() >= 4);
  for (const std::string& block : blocks) {
    const bool mixes = block.find("branches:") != std::string::npos;
    const bool cuts = block.find("batch:") != std::string::npos;
    MustParse("millrace: 1\n" + std::string(mixes ? "" : "dataset: d\nsource: {roots: all}\n") +
              (cuts ? "" : "batch: {size: 8}\n") + block);
  }
}

TEST_CASE("every pipeline of the page about records parses", "[docs]") {
  const std::vector<std::string> blocks = Blocks("yaml", "guides/records.md");
  CHECK(blocks.size() >= 4);
  for (const std::string& block : blocks) {
    const bool whole = block.find("millrace: 1") != std::string::npos;
    const bool has_source = block.find("source:") != std::string::npos;
    const bool cuts = block.find("batch:") != std::string::npos;
    MustParse(std::string(whole ? "" : "millrace: 1\ndataset: d\n") +
              (has_source ? "" : "source: {records: {x: \"float32[*]\"}}\n") +
              (cuts ? "" : "batch: {size: 8}\n") + block);
  }
}

TEST_CASE("the first pipeline of the page writes all defaults and has the text shown", "[docs]") {
  const std::vector<std::string> canonical = Blocks("canonical");
  REQUIRE(canonical.size() == 1);
  const Pipeline pipeline = MustParse(Blocks("yaml").front());
  CHECK(pipeline.canonical_text() == canonical.front());
  std::string page;
  for (const std::string& line : PageLines()) page += line + '\n';
  CHECK(page.find("`" + pipeline.digest().ToHex() + "`") != std::string::npos);
}

TEST_CASE("the errors of the page are the parser's", "[docs]") {
  const auto error = [](const std::string& more, std::vector<std::string> overrides = {}) {
    return Pipeline::Parse({Minimal(more), "", std::move(overrides), "train.yaml"}, ProductStages())
        .status()
        .message();
  };
  const std::vector<std::string> blocks = Blocks("text");
  REQUIRE(blocks.size() == 1);
  CHECK(blocks.front() == error("closure: {order: bsf}\n") + '\n' + error("shufle: {}\n") + '\n' +
                              error("shuffle: {seed: 1}\nshuffle: {}\n") + '\n' +
                              error("", {"batch.size=x"}) + '\n');
}

TEST_CASE("the page of tensors describes every operation and every parameter", "[docs]") {
  const auto check = [](const Parameter& parameter, const std::string& text) {
    INFO(parameter.name);
    CHECK_THAT(text, Catch::Contains("`" + parameter.name));
    for (const std::string& word : parameter.allowed) CHECK_THAT(text, Catch::Contains(word));
    if (parameter.has_default()) {
      CHECK_THAT(text, Catch::Contains(FormatParamValue(parameter, parameter.default_value)));
    }
    if (parameter.max && parameter.types.front() == ParamType::kInt) {
      CHECK_THAT(text, Catch::Contains(fmt::format("{} to {}", *parameter.min, *parameter.max)));
    }
  };
  const auto row = [](const std::string& key) {
    return fmt::format("`{}` {}", key, fmt::join(RowOf(key, "reference/tensors.md"), " "));
  };
  for (const OperationType& operation : OperationTable::Default().operations()) {
    INFO(operation.name);
    const std::string text = row(operation.name);
    REQUIRE(RowOf(operation.name, "reference/tensors.md").size() == 4);
    for (Parameter parameter : operation.parameters) {
      if (parameter.name == "dtype") parameter.allowed.clear();  // they stand once on the page
      check(parameter, text);
    }
    for (const std::string& name : operation.required_after) {
      CHECK_THAT(text, Catch::Contains("`" + name));
    }
    if (operation.max_inputs > 1 && !operation.inputs_of) {
      CHECK_THAT(text, Catch::Contains(
                           fmt::format("{} to {}", operation.min_inputs, operation.max_inputs)));
    }
  }
  for (const Parameter& parameter : AfterParameters()) {
    check(parameter, row(parameter.name));
  }
  for (const Parameter& parameter : Pad::Parameters()) {
    check(parameter, row(parameter.name));
  }
  for (const Parameter& parameter : GraphPad::Parameters()) {
    check(parameter, row(parameter.name));
    CHECK(RowOf(parameter.name, "reference/tensors.md").size() == 4);
  }
}

TEST_CASE("the pipeline of the page of tensors parses, and has the text shown", "[docs]") {
  const std::vector<std::string> blocks = Blocks("yaml", "reference/tensors.md");
  REQUIRE(blocks.size() == 3);
  const Pipeline pipeline = MustParse(blocks.front());
  for (const std::string& variant : pipeline.variants()) MustParse(blocks.front(), variant);
  MustParse(blocks.front(), "", {"tensors.score.dtype=float64"});
  const std::string begin = "millrace: 1\ndataset: d\nsource: {roots: all}\n";
  CHECK(MustParse(begin + blocks[1]).tensors().pads.at("text").GetText("to") == "bound");
  CHECK(MustParse(blocks[2]).tensors().graph_pad == GraphPad{2049, 16384, 33});
  const std::vector<std::string> canonical = Blocks("canonical", "reference/tensors.md");
  REQUIRE(canonical.size() == 1);
  CHECK(pipeline.canonical_text() == canonical.front());
}

TEST_CASE("the errors of the page of tensors are the parser's", "[docs]") {
  const auto error_of = [](const std::string& lines) {
    return Pipeline::Parse({Minimal(lines), "", {}, "train.yaml"}, ProductStages())
               .status()
               .message() +
           '\n';
  };
  const auto error = [&](const std::string& definition) {
    return error_of("tensors:\n  a: " + definition + "\n");
  };
  const std::vector<std::string> blocks = Blocks("errors", "reference/tensors.md");
  REQUIRE(blocks.size() == 1);
  CHECK(blocks.front() == error("{expr: \"data + * x\"}") + error("{bits: d, ordr: lsb}") +
                              error("{bit: d}") +
                              error_of("pad: {graph: {nodes: 2049, graphs: 33}}\n"));
}

}  // namespace millrace::test
