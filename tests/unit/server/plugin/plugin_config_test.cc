#include "server/plugin/plugin_config.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace millrace {
namespace {

namespace fs = std::filesystem;

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("a plugin is NAME=PATH", "[plugin_config]") {
  const auto plugin = ParsePlugin("asr_data=/srv/a=b");
  REQUIRE(plugin.ok());
  CHECK(plugin->name == "asr_data");
  CHECK(plugin->path == "/srv/a=b");
  CHECK(ParsePlugin("asr_data").status().message() == "\"asr_data\": expected NAME=PATH");
  CHECK_FALSE(ParsePlugin("asr_data=").ok());
  CHECK(ParsePlugin("a.b=/x").status().message() ==
        "the plugin \"a.b\": expected the name of a Python module: letters, digits and _");
  CHECK_FALSE(ParsePlugin("=x").ok());
  CHECK_FALSE(ParsePlugin("1a=x").ok());
}

TEST_CASE("an object is module:name, without dots", "[plugin_config]") {
  const auto object = ParsePluginObject("asr_data:Corpus");
  REQUIRE(object.ok());
  CHECK(object->module == "asr_data");
  CHECK(object->name == "Corpus");
  for (const char* text : {"asr_data", "asr_data:", ":Corpus", "a.b:C", "a:b.c", "a:b:c"}) {
    CHECK_THAT(ParsePluginObject(text).status().message(), Contains("expected \"module:name\""));
  }
}

TEST_CASE("what is wrong with a plugin is found before it is started", "[plugin_config]") {
  std::string folder = (fs::temp_directory_path() / "millrace.config.XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  std::ofstream(folder + "/m.py") << "x";
  PluginConfig plugin;
  plugin.name = "m";
  plugin.path = folder;
  plugin.python = "/bin/sh";
  REQUIRE(CheckPlugin(plugin).ok());
  std::string expected = "the plugin m: ";
  SECTION("the path") {
    plugin.path = folder + "/none";
    expected += folder + "/none is no folder";
  }
  SECTION("the module") {
    plugin.name = "k";
    expected =
        "the plugin k: " + folder + ": has neither k.py nor k/__init__.py; its modules are m";
  }
  SECTION("python is missing") {
    plugin.python = folder + "/python";
    expected += "python " + folder + "/python is no program that can be run: No such file";
  }
  SECTION("python is no program") {
    plugin.python = folder + "/m.py";
    expected += "python " + folder + "/m.py is no program that can be run: Permission denied";
  }
  SECTION("python is in no folder") {
    plugin.python = "no-such-python";
    expected += "python \"no-such-python\": no folder of PATH has such a program";
  }
  SECTION("processes") {
    plugin.processes = 0;
    expected += "processes: 0, expected 1 to 4096";
  }
  SECTION("a variable") {
    plugin.env["a=b"] = "";
    expected += "env: \"a=b\" cannot be the name of a variable";
  }
  CHECK_THAT(CheckPlugin(plugin).message(), StartsWith(expected));
  fs::remove_all(folder);
}

TEST_CASE("an object that contradicts itself is refused", "[plugin_config]") {
  PluginConfig plugin;
  plugin.name = "m";
  PluginObject source;
  source.module = "m";
  source.name = "C";
  PluginObject function = source;
  function.kind = PluginObject::Kind::kFunction;
  function.inputs = {{"x", *ParseTensorType("int64")}};
  function.outputs = {{"y", *ParseTensorType("int64")}};
  REQUIRE(CheckPluginObject(source, plugin).ok());
  REQUIRE(CheckPluginObject(function, plugin).ok());
  const auto error = [&](const PluginObject& object) {
    return CheckPluginObject(object, plugin).message();
  };
  source.module = "k";
  CHECK(error(source) == "k:C: this is not of the plugin m");
  source.module = "m";
  source.args = "[1]";
  CHECK(error(source) == "m:C: args: expected names and values");
  source.args = R"({"folder": 1})";
  CHECK(error(source).empty());
  source.folder = "/data";
  CHECK_THAT(error(source), Contains("\"folder\" cannot be the name of an argument: it is given"));
  function.args = R"({"x": 1})";
  CHECK_THAT(error(function), Contains("\"x\" cannot be the name of an argument: it is given"));
  function.args = R"({"a b": 1})";
  CHECK_THAT(error(function), Contains("\"a b\" cannot be the name of an argument"));
  function.args = "{}";
  function.per_batch = true;
  function.drop = {"ValueError"};
  CHECK(error(function) == "m:C: drop: a call for a whole batch drops no examples");
  function.drop = {};
  function.inputs.push_back(function.inputs[0]);
  CHECK(error(function) == "m:C: inputs: x comes twice");
  function.inputs = {{"x.length", *ParseTensorType("int64")}};
  CHECK(error(function) == "m:C: inputs: \"x.length\" cannot be the name of an argument");
  function.inputs.clear();
  CHECK(error(function) == "m:C: a function needs inputs and outputs");
}

TEST_CASE("what the operator sets in `env` wins", "[plugin_config]") {
  PluginConfig plugin;
  plugin.env = {{"OMP_NUM_THREADS", "4"}, {"MINE", "x=y"}};
  const std::vector<std::string> environment = PluginEnvironment(plugin);
  const auto has = [&](const char* text) {
    return std::count(environment.begin(), environment.end(), text) == 1;
  };
  CHECK(has("OMP_NUM_THREADS=4"));
  CHECK(has("MKL_NUM_THREADS=1"));
  CHECK(has("CUDA_VISIBLE_DEVICES="));
  CHECK(has("PYTHONHASHSEED=0"));
  CHECK(has("MINE=x=y"));
}

}  // namespace
}  // namespace millrace
