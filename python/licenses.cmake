# The licence texts of what the package carries along, beside the libraries: included when it is
# installed, with `folder` (of the libraries), `libraries` (paths as they are asked for), `program`
# (whether that is in it) and `nanobind` (the folder of that package).
#
# Debian keeps a text for each of its packages. Elsewhere it is for whoever passes a wheel on to add
# them: the build says which are missing.
set(texts "${folder}/licenses")
file(MAKE_DIRECTORY "${texts}")

# add_text(name file): the text of what is called `name`.
function(add_text name file)
  if(EXISTS "${file}")
    message(STATUS "Installing: ${texts}/${name}.txt")
    file(COPY_FILE "${file}" "${texts}/${name}.txt")
  else()
    message(STATUS "No licence text was found for ${name}")
  endif()
endfunction()

foreach(library IN LISTS libraries)
  file(REAL_PATH "${library}" file)
  get_filename_component(name "${library}" NAME)
  execute_process(COMMAND dpkg-query -S "${file}"
                  OUTPUT_VARIABLE owner ERROR_QUIET RESULT_VARIABLE status)
  string(REGEX REPLACE ":.*" "" owner "${owner}")
  add_text("${name}" "/usr/share/doc/${owner}/copyright")
endforeach()
file(GLOB nanobind_texts "${nanobind}-*.dist-info/licenses/LICENSE")
list(APPEND nanobind_texts "none")
list(GET nanobind_texts 0 nanobind_text)
add_text(nanobind "${nanobind_text}")
if(program)
  add_text(cli11 /usr/share/doc/libcli11-dev/copyright)
  add_text(nlohmann-json /usr/share/doc/nlohmann-json3-dev/copyright)
endif()
