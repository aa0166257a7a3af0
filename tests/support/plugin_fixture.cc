#include "tests/support/plugin_fixture.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include <fmt/format.h>

#include "common/tensor/dtype_visit.h"
#include "tests/support/fake_clock.h"
#include "tests/support/patience.h"
#include "tests/support/skip.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

/// Removes the indentation of the first line from all lines.
std::string Dedent(std::string_view text) {
  while (!text.empty() && text.front() == '\n') text.remove_prefix(1);
  const std::size_t indent = text.find_first_not_of(' ');
  std::string result;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    result += line.substr(std::min(indent, line.size()));
    result += '\n';
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return result;
}

}  // namespace

std::string NumpyPythonOrSkip() {
  std::vector<std::string> candidates{"/usr/bin/python3", "python3"};
  if (const char* told = std::getenv("MILLRACE_NUMPY_PYTHON")) candidates = {told};
  for (const std::string& python : candidates) {
    const std::string command = python + " -c 'import numpy' >/dev/null 2>&1";
    if (std::system(command.c_str()) == 0) return python;
  }
  SkipTest("no python with numpy: install python3-numpy, or set MILLRACE_NUMPY_PYTHON");
}

PluginFixture::PluginFixture(std::string_view module) {
  std::string name = (fs::temp_directory_path() / "millrace.plugin.XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  root_ = name;
  options_.plugin.name = "plugin";
  options_.plugin.path = root_ / "source";
  options_.plugin.python = NumpyPythonOrSkip();
  options_.object.module = "plugin";
  options_.object.name = "Source";
  options_.copies = root_ / "copies";
  options_.launcher = std::make_shared<Launcher>();
  options_.on_line = [this](std::string_view, pid_t, std::string_view line) {
    MutexLock lock(mutex_);
    lines_.emplace_back(line);
    printed_.NotifyAll();
  };
  fs::create_directories(folder());
  WriteModule(module);
}

PluginFixture::~PluginFixture() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

void PluginFixture::UseFunction(const std::string& name, std::vector<PluginTensor> inputs,
                                std::vector<PluginTensor> outputs) {
  options_.object.kind = PluginObject::Kind::kFunction;
  options_.object.name = name;
  options_.object.inputs = std::move(inputs);
  options_.object.outputs = std::move(outputs);
}

void PluginFixture::WriteModule(std::string_view module) {
  WriteFile("plugin.py", "import numpy as np\n" + Dedent(module));
}

void PluginFixture::WriteFile(const std::string& name, std::string_view content) {
  const fs::path path = folder() / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

std::shared_ptr<PluginPool> PluginFixture::Start() {
  Result<std::shared_ptr<PluginPool>> pool = PluginPool::Start(options_);
  if (!pool.ok()) FAIL(pool.status().message());
  return *pool;
}

std::string PluginFixture::StartError() {
  const Result<std::shared_ptr<PluginPool>> pool = PluginPool::Start(options_);
  REQUIRE_FALSE(pool.ok());
  return pool.status().message();
}

std::vector<std::string> PluginFixture::Lines() const {
  MutexLock lock(mutex_);
  return lines_;
}

void PluginFixture::WaitForLine(std::string_view phrase) const {
  MutexLock lock(mutex_);
  for (std::size_t seen = 0;; printed_.Wait(mutex_)) {
    for (; seen < lines_.size(); ++seen) {
      if (lines_[seen].find(phrase) != std::string::npos) return;
    }
  }
}

PluginTensor MakeTensor(const std::string& name, std::string_view type) {
  const Result<TensorType> parsed = ParseTensorType(type);
  REQUIRE(parsed.ok());
  return {name, *parsed};
}

std::string RowText(const PluginReply& reply, const std::vector<PluginTensor>& tensors,
                    std::size_t tensor, std::size_t row) {
  const std::span<const std::byte> bytes = reply.values(tensor, row);
  std::string text;
  VisitValues(tensors[tensor].type.dtype, [&](auto value) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof value) {
      std::memcpy(&value, bytes.data() + at, sizeof value);
      text += fmt::format("{}{}", at == 0 ? "" : " ", ConvertValue<double>(value));
    }
  });
  return text;
}

bool IsRunning(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

bool WaitUntilGone(pid_t process) {
  return WaitFor([process] { return !IsRunning(process); });
}

void PassTimeUntilGone(FakeClock& clock, pid_t process) {
  while (IsRunning(process)) {
    clock.Advance(std::chrono::seconds(31));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace millrace::test
