// Measures the static tables of a plan with many labels: how many bytes they have, and how long it
// takes to write and to read them. Names have lengths as in Coq datasets. Beside them stands what a
// message with a string for each name costs, which is how protocol 2 had them. The limit is memcpy
// of the bytes.
//
// What was read enters the checksum, which is printed.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "common/command_line/command_line.h"
#include "common/transport/convert/table_writer.h"
#include "common/transport/convert/tables.h"
#include "tests/bench/report.h"

namespace millrace {
namespace {

struct Options {
  std::uint64_t labels = 1'000'000;
  int rounds = 7;
  bool json = false;
};

struct Labels {
  explicit Labels(std::uint64_t count) {
    std::uint64_t state = 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      names.push_back(fmt::format("Coq.Library{}.Module{}.definition_{}", state >> 56,
                                  (state >> 40) & 0xFFF, i));
      idents.push_back(static_cast<std::int64_t>(state));
      previous.push_back(i);
    }
  }

  std::vector<std::string> names;
  std::vector<std::int64_t> idents;
  std::vector<std::uint64_t> previous;
};

template <class Values>
auto Each(const Values& values) {
  return [&values](const auto& visit) {
    for (const auto& value : values) visit(value);
  };
}

std::string WriteTable(const Labels& labels) {
  const TableSpec spec = {"node_labels",
                          labels.names.size(),
                          {{"name", ColumnType::kText},
                           {"ident", ColumnType::kSigned},
                           {"previous", ColumnType::kUnsigned}},
                          {}};
  TableWriter writer(spec);
  const auto write = [&] {
    writer.Texts(Each(labels.names));
    writer.Signed(Each(labels.idents));
    writer.Unsigned(Each(labels.previous));
  };
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.WriteTag(wire_fields::Lite::MakeTag(v1::Static::kFormatFieldNumber,
                                          wire_fields::Lite::WIRETYPE_VARINT));
  out.WriteVarint32(kStaticFormat);
  write();
  wire_fields::WriteLengthTag(v1::Static::kTablesFieldNumber, writer.bytes(), out);
  writer.BeginWriting(&out);
  write();
  out.Trim();
  return bytes;
}

/// The same values as fields of one message: a string for each name, and packed numbers.
std::string WriteStrings(const Labels& labels) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  for (const std::string& name : labels.names) {
    wire_fields::WriteString(v1::Spec::kDropReasonsFieldNumber, name, out);
  }
  wire_fields::WritePacked(
      v1::TableColumn::kSignedNumbersFieldNumber + 100,
      [&](const auto& visit) {
        for (const std::int64_t ident : labels.idents) visit(wire_fields::ZigZag(ident));
      },
      out);
  wire_fields::WritePacked(v1::TableColumn::kNumbersFieldNumber + 100, Each(labels.previous), out);
  out.Trim();
  return bytes;
}

template <class Work>
double Median(int rounds, const Work& work) {
  std::vector<double> took;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    took.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::sort(took.begin(), took.end());
  return took[took.size() / 2];
}

void Run(const Options& options) {
  const bench::Report report(options.json);
  const Labels labels(options.labels);
  std::uint64_t checksum = 0;
  const std::string table = WriteTable(labels);
  const std::string strings = WriteStrings(labels);
  std::string copy(table.size(), ' ');
  const double limit = Median(options.rounds, [&] {
    std::memcpy(copy.data(), table.data(), table.size());
    checksum += static_cast<unsigned char>(copy[checksum % copy.size()]);
  });
  const auto add = [&](const char* what, double value, const char* unit) {
    const bool timed = std::string_view(unit) == "ms";
    report.Add({fmt::format("{} labels: {}", options.labels, what),
                value,
                unit,
                timed ? "memcpy" : "",
                timed ? limit : 0,
                {}});
  };
  add("bytes of the table", static_cast<double>(table.size()) / 1e6, "MB");
  add("bytes of strings", static_cast<double>(strings.size()) / 1e6, "MB");
  add("writing the table", Median(options.rounds, [&] { checksum += WriteTable(labels).size(); }),
      "ms");
  add("writing strings", Median(options.rounds, [&] { checksum += WriteStrings(labels).size(); }),
      "ms");
  add("reading the table",
      Median(options.rounds,
             [&] {
               const NamedTables read = DecodeTables(table).value();
               checksum += (*read.Texts("node_labels", "name").value())[options.labels - 1].size();
             }),
      "ms");
  add("reading strings",
      Median(options.rounds,
             [&] {
               v1::Spec message;
               message.ParseFromString(strings);
               const std::vector<std::string> names(message.drop_reasons().begin(),
                                                    message.drop_reasons().end());
               checksum += names.back().size();
             }),
      "ms");
  report.Note(fmt::format("checksum {}", checksum));
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  millrace::CommandLine app("Measures the static tables of a plan: bytes, writing and reading",
                            argv[0]);
  app.AddOption("--labels", &options.labels, "number of labels")
      .ShowDefault()
      .Between(1, 100'000'000);
  app.AddOption("--rounds", &options.rounds, "measurements of each figure")
      .ShowDefault()
      .Positive();
  app.AddFlag("--json", options.json, "prints one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  millrace::Run(options);
  return 0;
}
