#include "server/yaml/yaml_writer.h"

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

namespace millrace {
namespace {

constexpr char kDelete = '\x7f';

/// The emitter treats this control character as printable, but ReadYaml does not. So a text with
/// this character has to be in quotes, and the character has to be escaped.
std::string WithoutDelete(std::string text) {
  for (std::size_t at; (at = text.find(kDelete)) != std::string::npos;) {
    text.replace(at, 1, "\\x7f");
  }
  return text;
}

}  // namespace

std::string YamlText(std::string_view text) {
  // Written as the only item of a list: text that may stand there without quotes may stand so
  // anywhere.
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
