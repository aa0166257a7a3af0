#include "server/yaml/yaml_writer.h"

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

namespace millrace {
namespace {

constexpr char kDelete = '\x7f';

/// The emitter takes this one control character for a printable one, which ReadYaml does not. What
/// has it has to be in quotes.
std::string WithoutDelete(std::string text) {
  for (std::size_t at; (at = text.find(kDelete)) != std::string::npos;) {
    text.replace(at, 1, "\\x7f");
  }
  return text;
}

}  // namespace

std::string YamlText(std::string_view text) {
  // As the only item of a list: what may stand plain there may stand plain everywhere.
  YAML::Emitter out;
  out << YAML::Flow << YAML::BeginSeq;
  if (text.find(kDelete) != std::string_view::npos) out << YAML::DoubleQuoted;
  out << std::string(text) << YAML::EndSeq;
  const std::string_view list(out.c_str(), out.size());
  return WithoutDelete(std::string(list.substr(1, list.size() - 2)));
}

std::string YamlList(std::span<const std::string> texts) {
  YAML::Emitter out;
  out << YAML::Flow << YAML::BeginSeq;
  for (const std::string& text : texts) out << YAML::DoubleQuoted << text;
  out << YAML::EndSeq;
  return WithoutDelete({out.c_str(), out.size()});
}

}  // namespace millrace
