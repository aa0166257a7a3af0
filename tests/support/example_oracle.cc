#include "tests/support/example_oracle.h"

#include <cstring>
#include <span>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <example.pb.h>

#include "server/kinds/records/format/example_parser.h"

namespace millrace::test {
namespace {

std::span<const std::byte> AsBytes(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string AsString(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint32_t BitsOf(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

PlainFeature PlainOf(const Feature& feature) {
  PlainFeature plain;
  switch (feature.kind_case()) {
    case Feature::kBytesList:
      plain.kind = FeatureKind::kBytes;
      plain.bytes.assign(feature.bytes_list().value().begin(), feature.bytes_list().value().end());
      break;
    case Feature::kFloatList:
      plain.kind = FeatureKind::kFloat;
      for (const float value : feature.float_list().value()) plain.floats.push_back(BitsOf(value));
      break;
    case Feature::kInt64List:
      plain.kind = FeatureKind::kInt64;
      plain.ints.assign(feature.int64_list().value().begin(), feature.int64_list().value().end());
      break;
    case Feature::KIND_NOT_SET:
      break;
  }
  return plain;
}

PlainFeature PlainOf(const FeatureValues& values) {
  PlainFeature plain;
  plain.kind = values.kind();
  for (const auto value : values.bytes()) plain.bytes.push_back(AsString(value));
  const auto floats = values.float_bytes();
  plain.floats.resize(floats.size() / 4);
  if (!floats.empty()) std::memcpy(plain.floats.data(), floats.data(), floats.size());
  plain.ints.assign(values.ints().begin(), values.ints().end());
  return plain;
}

std::size_t CountOf(const PlainFeature& feature) {
  return feature.bytes.size() + feature.floats.size() + feature.ints.size();
}

}  // namespace

std::optional<PlainExample> ReadByProtobuf(std::string_view bytes) {
  google::protobuf::SetLogHandler(nullptr);  // it would log each key that is not UTF-8
  Example example;
  if (!example.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::nullopt;
  PlainExample plain;
  for (const auto& [name, feature] : example.features().feature()) plain[name] = PlainOf(feature);
  return plain;
}

std::string WriteByProtobuf(const PlainExample& plain) {
  Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  for (const auto& [name, from] : plain) {
    Feature& feature = features[name];
    if (from.kind == FeatureKind::kBytes) {
      auto& list = *feature.mutable_bytes_list();
      for (const std::string& value : from.bytes) list.add_value(value);
    } else if (from.kind == FeatureKind::kFloat) {
      auto& list = *feature.mutable_float_list();
      for (const std::uint32_t bits : from.floats) {
        float value;
        std::memcpy(&value, &bits, sizeof(value));
        list.add_value(value);
      }
    } else if (from.kind == FeatureKind::kInt64) {
      auto& list = *feature.mutable_int64_list();
      for (const std::int64_t value : from.ints) list.add_value(value);
    }
  }
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  example.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

std::string DifferenceFromProtobuf(std::string_view bytes) {
  const std::optional<PlainExample> expected = ReadByProtobuf(bytes);
  std::vector<std::string> all = {"d", "no such feature"};
  std::vector<std::string> half = {"s"};
  if (expected) {
    for (const auto& [name, feature] : *expected) {
      if (name != all[0]) all.push_back(name);
      if (name != half[0] && half.size() <= expected->size() / 2) half.push_back(name);
    }
  }
  ExampleLister lister;
  if (lister.Parse(AsBytes(bytes)) != expected.has_value()) {
    return expected ? "the lister refuses it" : "the lister accepts it";
  }
  for (const auto& names : {all, half, std::vector<std::string>()}) {
    ExampleParser parser(names);
    for (int again = 0; again < 2; ++again) {
      if (parser.Parse(AsBytes(bytes)) != expected.has_value()) {
        return expected ? "the parser refuses it" : "the parser accepts it";
      }
      if (!expected) continue;
      for (std::size_t i = 0; i < names.size(); ++i) {
        const auto found = expected->find(names[i]);
        const PlainFeature plain = found == expected->end() ? PlainFeature() : found->second;
        if (PlainOf(parser.feature(i)) != plain) return "the values of '" + names[i] + "' differ";
        if (parser.feature(i).count() != CountOf(plain)) return "the count of '" + names[i] + "'";
      }
    }
  }
  if (!expected) return "";
  if (lister.features().size() != expected->size()) return "the lister has other names";
  for (const ExampleLister::Feature& feature : lister.features()) {
    const auto found = expected->find(std::string(feature.name));
    if (found == expected->end()) return "the lister has other names";
    if (feature.kind != found->second.kind || feature.count != CountOf(found->second)) {
      return "the lister's kind or count of '" + found->first + "' differs";
    }
  }
  return "";
}

}  // namespace millrace::test
