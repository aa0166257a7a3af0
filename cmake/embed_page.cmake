# Writes OUT, a C++ source with the bytes of FILES (server/web/page_files.h). Run by the build:
#   cmake -DFILES=a.html;b.css -DOUT=page_files.cc -P embed_page.cmake
set(arrays "")
set(rows "")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} id)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND arrays "constexpr char k_${id}[] = {${bytes}};\n")
  string(APPEND rows "    {\"/${name}\", {k_${id}, sizeof k_${id}}},\n")
endforeach()
file(WRITE ${OUT} "#include \"server/web/page_files.h\"

namespace millrace {
namespace {
${arrays}
constexpr PageFile kPageFiles[] = {
${rows}};
}  // namespace

std::span<const PageFile> PageFiles() { return kPageFiles; }

}  // namespace millrace
")
