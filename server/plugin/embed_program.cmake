# Writes OUT, a source that holds the FILES as texts and defines PluginProgram().
set(entries "")
list(SORT FILES)
foreach(file ${FILES})
  file(READ ${file} content)
  get_filename_component(name ${file} NAME)
  # Compilers may limit the length of one literal; they put neighbours together.
  string(REGEX REPLACE "(\n(class|def) )" ")python\"\n      R\"python(\\1" content "${content}")
  string(APPEND entries "  files.files.push_back({\"${name}\",\n      R\"python(${content})python\"});\n")
endforeach()
file(WRITE ${OUT} "#include \"server/plugin/plugin_program.h\"

namespace millrace {

FileSet PluginProgram() {
  FileSet files;
${entries}  return files;
}

}  // namespace millrace
")
