#include "program.hpp"

int main(int argc, char** argv) {
  return unisono::cli::runProgram(argc, argv);
}
