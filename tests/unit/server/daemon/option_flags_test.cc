#include "server/daemon/option_flags.h"

#include <CLI/CLI.hpp>

#include "server/daemon/option_table.h"
#include "tests/unit/server/daemon/options_fixture.h"

namespace millrace::test {
namespace {

/// The flags of a command line.
OptionFlags Parse(const std::string& line, Role role = Role::kServe) {
  CLI::App app;
  OptionFlags flags;
  AddOptionFlags(app, role, flags);
  app.parse(line);
  return flags;
}

TEST_CASE("each option is a flag of the roles that have it, with its help", "[flags]") {
  for (const Role role : {Role::kDispatcher, Role::kWorker, Role::kServe}) {
    CLI::App app;
    OptionFlags flags;
    AddOptionFlags(app, role, flags);
    for (const Option& option : OptionTable()) {
      CAPTURE(option.name);
      const CLI::Option* const flag = app.get_option_no_throw(option.Flag());
      REQUIRE((flag != nullptr) == option.IsOf(role));
      if (flag != nullptr) CHECK(flag->get_description() == option.Help());
    }
  }
}

TEST_CASE("only flags that are given are in the texts", "[flags]") {
  const OptionFlags flags = Parse("--batch-listen a:1 --dataset a=/x --dataset b=/y");
  const OptionTexts texts = flags.Texts().value();
  CHECK(texts.values.size() == 1);
  CHECK(texts.values.at("batch_listen").text == "a:1");
  CHECK(texts.values.at("batch_listen").where.empty());
  CHECK(texts.datasets.at("a").dataset.path == "/x");
  CHECK(texts.datasets.at("b").dataset.path == "/y");
}

TEST_CASE("a flag that is given twice has its last value", "[flags]") {
  CHECK(Parse("--threads 1 --threads 2").texts.values.at("threads").text == "2");
}

TEST_CASE("a switch that is off by default needs no value", "[flags]") {
  CHECK(Parse("--skip-bad").texts.values.at("skip_bad").text == "true");
  CHECK(Parse("--skip-bad false").texts.values.at("skip_bad").text == "false");
  CHECK(Parse("--log-json --grace 1").texts.values.at("log_json").text == "true");
  CHECK_THROWS_AS(Parse("--shared-memory"), CLI::ParseError);
}

TEST_CASE("a flag that is unknown, or of another role, is refused", "[flags]") {
  CHECK_THROWS_AS(Parse("--lissen a:1"), CLI::ParseError);
  CHECK_THROWS_AS(Parse("--threads 1", Role::kDispatcher), CLI::ParseError);
}

TEST_CASE("a dataset of the command line is checked when the texts are asked for", "[flags]") {
  CHECK(ErrorOf(Parse("--dataset a").Texts()) == "option dataset: expected ID=DIR, got 'a'");
  CHECK(ErrorOf(Parse("--dataset a=b --dataset a=c").Texts()).find("give each dataset once") !=
        std::string::npos);
}

}  // namespace
}  // namespace millrace::test
