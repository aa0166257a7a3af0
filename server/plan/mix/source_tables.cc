#include "server/plan/mix/source_tables.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "common/transport/convert/table_writer.h"
#include "common/transport/convert/tables.h"

namespace millrace {

std::string TableBytes(const Source& source, const TableSpec& spec, std::size_t table) {
  std::string bytes;
  TableWriter writer(spec);
  source.tables()->WriteTable(table, writer);
  bytes.reserve(writer.bytes());
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  writer.BeginWriting(&out);
  source.tables()->WriteTable(table, writer);
  out.Trim();
  return bytes;
}

Result<NamedTable> ReadSourceTable(const Source& source, const TableSpec& spec, std::size_t table) {
  return DecodeTable(TableBytes(source, spec, table));
}

}  // namespace millrace
