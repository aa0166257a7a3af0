#include "server/plan/static_data.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <utility>

#include "common/transport/convert/table_writer.h"
#include "common/transport/convert/tables.h"
#include "server/plan/hashing_stream.h"
#include "server/source/source.h"

namespace millrace {
namespace {

using google::protobuf::io::CodedOutputStream;
using wire_fields::Lite;

/// Writes all tables. `around(table, write)` is called for each, to call `write`.
template <class Around>
void WriteTables(const Source& source, const std::vector<SourceTableSpec>& tables,
                 CodedOutputStream& out, const Around& around) {
  out.WriteTag(Lite::MakeTag(v1::Static::kFormatFieldNumber, Lite::WIRETYPE_VARINT));
  out.WriteVarint32(kStaticFormat);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    TableWriter writer(tables[i].table);
    source.tables()->WriteTable(i, writer);
    wire_fields::WriteLengthTag(v1::Static::kTablesFieldNumber, writer.bytes(), out);
    around(tables[i].table, [&] {
      writer.BeginWriting(&out);
      source.tables()->WriteTable(i, writer);
    });
  }
}

}  // namespace

std::string MakeStaticBytes(const Source& source) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  CodedOutputStream out(&stream);
  WriteTables(source, source.table_specs(), out,
              [](const TableSpec& /*table*/, const auto& write) { write(); });
  out.Trim();
  return bytes;
}

StaticOutline OutlineStatic(const Source& source) {
  StaticOutline outline;
  HashingStream stream;
  {
    CodedOutputStream out(&stream);
    WriteTables(source, source.table_specs(), out, [&](const TableSpec& table, const auto& write) {
      out.Trim();
      stream.BeginSection();
      write();
      out.Trim();
      outline.tables.push_back(table);
      outline.tables.back().digest = stream.FinishSection().ToHex();
    });
  }
  outline.digest = stream.Finish().ToHex();
  return outline;
}

}  // namespace millrace
